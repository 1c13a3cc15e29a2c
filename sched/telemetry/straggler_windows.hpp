#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace cohort {

/// The least of N numbers that change one by one: O(log N) a change.
class LeastOf {
public:
    static constexpr double kNone = std::numeric_limits<double>::infinity();

    explicit LeastOf(std::size_t count) : values_(count, kNone) {}
    /// @param value  kNone: the number does not count
    void set(std::size_t index, double value) {
        const double before = std::exchange(values_[index], value);
        if (before < kNone) {
            sorted_.erase(sorted_.find(before));
        }
        if (value < kNone) {
            sorted_.insert(value);
        }
    }
    [[nodiscard]] double least() const {
        if (sorted_.empty()) {
            return kNone;
        }
        return *sorted_.begin();
    }
    /// Number of values that count.
    [[nodiscard]] std::size_t size() const noexcept { return sorted_.size(); }

private:
    std::vector<double> values_;
    std::multiset<double> sorted_;  ///< those that count
};

/// Lengths of the windows after which slowness counts, chosen by the noise of the times.
class StragglerWindows {
public:
    /// Lengths of windows, in records.
    static constexpr std::array<std::size_t, 6> kLengths{2, 3, 5, 8, 12, 16};
    static constexpr std::size_t kLongest = kLengths.back();
    /// STAR's thresholds for the begin and the end of an episode: ratio to the fastest worker.
    static constexpr double kBegins = 1.2;
    static constexpr double kEnds = 1.1;

    StragglerWindows();
    /// Adds the difference of the logarithms of two successive times of a worker.
    void add_step(double step);
    [[nodiscard]] double sigma() const noexcept;
    /// Number of kLengths in use, the shortest first.
    [[nodiscard]] std::size_t active() const noexcept { return active_; }
    /// Threshold of the mean of log(tau / min tau) over a window from which on a worker is slow.
    [[nodiscard]] double begins(std::size_t window) const { return begins_.at(window); }
    /// Threshold below which the worker is no longer slow.
    [[nodiscard]] double ends(std::size_t window) const { return ends_.at(window); }
    /// Expected distance of the minimum of `count` means from their common mean.
    [[nodiscard]] double least_below(std::size_t window, std::size_t count) const;
    /// Largest value with which a single number counts in a mean: less than the threshold of
    /// slowness.
    [[nodiscard]] double most(std::size_t window) const;
    /// The mean of the newest numbers, in which an outlier far below the others counts for less.
    /// @param logs  newest first
    [[nodiscard]] double level(std::size_t window, std::span<const double> logs) const;
    /// The mean excess of the newest numbers over `least`, in which an outlier far above counts for
    /// less.
    [[nodiscard]] double excess(std::size_t window, std::span<const double> logs,
                                double least) const;

private:
    void set_thresholds();

    double steps_ = 0;  ///< total weight of the steps
    double mean_step_;  ///< mean size of the steps
    int until_next_ = 1;
    std::size_t active_ = 0;
    std::array<double, kLengths.size()> begins_{};
    std::array<double, kLengths.size()> ends_{};
};

}  // namespace cohort
