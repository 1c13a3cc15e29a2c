#include "model/whole_batch_memory.hpp"

#include <string>

#include "cohort/core/error.hpp"
#include "core/units.hpp"

namespace cohort {

const WholeBatchPlan& WholeBatchMemory::prepare(std::int64_t batch, Arena& arena) {
    const WholeBatchPlan& plan = plan_for(batch, arena);
    try {
        arena.reserve(plan.arena_bytes);
    } catch (const OutOfMemory& error) {
        fail_short(plan, error.free, largest_within(plan, error.free));
    }
    return plan;
}

const WholeBatchPlan& WholeBatchMemory::plan_for(std::int64_t batch, const Arena& arena) {
    const auto found = plans_.find(batch);
    if (found != plans_.end()) {
        return found->second;
    }
    // Kernels measure what they do to a batch of this size: not when its tensors alone do not fit.
    const WholeBatchPlan tensors = plan_tensors(compiled_, batch, staged_);
    if (const std::uint64_t room = arena.room(); tensors.arena_bytes > room) {
        fail_short(tensors, room, fitting(tensors, room));
    }
    return plans_.emplace(batch, plan_whole_batch(compiled_, batch, staged_)).first->second;
}

std::int64_t WholeBatchMemory::largest_within(const WholeBatchPlan& plan,
                                              std::uint64_t free) const {
    // Libraries load kernels and make recordings later: not the last byte is for the arena.
    return largest_batch_within(compiled_, plan, staged_, free - free / 64);
}

/// The largest batch whose tensors fit is prepared, to know what its kernels want besides.
std::int64_t WholeBatchMemory::fitting(const WholeBatchPlan& tensors, std::uint64_t free) {
    const std::int64_t most = largest_within(tensors, free);
    if (most == 0) {
        return 0;
    }
    try {
        return largest_within(plan_whole_batch(compiled_, most, staged_), free);
    } catch (const OutOfMemory&) {
        return most;
    }
}

void WholeBatchMemory::fail_short(const WholeBatchPlan& plan, std::uint64_t free,
                                  std::int64_t fits) const {
    const std::string where = compiled_.graph.name() + " on " + device_.description();
    const std::string hint =
        fits > 0 ? "a batch of at most " + std::to_string(fits) + ", the largest that fits"
                 : "a device with more memory: not even a batch of 1 fits";
    throw OutOfMemory(
        error_message({.where = where,
                       .what = "out of memory: a batch of " + std::to_string(plan.batch) +
                               " asks for " + format_bytes(plan.arena_bytes) + " at once, " +
                               format_bytes(free) + " free",
                       .hint = hint}),
        plan.arena_bytes, free);
}

}  // namespace cohort
