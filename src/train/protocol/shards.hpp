#pragma once

#include <cstdint>
#include <vector>

#include "cohort/model/graph.hpp"

namespace cohort {

/// One owner's part of the flat buffers: the parameters [begin, end) (floats) and, for part 0, all
/// of the state. With rings there is one part.
struct ShardRange {
    std::int32_t part = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t state = 0;  ///< floats of state in this part

    [[nodiscard]] std::int64_t parameters() const noexcept { return end - begin; }
    /// Floats in a transfer of this part: parameters, then state.
    [[nodiscard]] std::int64_t floats() const noexcept { return parameters() + state; }
};

/// Cuts the parameters of a graph into `parts` of equal bytes, by bytes alone, at multiples of 64.
[[nodiscard]] std::vector<ShardRange> cut_shards(const Graph& graph, int parts);

}  // namespace cohort
