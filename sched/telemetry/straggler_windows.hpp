#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace cohort {

/// The least of N numbers that change one by one: O(log N) a change.
class LeastOf {
public:
    static constexpr double kNone = std::numeric_limits<double>::infinity();

    explicit LeastOf(std::size_t count);
    /// @param value  kNone: it does not count
    void set(std::size_t index, double value);
    [[nodiscard]] double least() const noexcept { return tree_[1]; }
    /// Numbers that count.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    std::size_t leaves_;
    std::size_t size_ = 0;
    std::vector<double> tree_;  ///< node i has the children 2i and 2i + 1
};

/// How long to look before a slowness is believed, from how much times vary anyway.
class StragglerWindows {
public:
    /// Numbers of records.
    static constexpr std::array<std::size_t, 6> kLengths{2, 3, 5, 8, 12, 16};
    static constexpr std::size_t kLongest = kLengths.back();
    /// STAR's rule, and where it ends: of the ratio to the fastest.
    static constexpr double kBegins = 1.2;
    static constexpr double kEnds = 1.1;

    StragglerWindows();
    /// The difference of the logarithms of two times of a worker, one after the other.
    void add_step(double step);
    [[nodiscard]] double sigma() const noexcept;
    /// So many of kLengths are looked at, the shortest ones.
    [[nodiscard]] std::size_t active() const noexcept { return active_; }
    /// Of the mean of log(tau / min tau) over a window: from here on it is slow.
    [[nodiscard]] double begins(std::size_t window) const { return begins_.at(window); }
    /// Below that it is no longer.
    [[nodiscard]] double ends(std::size_t window) const { return ends_.at(window); }
    /// What the least of `count` means lies below the common one.
    [[nodiscard]] double least_below(std::size_t window, std::size_t count) const;
    /// A single number counts up to here in a mean: less than what makes it slow.
    [[nodiscard]] double most(std::size_t window) const;
    /// The mean of the newest numbers, in which one that is far below the others counts for less.
    /// @param logs  newest first
    [[nodiscard]] double level(std::size_t window, std::span<const double> logs) const;
    /// The mean of what the newest are above `least`, in which one that is far above counts for
    /// less.
    [[nodiscard]] double excess(std::size_t window, std::span<const double> logs,
                                double least) const;

private:
    void set_thresholds();

    double steps_ = 0;  ///< weight of them
    double mean_step_;  ///< of their sizes
    int until_next_ = 1;
    std::size_t active_ = 0;
    std::array<double, kLengths.size()> begins_{};
    std::array<double, kLengths.size()> ends_{};
};

}  // namespace cohort
