#pragma once

#include <vector>

namespace cohort {

/// Local step times of `live` workers, in their order; an unknown worker counts as the median of
/// the known ones, and as 1 when none is known. @param own_seconds  by worker; empty: none is known
[[nodiscard]] std::vector<double> own_times(const std::vector<double>& own_seconds,
                                            const std::vector<int>& live);

/// Workers cut into groups of similar step times: neighbours in the order of their times part where
/// one takes more than 1.3 times as long as the other, and groups whose slowest takes more than
/// 1.69 times as long as their fastest part at their widest gap. Fastest group first; in a group
/// ascending.
[[nodiscard]] std::vector<std::vector<int>> similar_groups(const std::vector<int>& live,
                                                           const std::vector<double>& times);

/// The `count` fastest of `live`, ascending; among equally fast workers those with lower indices.
[[nodiscard]] std::vector<int> fastest(const std::vector<int>& live,
                                       const std::vector<double>& times, int count);

/// The k for which the first k workers finish the most work per second: argmax k / t_k with t_k the
/// k-th smallest of `times`.
[[nodiscard]] int best_quorum(std::vector<double> times);

/// Pushes per second when each group waits for all of its own: sum over the groups of
/// size / slowest time. Workers that are not live do not count.
[[nodiscard]] double pace_of(const std::vector<std::vector<int>>& groups,
                             const std::vector<int>& live, const std::vector<double>& times);

}  // namespace cohort
