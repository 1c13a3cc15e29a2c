#pragma once

#include <cstdint>
#include <vector>

namespace cohort {

/// How many reference batches had been applied when a version was made. Keeps the versions that
/// somebody may still compute on.
class VersionHistory {
public:
    VersionHistory(std::int64_t version, double reference_batches)
        : first_(version), sums_{reference_batches} {}

    [[nodiscard]] std::int64_t version() const noexcept {
        return first_ + static_cast<std::int64_t>(sums_.size()) - 1;
    }
    [[nodiscard]] double reference_batches() const noexcept { return sums_.back(); }
    /// Reference batches applied since `version`, one of those kept.
    [[nodiscard]] double lag(std::int64_t version) const noexcept {
        return sums_.back() - sums_[static_cast<std::size_t>(version - first_)];
    }

    /// A new version, worth `fraction` reference batches.
    void append(double fraction) { sums_.push_back(sums_.back() + fraction); }
    /// Worth the work of finding out what may go.
    [[nodiscard]] bool full() const noexcept { return sums_.size() >= limit_; }
    /// Forgets the versions before `oldest`.
    void forget_before(std::int64_t oldest) {
        sums_.erase(sums_.begin(), sums_.begin() + (oldest - first_));
        first_ = oldest;
        limit_ = 2 * sums_.size() + kLeast;
    }

private:
    static constexpr std::size_t kLeast = 1024;
    std::int64_t first_;
    std::vector<double> sums_;  ///< by version - first_
    std::size_t limit_ = kLeast;
};

}  // namespace cohort
