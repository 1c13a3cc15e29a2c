#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/comm/operations.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "train/protocol/protocol.hpp"
#include "train/run/snapshot.hpp"

namespace cohort {

/// Writes a server's shards of checkpoints on a thread of its own, in the order in which they were
/// asked for, and reports each.
class ShardWriter {
public:
    /// @param thread outlives the writer  @param operations so does this; gets the waits by name
    /// @param report called on the writer's thread
    ShardWriter(Hdf5Thread& thread, OperationBoard& operations,
                std::function<void(const SavedPart&)> report);
    ShardWriter(const ShardWriter&) = delete;
    ShardWriter& operator=(const ShardWriter&) = delete;
    /// Finishes what was asked for.
    ~ShardWriter();

    /// Does not block. @param pause_s that copying the snapshot took
    void write(std::string manifest, ShardSnapshot snapshot, double pause_s);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cohort
