#pragma once

#include <cstdint>
#include <vector>

namespace cohort {

/// What had been applied when a version was made: samples in reference batches, by which lag is
/// measured, and the sum of f, by which the optimizer moves on. Keeps the versions that a worker
/// may still compute on.
class VersionHistory {
public:
    VersionHistory(std::int64_t version, double reference_batches)
        : first_(version), sums_{{.batches = reference_batches, .worth = 0}} {}

    [[nodiscard]] std::int64_t version() const noexcept {
        return first_ + static_cast<std::int64_t>(sums_.size()) - 1;
    }
    [[nodiscard]] double reference_batches() const noexcept { return sums_.back().batches; }
    /// Reference batches applied since `version`, one of those kept.
    [[nodiscard]] double lag(std::int64_t version) const noexcept {
        return sums_.back().batches - at(version).batches;
    }
    /// The oldest version kept.
    [[nodiscard]] std::int64_t oldest() const noexcept { return first_; }
    /// Sum of f of the updates after version `from` up to `to`, both kept.
    [[nodiscard]] double worth(std::int64_t from, std::int64_t to) const noexcept {
        return at(to).worth - at(from).worth;
    }

    /// A new version. @param batches  samples of its update / B  @param worth  f
    void append(double batches, double worth) {
        sums_.push_back(
            {.batches = sums_.back().batches + batches, .worth = sums_.back().worth + worth});
    }
    /// Large enough that it pays to find the versions to forget.
    [[nodiscard]] bool full() const noexcept { return sums_.size() >= limit_; }
    /// Forgets the versions before `oldest`.
    void forget_before(std::int64_t oldest) {
        sums_.erase(sums_.begin(), sums_.begin() + (oldest - first_));
        first_ = oldest;
        limit_ = 2 * sums_.size() + kLeast;
    }

private:
    struct Sums {
        double batches = 0;
        double worth = 0;
    };
    [[nodiscard]] const Sums& at(std::int64_t version) const noexcept {
        return sums_[static_cast<std::size_t>(version - first_)];
    }

    static constexpr std::size_t kLeast = 1024;
    std::int64_t first_;
    std::vector<Sums> sums_;  ///< by version - first_
    std::size_t limit_ = kLeast;
};

}  // namespace cohort
