// The manifest of a checkpoint: identity, progress, accounts, leases, and the table of shards.
//
// 1. Each owner writes its shard under a name that no file has yet (checkpoint_shard.cpp).
// 2. write_manifest reads every shard back, once: the checkpoint relies on the files that this rank
// sees on the disk, not on reports of other ranks.
// 3. The manifest is written with length and CRC-32 of each shard and gets its name last.
// 4. Shards of the same step that the manifest does not list (earlier attempts) are deleted.
// Cost: one reading of all shards by the rank that writes the manifest, in the background.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/networks/network.hpp"
#include "train/checkpoint/checkpoint_format.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {
namespace {

const StoreFormat kManifestFormat{"cohort-checkpoint", 3};

constexpr const char* kNetwork = "/network";

std::string entry_of(std::size_t index) {
    return fmt::format("/shards/{}", index);
}

/// Errors: FileError unless the shards, in order of their ranges, cover [0, parameters) once and
/// hold the state at most once.
void check_cover(const std::string& path, const ShardTable& table) {
    std::int64_t covered = 0;
    for (const ShardFile& shard : table.shards) {
        if (shard.begin != covered || shard.end < shard.begin) {
            fail<FileError>(
                {.where = path,
                 .what = "the shards do not cover all parameters once",
                 .expected = fmt::format("one that begins at {}", covered),
                 .got = fmt::format("{} of {} to {}", shard.file, shard.begin, shard.end)});
        }
        covered = shard.end;
    }
    if (covered != table.parameters) {
        fail<FileError>({.where = path,
                         .what = "shards are missing",
                         .expected = fmt::format("{} parameters in all", table.parameters),
                         .got = fmt::format("{} in {} files", covered, table.shards.size())});
    }
    const auto with_state = std::count_if(table.shards.begin(), table.shards.end(),
                                          [](const ShardFile& shard) { return shard.has_state; });
    if (with_state > 1) {
        fail<FileError>({.where = path,
                         .what = "the state comes with more than one shard",
                         .got = std::to_string(with_state)});
    }
}

/// The table of the files that `snapshot` names, read from the disk.
ShardTable make_table(const std::string& path, const RunSnapshot& snapshot, Hdf5Thread& thread) {
    ShardTable table{.version = snapshot.version, .parameters = snapshot.parameters, .shards = {}};
    for (const std::string& file : snapshot.shards) {
        const auto shard = open_shard(beside(path, file), thread);
        table.shards.push_back(describe_shard(*shard, snapshot.version));
    }
    std::sort(table.shards.begin(), table.shards.end(), [](const auto& a, const auto& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_cover(path, table);
    return table;
}

/// Whole numbers and seconds of a snapshot by attribute name; one list for reading and writing.
/// The bindings name every field, so that the code does not compile until an added field is listed
/// here.
template <class Snapshot>
auto integer_fields(Snapshot& s) {
    auto& [applied, updates, drops, evaluated, train, wall, cpu, tta] = s.progress;
    auto& [row, dropped, recent] = drops;
    auto& [leased, used, non_finite, void_round, stop, late, interrupted, lost, outstanding] =
        s.accounts;
    return std::map<std::string, decltype(&s.metrics_bytes)>{
        {"samples_applied", &applied},
        {"updates", &updates},
        {"dropped_in_a_row", &row},
        {"batches_dropped", &dropped},
        {"evaluated_at", &evaluated},
        {"leased", &leased},
        {"applied", &used},
        {"returned_non_finite", &non_finite},
        {"returned_void_round", &void_round},
        {"returned_stop", &stop},
        {"returned_dropped", &late},
        {"returned_interrupted", &interrupted},
        {"returned_lost", &lost},
        {"outstanding", &outstanding},
        {"metrics_bytes", &s.metrics_bytes},
    };
}

template <class Snapshot>
auto seconds_fields(Snapshot& s) {
    return std::map<std::string, decltype(&s.progress.train_seconds)>{
        {"train_seconds", &s.progress.train_seconds},
        {"wall_seconds", &s.progress.wall_seconds},
        {"cpu_seconds", &s.progress.cpu_seconds},
    };
}

constexpr std::int64_t kMostNumber = std::int64_t{1} << 53;

/// A count or a sum of seconds. Errors: FileError for one that no run can reach.
template <class Number>
Number read_number(const StoreReader& reader, const std::string& group, const std::string& name,
                   Number least = 0) {
    const auto number = reader.attribute<Number>(group, name);
    if (!(number >= least && number <= static_cast<Number>(kMostNumber))) {  // NaN too
        fail<FileError>({.where = reader.path(),
                         .what = fmt::format("{} of {} is out of range", name, group),
                         .expected = fmt::format("{} to {}", least, kMostNumber),
                         .got = fmt::format("{}", number)});
    }
    return number;
}

/// Errors: FileError naming the first layer that differs.
void check_network(const StoreReader& reader, const std::string& wanted) {
    std::string found;
    for (const std::byte byte : reader.get<std::byte>(kNetwork)) {
        found += static_cast<char>(byte);
    }
    const std::string difference = network_difference(wanted, found, reader.path() + kNetwork);
    if (!difference.empty()) {
        fail<FileError>({.where = reader.path(),
                         .what = "belongs to another run: the network differs: " + difference,
                         .hint = "the network of that run, or another --out"});
    }
}

/// Errors: FileError naming the fact that differs.
void check_identity(const StoreReader& reader,
                    const std::vector<std::pair<std::string, std::string>>& wanted) {
    for (const auto& [name, value] : wanted) {
        if (name == kNetworkFact) {
            check_network(reader, value);
            continue;
        }
        const std::string found = reader.has_attribute("/identity", name)
                                      ? reader.attribute<std::string>("/identity", name)
                                      : "nothing";
        if (found != value) {
            fail<FileError>({.where = reader.path(),
                             .what = "belongs to another run: " + name + " differs",
                             .expected = value,
                             .got = found,
                             .hint = "the options of that run, or another --out"});
        }
    }
}

/// Progress and accounts, leases, identity of the run.
void write_run(StoreWriter& writer, const RunSnapshot& snapshot) {
    for (const auto& [name, value] : snapshot.identity) {
        if (name == kNetworkFact) {  // too long for an attribute
            writer.put(kNetwork, std::as_bytes(std::span(value)));
        } else {
            writer.set("/identity", name, value);
        }
    }
    if (!snapshot.arithmetic.empty()) {
        writer.set("/run", "arithmetic", snapshot.arithmetic);
    }
    for (const auto& [name, value] : integer_fields(snapshot)) {
        writer.set("/progress", name, *value);
    }
    for (const auto& [name, value] : seconds_fields(snapshot)) {
        writer.set("/progress", name, *value);
    }
    if (snapshot.progress.tta_seconds) {
        writer.set("/progress", "tta_seconds", *snapshot.progress.tta_seconds);
    }
    put_if_any(writer, "/leases", snapshot.lease_state);
    put_if_any(writer, "/recent_drops", snapshot.progress.drops.recent);
    writer.set("/run", "reference_batch", snapshot.reference_batch);
    writer.set("/run", "reference_batches", snapshot.reference_batches);
}

void read_run(const StoreReader& reader, RunSnapshot& snapshot) {
    if (reader.has_attribute("/run", "arithmetic")) {
        snapshot.arithmetic = reader.attribute<std::string>("/run", "arithmetic");
    }
    for (const auto& [name, value] : integer_fields(snapshot)) {
        *value = read_number<std::int64_t>(reader, "/progress", name);
    }
    for (const auto& [name, value] : seconds_fields(snapshot)) {
        *value = read_number<double>(reader, "/progress", name);
    }
    if (reader.has_attribute("/progress", "tta_seconds")) {
        snapshot.progress.tta_seconds = read_number<double>(reader, "/progress", "tta_seconds");
    }
    snapshot.lease_state = get_if_any<std::int64_t>(reader, "/leases");
    static_cast<void>(decode_lease_state(snapshot.lease_state, reader.path() + ":/leases"));
    snapshot.progress.drops.recent = get_if_any<std::int64_t>(reader, "/recent_drops");
    snapshot.reference_batch = read_number<std::int64_t>(reader, "/run", "reference_batch", 1);
    snapshot.reference_batches = read_number<double>(reader, "/run", "reference_batches");
}

void write_table(StoreWriter& writer, const ShardTable& table) {
    writer.set("/run", "version", table.version);
    writer.set("/run", "parameters", table.parameters);
    writer.set("/run", "shards", static_cast<std::int64_t>(table.shards.size()));
    for (std::size_t i = 0; i < table.shards.size(); ++i) {
        const ShardFile& shard = table.shards[i];
        writer.set(entry_of(i), "file", shard.file);
        writer.set(entry_of(i), "part", shard.part);
        writer.set(entry_of(i), "begin", shard.begin);
        writer.set(entry_of(i), "end", shard.end);
        writer.set(entry_of(i), "state", std::int64_t{shard.has_state});
        writer.set(entry_of(i), "bytes", shard.stamp.bytes);
        writer.set(entry_of(i), "crc32", std::uint64_t{shard.stamp.crc32});
    }
}

/// Removes files of earlier attempts at the same step. The checkpoint is complete without this.
void remove_unlisted(const std::string& path, const std::vector<std::string>& listed) {
    std::vector<std::string> others;
    for (const std::string& shard : shard_files(path)) {
        std::string name = std::filesystem::path(shard).filename().string();
        if (std::find(listed.begin(), listed.end(), name) == listed.end()) {
            others.push_back(std::move(name));
        }
    }
    discard_shards(path, others);
}

constexpr std::size_t kHead = 4;
constexpr std::size_t kSlice = 3;

}  // namespace

ShardTable read_shard_table(const StoreReader& manifest) {
    manifest.require_format(kManifestFormat);
    ShardTable table{.version = read_number<std::int64_t>(manifest, "/run", "version"),
                     .parameters = manifest.attribute<std::int64_t>("/run", "parameters"),
                     .shards = {}};
    const auto count = manifest.attribute<std::int64_t>("/run", "shards");
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        const std::string entry = entry_of(i);
        const auto crc = manifest.attribute<std::uint64_t>(entry, "crc32");
        table.shards.push_back({.file = manifest.attribute<std::string>(entry, "file"),
                                .part = manifest.attribute<std::int64_t>(entry, "part"),
                                .begin = manifest.attribute<std::int64_t>(entry, "begin"),
                                .end = manifest.attribute<std::int64_t>(entry, "end"),
                                .has_state = manifest.attribute<std::int64_t>(entry, "state") != 0,
                                .stamp = {manifest.attribute<std::uint64_t>(entry, "bytes"),
                                          static_cast<std::uint32_t>(crc)}});
    }
    check_cover(manifest.path(), table);
    return table;
}

void write_manifest(const std::string& path, const RunSnapshot& snapshot, Hdf5Thread& thread) {
    try {
        const ShardTable table = make_table(path, snapshot, thread);
        StoreWriter writer({path, true, FolderRule::kOwnReal}, kManifestFormat, thread);
        write_run(writer, snapshot);
        write_table(writer, table);
        writer.commit();
    } catch (...) {
        // The shards must not use the space of the next attempt. A manifest of this name is an
        // older one, or this one with a failed last step (fsync of the folder).
        std::error_code error;
        if (!std::filesystem::exists(path, error) && !error) {
            discard_shards(path, snapshot.shards);
        }
        throw;
    }
    remove_unlisted(path, snapshot.shards);
}

RunSnapshot read_manifest(const std::string& path,
                          const std::vector<std::pair<std::string, std::string>>& identity,
                          Hdf5Thread& thread) {
    require_no_link(path);
    const StoreReader reader(path, thread);
    const ShardTable table = read_shard_table(reader);
    RunSnapshot snapshot;
    snapshot.identity = identity;
    check_identity(reader, identity);
    read_run(reader, snapshot);
    snapshot.version = table.version;
    snapshot.parameters = table.parameters;
    for (const ShardFile& shard : table.shards) {
        static_cast<void>(open_listed_shard(path, table, shard, thread));
        snapshot.shards.push_back(shard.file);
    }
    return snapshot;
}

std::vector<std::int64_t> encode_lease_state(const LeaseState& state) {
    std::vector<std::int64_t> numbers{state.epoch, state.position, state.applied,
                                      static_cast<std::int64_t>(state.next_id)};
    for (const LeaseSlice& slice : state.pending) {
        numbers.insert(numbers.end(), {slice.epoch, slice.position, slice.count});
    }
    return numbers;
}

LeaseState decode_lease_state(const std::vector<std::int64_t>& numbers, const std::string& where) {
    if (numbers.size() < kHead || (numbers.size() - kHead) % kSlice != 0) {
        fail<FileError>({.where = where,
                         .what = "the data position has the wrong length",
                         .expected = "4 + 3 n numbers",
                         .got = std::to_string(numbers.size())});
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const bool epoch = i == 0 || (i >= kHead && (i - kHead) % kSlice == 0);
        const std::int64_t least = i + 1 == kHead ? 1 : 0;  // the next lease's id
        const std::int64_t most = epoch ? std::numeric_limits<std::uint32_t>::max() : kMostNumber;
        if (numbers[i] < least || numbers[i] > most) {
            fail<FileError>(
                {.where = where,
                 .what = fmt::format("number {} of the data position is out of range", i),
                 .expected = fmt::format("{} to {}", least, most),
                 .got = std::to_string(numbers[i])});
        }
    }
    LeaseState state{.epoch = static_cast<std::uint32_t>(numbers[0]),
                     .position = numbers[1],
                     .applied = numbers[2],
                     .next_id = static_cast<std::uint64_t>(numbers[3])};
    for (std::size_t i = kHead; i < numbers.size(); i += kSlice) {
        state.pending.push_back({.epoch = static_cast<std::uint32_t>(numbers[i]),
                                 .position = numbers[i + 1],
                                 .count = numbers[i + 2]});
    }
    return state;
}

}  // namespace cohort
