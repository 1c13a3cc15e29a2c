#pragma once

#include <cstddef>
#include <vector>

namespace cohort {

/// A block of memory needed from step `first` to step `last`, both included.
struct ArenaRequest {
    std::size_t bytes = 0;
    int first = 0;
    int last = 0;
};

/// Offset of each request; requests whose lifetimes overlap never share a byte.
struct ArenaPlan {
    std::vector<std::size_t> offsets;  ///< multiples of the alignment, in the order of the requests
    std::size_t total_bytes = 0;
};

/// Places requests by liveness: largest first, each at the lowest offset that is free during its
/// whole life. Deterministic; O(n^2) for n requests.
/// @param alignment  of every offset and size, bytes
[[nodiscard]] ArenaPlan plan_arena(const std::vector<ArenaRequest>& requests,
                                   std::size_t alignment = 64);

}  // namespace cohort
