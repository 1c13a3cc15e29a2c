#pragma once

#include <cstdint>
#include <vector>

#include "model/execution_plan.hpp"

namespace cohort {

/// Which kernel calls run in which order, cut into segments, and which values share memory.
struct ExecutionOrder {
    std::vector<Segment> segments;
    std::vector<int> activation_storage;  ///< per value: the value whose memory it uses
    std::vector<int> gradient_storage;    ///< per value, likewise
};

/// @param member_samples most samples a team member handles
/// @param cache_bytes    what one step's tensors of a slice should fit into
[[nodiscard]] ExecutionOrder order_execution(const CompiledGraph& compiled,
                                             std::int64_t member_samples, std::size_t cache_bytes);

/// The same calls as one segment.
[[nodiscard]] ExecutionOrder order_whole_batch(const CompiledGraph& compiled, std::int64_t batch);

}  // namespace cohort
