#pragma once

#include <set>
#include <string>
#include <vector>

#include "cohort/comm/rank_map.hpp"

namespace cohort {

/// Which workers are lost, and how many may be. Pure.
class LostWorkers {
public:
    /// @param max_lost workers that may be lost at a time; never all of them;
    ///        negative: all but one
    LostWorkers(const RankMap& map, int max_lost);

    /// Notes that a worker's rank is lost; false when that is known.
    [[nodiscard]] bool lost(int rank);
    /// Notes that it is back; false when it was not lost.
    [[nodiscard]] bool returned(int rank);
    [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
    /// More are lost than may be.
    [[nodiscard]] bool too_many() const noexcept;
    /// World ranks that are lost now.
    [[nodiscard]] std::vector<int> ranks() const { return {lost_.begin(), lost_.end()}; }
    [[nodiscard]] int live() const noexcept;
    [[nodiscard]] int times_lost() const noexcept { return times_lost_; }
    [[nodiscard]] int times_returned() const noexcept { return times_returned_; }
    /// "workers lost: rank 4 (host h1, pid 4711), ...; 1 of 3 losses ended with a return"; empty:
    /// no worker was lost.
    [[nodiscard]] std::string story() const;

private:
    const RankMap& map_;
    int max_lost_;
    std::set<int> lost_;
    std::set<int> ever_;
    int times_lost_ = 0;
    int times_returned_ = 0;
};

}  // namespace cohort
