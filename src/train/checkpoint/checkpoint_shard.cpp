// One shard of a checkpoint, and reading any range of parameters back from the shards of another
// cut. Cost of a range: the shards that it touches are read whole (their checksums cover all).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "train/checkpoint/checkpoint_format.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {
namespace {

const StoreFormat kShardFormat{"cohort-checkpoint-shard", 1};
constexpr const char* kSlotGroup = "/optimizer/slots/";
constexpr const char* kScalarGroup = "/optimizer/scalars/";

std::size_t count_of(std::int64_t begin, std::int64_t end) {
    return static_cast<std::size_t>(end - begin);
}

/// The part of a range that a shard holds.
struct Overlap {
    std::int64_t begin;
    std::int64_t end;
};

/// Copies the shard's part of the array `name` into `to`, which holds [range.begin, range.end).
void copy_part(const StoreReader& shard, const std::string& name, const ShardFile& listed,
               const Overlap& overlap, std::int64_t begin, std::span<float> to) {
    std::vector<float> values(count_of(listed.begin, listed.end));
    shard.read_into<float>(name, values);
    const auto from = std::span(values).subspan(count_of(listed.begin, overlap.begin),
                                                count_of(overlap.begin, overlap.end));
    std::copy(from.begin(), from.end(), to.subspan(count_of(begin, overlap.begin)).begin());
}

std::vector<std::string> names_under(const StoreReader& shard, const std::string& group) {
    std::vector<std::string> names;
    for (const std::string& name : shard.names()) {
        if (name.starts_with(group)) {
            names.push_back(name.substr(group.size()));
        }
    }
    return names;
}

std::vector<std::pair<std::string, double>> read_scalars(const StoreReader& shard) {
    std::vector<std::pair<std::string, double>> scalars;
    for (const std::string& name : names_under(shard, kScalarGroup)) {
        scalars.emplace_back(name, shard.get<double>(kScalarGroup + name).at(0));
    }
    return scalars;
}

/// Collects one range from the shards of a checkpoint.
class RangeReader {
public:
    RangeReader(std::int64_t begin, std::int64_t end, std::int64_t version) {
        snapshot_.begin = begin;
        snapshot_.end = end;
        snapshot_.version = version;
        snapshot_.parameters.resize(count_of(begin, end));
    }

    /// Adds the shard's part of the range; the first shard determines the optimizer slots.
    void add(const StoreReader& shard, const ShardFile& listed, bool with_state) {
        add_scalars(shard);
        if (with_state) {
            snapshot_.state = shard.get<float>("/state");
        }
        const Overlap overlap{std::max(snapshot_.begin, listed.begin),
                              std::min(snapshot_.end, listed.end)};
        if (overlap.begin >= overlap.end) {
            return;
        }
        add_slot_names(shard);
        copy_part(shard, "/parameters", listed, overlap, snapshot_.begin, snapshot_.parameters);
        for (auto& [name, values] : snapshot_.optimizer_slots) {
            copy_part(shard, kSlotGroup + name, listed, overlap, snapshot_.begin, values);
        }
    }

    [[nodiscard]] ShardSnapshot take() { return std::move(snapshot_); }

private:
    void add_scalars(const StoreReader& shard) {
        auto scalars = read_scalars(shard);
        if (!have_scalars_) {
            snapshot_.optimizer_scalars = std::move(scalars);
            have_scalars_ = true;
        } else if (scalars != snapshot_.optimizer_scalars) {
            fail<FileError>({.where = shard.path(),
                             .what = "its optimizer has another state than that of other shards"});
        }
    }

    void add_slot_names(const StoreReader& shard) {
        const auto names = names_under(shard, kSlotGroup);
        if (!have_slots_) {
            for (const std::string& name : names) {
                snapshot_.optimizer_slots.emplace_back(
                    name, std::vector<float>(snapshot_.parameters.size()));
            }
            have_slots_ = true;
        }
        const bool same = std::equal(names.begin(), names.end(), snapshot_.optimizer_slots.begin(),
                                     snapshot_.optimizer_slots.end(),
                                     [](const auto& a, const auto& b) { return a == b.first; });
        if (!same) {
            fail<FileError>({.where = shard.path(),
                             .what = "its optimizer is of another kind than that of other shards"});
        }
    }

    ShardSnapshot snapshot_;
    bool have_scalars_ = false;
    bool have_slots_ = false;
};

void check_range(const std::string& path, const ShardTable& table, std::int64_t begin,
                 std::int64_t end) {
    if (begin < 0 || begin > end || end > table.parameters) {
        fail<FileError>({.where = path,
                         .what = "does not fit this run",
                         .expected = fmt::format("parameters {} to {}", begin, end),
                         .got = fmt::format("{} in all", table.parameters)});
    }
}

}  // namespace

std::string beside(const std::string& manifest_path, std::string_view name) {
    return std::filesystem::path(manifest_path).replace_filename(name).string();
}

std::unique_ptr<StoreReader> open_shard(const std::string& path, Hdf5Thread& thread) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
        fail<FileError>({.where = path,
                         .what = "a shard of the checkpoint is not there",
                         .got = error ? error.message() : "no such file",
                         .hint = "--out in a folder that all ranks share"});
    }
    require_no_link(path);
    auto shard = std::make_unique<StoreReader>(path, thread);
    shard->require_format(kShardFormat);
    return shard;
}

ShardFile describe_shard(const StoreReader& shard, std::int64_t version) {
    const auto found = shard.attribute<std::int64_t>("/shard", "version");
    if (found != version) {
        fail<FileError>({.where = shard.path(),
                         .what = "the shard is of another version of the parameters",
                         .expected = std::to_string(version),
                         .got = std::to_string(found)});
    }
    return {.file = std::filesystem::path(shard.path()).filename().string(),
            .part = shard.attribute<std::int64_t>("/shard", "part"),
            .begin = shard.attribute<std::int64_t>("/shard", "begin"),
            .end = shard.attribute<std::int64_t>("/shard", "end"),
            .has_state = shard.contains("/state"),
            .stamp = shard.stamp()};
}

std::unique_ptr<StoreReader> open_listed_shard(const std::string& manifest_path,
                                               const ShardTable& table, const ShardFile& listed,
                                               Hdf5Thread& thread) {
    auto shard = open_shard(beside(manifest_path, listed.file), thread);
    const ShardFile found = describe_shard(*shard, table.version);
    if (found.stamp != listed.stamp || found.part != listed.part || found.begin != listed.begin ||
        found.end != listed.end || found.has_state != listed.has_state) {
        const auto text = [](const ShardFile& file) {
            return fmt::format("{} bytes with CRC-32 {:08x}", file.stamp.bytes, file.stamp.crc32);
        };
        fail<FileError>({.where = shard->path(),
                         .what = "not the shard that was written with this checkpoint",
                         .expected = text(listed),
                         .got = text(found)});
    }
    return shard;
}

std::string write_shard(const std::string& manifest_path, const ShardSnapshot& snapshot,
                        Hdf5Thread& thread) {
    const std::string folder = std::filesystem::path(manifest_path).parent_path().string();
    make_own_folder(folder, FolderRule::kOwnReal);
    std::string name = new_shard_name(manifest_path, snapshot.part);
    StoreWriter writer({beside(manifest_path, name), true, FolderRule::kOwnReal}, kShardFormat,
                       thread);
    writer.set("/shard", "part", std::int64_t{snapshot.part});
    writer.set("/shard", "begin", snapshot.begin);
    writer.set("/shard", "end", snapshot.end);
    writer.set("/shard", "version", snapshot.version);
    put_if_any(writer, "/parameters", snapshot.parameters);
    put_if_any(writer, "/state", snapshot.state);
    for (const auto& [slot, values] : snapshot.optimizer_slots) {
        put_if_any(writer, kSlotGroup + slot, values);
    }
    for (const auto& [scalar, value] : snapshot.optimizer_scalars) {
        writer.put(kScalarGroup + scalar, std::vector<double>{value});
    }
    writer.commit();
    return name;
}

ShardSnapshot read_checkpoint_range(const std::string& manifest_path, std::int64_t begin,
                                    std::int64_t end, bool with_state, Hdf5Thread& thread) {
    require_no_link(manifest_path);
    const StoreReader manifest(manifest_path, thread);
    const ShardTable table = read_shard_table(manifest);
    check_range(manifest_path, table, begin, end);
    RangeReader range(begin, end, table.version);
    for (const ShardFile& listed : table.shards) {
        const bool overlaps = listed.begin < end && begin < listed.end;
        const bool first = &listed == &table.shards.front();
        const bool state = with_state && listed.has_state;
        if (overlaps || state || (first && begin == end)) {
            const auto shard = open_listed_shard(manifest_path, table, listed, thread);
            range.add(*shard, listed, state);
        }
    }
    return range.take();
}

}  // namespace cohort
