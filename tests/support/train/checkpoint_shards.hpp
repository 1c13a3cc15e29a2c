#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cohort/data/hdf5_thread.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {

inline const std::vector<std::pair<std::string, std::string>> kTestIdentity{{"model", "lenet"},
                                                                            {"seed", "1"}};

/// Floats of parameters and state in the checkpoints below.
inline constexpr std::int64_t kTestParameters = 1000;
inline constexpr std::int64_t kTestState = 6;

/// Numbers that tell version, array and place.
inline float test_value(std::int64_t version, int array, std::int64_t at) {
    return static_cast<float>(version) + 0.25F * static_cast<float>(array) +
           1e-3F * static_cast<float>(at);
}

inline std::vector<float> test_values(std::int64_t version, int array, std::int64_t begin,
                                      std::int64_t end) {
    std::vector<float> values;
    for (std::int64_t at = begin; at < end; ++at) {
        values.push_back(test_value(version, array, at));
    }
    return values;
}

inline ShardSnapshot test_shard(std::int64_t version, int part, std::int64_t begin,
                                std::int64_t end) {
    ShardSnapshot shard{.part = part, .begin = begin, .end = end, .version = version};
    shard.parameters = test_values(version, 0, begin, end);
    shard.optimizer_slots = {{"first", test_values(version, 1, begin, end)},
                             {"second", test_values(version, 2, begin, end)}};
    shard.optimizer_scalars = {{"filled", 0.1 * static_cast<double>(version)}};
    if (part == 0) {
        shard.state = test_values(version, 3, 0, kTestState);
    }
    return shard;
}

/// Shards that cut the parameters at `cuts`.
inline std::vector<ShardSnapshot> test_shards(std::int64_t version,
                                              const std::vector<std::int64_t>& cuts = {}) {
    std::vector<std::int64_t> ends = cuts;
    ends.push_back(kTestParameters);
    std::vector<ShardSnapshot> shards;
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
        shards.push_back(test_shard(version, static_cast<int>(shards.size()), begin, end));
        begin = end;
    }
    return shards;
}

/// A run after `version` updates of 10 samples.
inline RunSnapshot test_run(std::int64_t version, std::vector<std::string> shards) {
    RunSnapshot run;
    run.identity = kTestIdentity;
    run.progress.samples_applied = 10 * version;
    run.progress.updates = version;
    run.version = version;
    run.reference_batch = 40;
    run.reference_batches = static_cast<double>(version) / 4;
    run.parameters = kTestParameters;
    run.lease_state = encode_lease_state({.applied = 10 * version});
    run.shards = std::move(shards);
    return run;
}

/// Writes a whole checkpoint and returns the manifest's path.
inline std::string write_test_checkpoint(const std::string& folder, std::int64_t version,
                                         Hdf5Thread& thread,
                                         const std::vector<std::int64_t>& cuts = {}) {
    const std::string path = checkpoint_path(folder, 10 * version);
    std::vector<std::string> files;
    for (const ShardSnapshot& shard : test_shards(version, cuts)) {
        files.push_back(write_shard(path, shard, thread));
    }
    write_manifest(path, test_run(version, files), thread);
    return path;
}

/// Whether [begin, end) of a checkpoint reads as it was written.
inline bool reads_as_written(const std::string& path, std::int64_t version, std::int64_t begin,
                             std::int64_t end, Hdf5Thread& thread) {
    const ShardSnapshot read = read_checkpoint_range(path, begin, end, true, thread);
    const ShardSnapshot written = test_shard(version, 0, begin, end);
    return read.version == version && read.begin == begin && read.end == end &&
           read.parameters == written.parameters && read.state == written.state &&
           (begin == end || read.optimizer_slots == written.optimizer_slots) &&
           read.optimizer_scalars == written.optimizer_scalars;
}

}  // namespace cohort
