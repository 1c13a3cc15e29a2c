#pragma once

#include <cstdint>
#include <deque>

#include "cohort/core/clock.hpp"
#include "cohort/train/events.hpp"

namespace cohort {

/// Sums over the steps since the last line: what a progress line or metrics record reports.
class StepWindow {
public:
    void restart(Clock::Seconds now);
    void add(const StepReport& step);
    /// Takes a pause (evaluation) out of the window's time.
    void exclude(double seconds) { paused_ += seconds; }

    [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
    [[nodiscard]] double seconds(Clock::Seconds now) const {
        return (now - start_).count() - paused_;
    }
    /// Mean loss per sample and share of correct ones; 0 for an empty window.
    [[nodiscard]] double loss() const;
    [[nodiscard]] double accuracy() const;
    [[nodiscard]] double samples_per_s(Clock::Seconds now) const;

private:
    Clock::Seconds start_{0};
    double paused_ = 0;
    double loss_sum_ = 0;
    std::int64_t correct_ = 0;
    std::int64_t samples_ = 0;
};

/// How unusual a loss is: its distance from the mean of the last 128 in standard deviations.
class LossScore {
public:
    /// Scores `loss` against those before it, then adds it. 0 until 16 are known.
    double add(double loss);

private:
    std::deque<double> last_;
};

}  // namespace cohort
