#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cohort {

/// The batch sizes that ran last, at most so many: what an executor keeps plans and recordings of.
class RecentSizes {
public:
    explicit RecentSizes(std::size_t most) : most_(most) {}

    /// The size runs now. @return the one that goes for it: not used for the longest time
    std::optional<std::int64_t> use(std::int64_t size) {
        std::erase(sizes_, size);
        sizes_.push_back(size);
        if (sizes_.size() <= most_) {
            return std::nullopt;
        }
        const std::int64_t oldest = sizes_.front();
        sizes_.erase(sizes_.begin());
        return oldest;
    }

private:
    std::size_t most_;
    std::vector<std::int64_t> sizes_;  ///< the last used is last
};

}  // namespace cohort
