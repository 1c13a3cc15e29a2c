#include "train/coordinator/lost_workers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

LostWorkers::LostWorkers(const RankMap& map, int max_lost)
    : map_(map),
      max_lost_(max_lost < 0 ? map.workers() - 1 : std::min(max_lost, map.workers() - 1)) {
}

bool LostWorkers::lost(int rank) {
    if (!lost_.insert(rank).second) {
        return false;
    }
    ever_.insert(rank);
    ++times_lost_;
    return true;
}

bool LostWorkers::returned(int rank) {
    if (lost_.erase(rank) == 0) {
        return false;
    }
    ++times_returned_;
    return true;
}

bool LostWorkers::too_many() const noexcept {
    return static_cast<int>(lost_.size()) > max_lost_;
}

int LostWorkers::live() const noexcept {
    return map_.workers() - static_cast<int>(lost_.size());
}

std::string LostWorkers::story() const {
    if (ever_.empty()) {
        return "";
    }
    return fmt::format("workers lost: {}; {} of {} losses ended with a return",
                       map_.describe(std::vector<int>(ever_.begin(), ever_.end())), times_returned_,
                       times_lost_);
}

}  // namespace cohort
