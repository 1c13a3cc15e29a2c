#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cohort {

/// Quantiles of the newest 256 numbers.
class NewestQuantile {
public:
    static constexpr std::size_t kNewest = 256;

    void add(float number) {
        if (newest_.size() < kNewest) {
            newest_.push_back(number);
        } else {
            sorted_.erase(place(newest_[next_]));
            newest_[next_] = number;
            next_ = (next_ + 1) % kNewest;
        }
        sorted_.insert(place(number), number);
    }
    /// @param share  0..1: share of the numbers below the result. Without numbers the result is 0
    [[nodiscard]] float at(double share) const {
        return sorted_.empty() ? 0
                               : sorted_[static_cast<std::size_t>(
                                     share * static_cast<double>(sorted_.size() - 1))];
    }

private:
    [[nodiscard]] std::vector<float>::iterator place(float number) {
        return std::ranges::lower_bound(sorted_, number);
    }

    std::vector<float> newest_;  ///< a ring
    std::vector<float> sorted_;
    std::size_t next_ = 0;
};

}  // namespace cohort
