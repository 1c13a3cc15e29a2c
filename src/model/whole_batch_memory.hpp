#pragma once

#include <cstdint>
#include <map>

#include "model/executor.hpp"
#include "model/whole_batch_plan.hpp"

namespace cohort {

/// The plans of a network, one per batch size, and the arena's memory for them. A batch that does
/// not fit is refused with the largest that does.
class WholeBatchMemory {
public:
    /// @param setting, compiled  outlive it
    WholeBatchMemory(const ExecutorSetting& setting, CompiledGraph& compiled)
        : compiled_(compiled), device_(setting.device), staged_(setting.support != nullptr) {}

    /// The plan for a batch, with room for it in the arena. Errors: OutOfMemory.
    const WholeBatchPlan& prepare(std::int64_t batch, Arena& arena);

private:
    const WholeBatchPlan& plan_for(std::int64_t batch, const Arena& arena);
    [[nodiscard]] std::int64_t largest_within(const WholeBatchPlan& plan, std::uint64_t free) const;
    [[nodiscard]] std::int64_t fitting(const WholeBatchPlan& tensors, std::uint64_t free);
    [[noreturn]] void fail_short(const WholeBatchPlan& plan, std::uint64_t free,
                                 std::int64_t fits) const;

    CompiledGraph& compiled_;
    const Device& device_;
    bool staged_;
    std::map<std::int64_t, WholeBatchPlan> plans_;
};

}  // namespace cohort
