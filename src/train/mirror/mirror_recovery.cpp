#include "train/mirror/mirror_recovery.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "core/failure_text.hpp"
#include "core/log.hpp"
#include "train/mirror/mirror_keeper.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

struct HeldNote {
    std::vector<MirrorStore::Held> mirrors;
    auto fields() { return std::tie(mirrors); }
};

/// Parts of a mirror that a rank writes as shards of a checkpoint.
struct WriteOrder {
    std::string manifest;  ///< path; empty: nothing is written
    std::string mirror;
    std::vector<std::int32_t> parts;
    bool books = false;  ///< the answer is to have them
    auto fields() { return std::tie(manifest, mirror, parts, books); }
};

struct Written {
    std::vector<std::string> files;
    std::string error;
    std::optional<MirrorBooks> books;
    auto fields() { return std::tie(files, error, books); }
};

Address mirrors_of(int rank) {
    return {rank, Port::kMirror};
}

/// From all ranks, in their order. On rank 0.
template <class Body>
std::vector<Body> gather(World& world, const char* what) {
    std::map<int, Body> came;
    const auto wait = world.operations().begin(what, 0, {}, WaitLimit::kWarn);
    while (static_cast<int>(came.size()) < world.size()) {
        if (const auto message =
                world.messenger().mailbox(Port::kMirror).receive(Clock::Seconds(60))) {
            came.emplace(message->from.rank, decode<Body>(message->body));
        }
    }
    std::vector<Body> all;
    for (auto& [rank, body] : came) {
        all.push_back(std::move(body));
    }
    return all;
}

/// Who writes what of the newest mirror that is whole; orders without a path when there is none
/// that is newer than `samples`.
std::vector<WriteOrder> choose(const std::vector<HeldNote>& notes, std::int64_t samples,
                               const std::string& folder) {
    struct Found {
        std::int64_t samples = -1;
        std::map<std::int32_t, int> holders;  ///< by part
        int books = -1;
        std::int32_t parts = 0;  ///< of the whole mirror
    };
    std::map<std::string, Found> mirrors;
    for (std::size_t rank = 0; rank < notes.size(); ++rank) {
        for (const MirrorStore::Held& held : notes[rank].mirrors) {
            Found& one = mirrors[held.mirror];
            for (const std::int32_t part : held.parts) {
                one.holders.emplace(part, static_cast<int>(rank));
            }
            if (held.samples >= 0) {
                one.samples = held.samples;
                one.books = static_cast<int>(rank);
                one.parts = held.of;
            }
        }
    }
    std::vector<WriteOrder> orders(notes.size());
    const Found* newest = nullptr;
    std::string name;
    for (const auto& [mirror, found] : mirrors) {
        const bool whole =
            found.books >= 0 && static_cast<std::int32_t>(found.holders.size()) == found.parts;
        if (whole && found.samples > std::max(samples, newest ? newest->samples : -1)) {
            newest = &found;
            name = mirror;
        }
    }
    if (newest != nullptr) {
        for (WriteOrder& order : orders) {
            order.manifest = checkpoint_path(folder, newest->samples);
            order.mirror = name;
        }
        for (const auto& [part, rank] : newest->holders) {
            orders[static_cast<std::size_t>(rank)].parts.push_back(part);
        }
        orders[static_cast<std::size_t>(newest->books)].books = true;
    }
    return orders;
}

/// Samples applied at the newest checkpoint; -1: there is none.
std::int64_t newest_samples(const std::string& folder) {
    const std::vector<std::string> found = list_checkpoints(folder);
    if (found.empty()) {
        return -1;
    }
    const std::string stem = std::filesystem::path(found.front()).stem().string();
    return std::stoll(stem.substr(stem.find('-') + 1));
}

Written carry_out(const WriteOrder& order, const MirrorStore& store, Hdf5Thread& hdf5) {
    Written written;
    try {
        for (const std::int32_t part : order.parts) {
            const std::optional<MirrorPart> held = store.part(order.mirror, part);
            check_invariant(held.has_value(), "a part that was told of is held");
            written.files.push_back(write_shard(order.manifest, unpack(*held), hdf5));
        }
    } catch (const std::exception& error) {
        written.error = failure_text(error);
    }
    if (order.books) {
        written.books = store.books(order.mirror);
    }
    return written;
}

/// On rank 0.
void complete(const std::string& manifest, const std::vector<Written>& parts, int keep,
              Hdf5Thread& hdf5) {
    RunSnapshot books;
    std::vector<std::string> files;
    std::string error;
    for (const Written& one : parts) {
        files.insert(files.end(), one.files.begin(), one.files.end());
        books = one.books ? one.books->snapshot : books;
        error = error.empty() ? one.error : error;
    }
    books.shards = files;
    try {
        if (error.empty()) {
            write_manifest(manifest, books, hdf5);
            prune_checkpoints(manifest, keep);
        }
    } catch (const std::exception& failed) {
        error = failure_text(failed);
    }
    if (!error.empty()) {
        log_warn("the newest state in memory, of {} samples, could not be saved: {}",
                 books.progress.samples_applied, error);
        discard_shards(manifest, files);
    }
}

}  // namespace

void save_newest_mirror(World& world, MirrorStore& store, const TrainOptions& options) {
    const CommContext comm{world.messenger(), world.operations(), world.map(), &world.membership()};
    const std::string folder = RunFolder(options.out).checkpoints;
    comm.send(mirrors_of(0), Port::kMirror, MirrorMessage::kHeld, HeldNote{store.held()});
    if (world.rank() == 0) {
        const std::vector<WriteOrder> orders = choose(
            gather<HeldNote>(world, "what is held in memory"), newest_samples(folder), folder);
        std::error_code ignored;  // a folder that is missing is reported by the write
        std::filesystem::create_directories(folder, ignored);
        for (int rank = 0; rank < world.size(); ++rank) {
            comm.send(mirrors_of(rank), Port::kMirror, MirrorMessage::kWrite,
                      orders[static_cast<std::size_t>(rank)]);
        }
    }
    std::optional<Message> message;
    {
        const auto wait = world.operations().begin(
            "orders for what is held in memory", 0, [] { return std::vector<int>{0}; },
            WaitLimit::kWarn);
        while (!message) {
            message = world.messenger().mailbox(Port::kMirror).receive(Clock::Seconds(60));
        }
    }
    const auto order = decode<WriteOrder>(message->body);
    if (!order.manifest.empty()) {
        Hdf5Thread hdf5;
        comm.send(mirrors_of(0), Port::kMirror, MirrorMessage::kWritten,
                  carry_out(order, store, hdf5));
        if (world.rank() == 0) {
            complete(order.manifest, gather<Written>(world, "parts of the state in memory"),
                     options.keep_checkpoints, hdf5);
        }
    }
    store.clear();
    std::string nothing;
    static_cast<void>(world.agree(ExitCode::kDone, nothing));
}

}  // namespace cohort
