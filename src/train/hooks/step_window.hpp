#pragma once

#include <cstdint>

#include "cohort/core/clock.hpp"
#include "cohort/train/events.hpp"

namespace cohort {

/// Sums over the steps since the last line: what a progress line or metrics record reports.
class StepWindow {
public:
    void restart(Clock::Seconds now) {
        *this = StepWindow();
        start_ = now;
    }
    void add(const StepReport& step) {
        if (step.applied) {
            loss_sum_ += step.result.loss_sum;
            correct_ += step.result.correct;
            samples_ += step.result.samples;
        }
    }
    /// Takes a pause (evaluation) out of the window's time.
    void exclude(double seconds) { paused_ += seconds; }

    [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
    [[nodiscard]] double seconds(Clock::Seconds now) const {
        return (now - start_).count() - paused_;
    }
    /// Mean loss per sample and share of correct ones; 0 for an empty window.
    [[nodiscard]] double loss() const {
        return samples_ > 0 ? loss_sum_ / static_cast<double>(samples_) : 0;
    }
    [[nodiscard]] double accuracy() const {
        return samples_ > 0 ? correct_ / static_cast<double>(samples_) : 0;
    }
    [[nodiscard]] double samples_per_s(Clock::Seconds now) const {
        const double time = seconds(now);
        return time > 0 ? static_cast<double>(samples_) / time : 0;
    }

private:
    Clock::Seconds start_{0};
    double paused_ = 0;
    double loss_sum_ = 0;
    double correct_ = 0;
    std::int64_t samples_ = 0;
};

}  // namespace cohort
