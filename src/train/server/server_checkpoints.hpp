#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "cohort/comm/operations.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/mirror/mirror_keeper.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Writes a server's shards of checkpoints, in files or in memory, on a thread of its own, in the
/// order in which they were asked for, and reports each. The destructor finishes what was asked
/// for.
class ShardWriter {
public:
    /// @param thread outlives the writer  @param operations so does this; gets the waits by name
    /// @param report called on the writer's thread
    /// @param mirrors  takes shards that are to stay in memory; nothing: none are ordered
    ShardWriter(Hdf5Thread& thread, OperationBoard& operations,
                std::function<void(const SavedPart&)> report,
                std::optional<MirrorSender> mirrors = {});

    /// Does not block. @param pause_s that copying the snapshot took
    void write(std::string manifest, ShardSnapshot snapshot, double pause_s);

private:
    struct Job {
        std::string manifest;
        ShardSnapshot snapshot;
        double pause_s = 0;
    };
    void work(const std::stop_token& stop);
    [[nodiscard]] SavedPart save(const Job& job);

    Hdf5Thread& hdf5_;
    OperationBoard& operations_;
    std::function<void(const SavedPart&)> report_;
    std::optional<MirrorSender> mirrors_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::deque<Job> jobs_;
    std::uint64_t written_ = 0;
    std::jthread thread_;  ///< last member: starts when the others exist, ends before them
};

}  // namespace cohort
