#pragma once

#include <atomic>

#include "cohort/comm/operations.hpp"
#include "cohort/comm/world.hpp"
#include "comm/world/command_queue.hpp"
#include "comm/world/network.hpp"
#include "comm/world/progress_loop.hpp"

namespace cohort {

/// What the collectives of this module use of the communication thread.
struct CollectiveContext {
    Network& network;
    CommandQueue& commands;
    ProgressLoop& progress;
    OperationBoard& operations;

    /// The highest number of a collective in which this rank has taken part. A new one takes a
    /// higher number, the same on all of its members, for its tags.
    std::atomic<int> last_collective{0};
    /// NCCL could not be set up for an all-reduce of which this rank is a member: kAuto does
    /// without NCCL from then on.
    std::atomic<bool> nccl_failed{false};
};

[[nodiscard]] CollectiveContext& collective_context(World& world) noexcept;

}  // namespace cohort
