#pragma once

#include <cstdint>
#include <optional>

#include "cohort/core/clock.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"

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

/// Cuts a run into windows of `log_every_s`.
class WindowMeter {
public:
    void start(const TrainControl& run) { steps_.restart(run.clock().now()); }
    /// @return the window that the step ends; none: it goes on
    [[nodiscard]] std::optional<TrainWindow> add(const TrainControl& run, const StepReport& step) {
        if (!step.applied) {
            return std::nullopt;
        }
        learning_rate_ = step.learning_rate;
        gradient_norm_ = step.gradient_norm;
        steps_.add(step);
        const bool due = steps_.seconds(run.clock().now()) >= run.options().log_every_s;
        return due ? end(run) : std::nullopt;
    }
    /// Ends the window now. @param pause_s  of it, for an evaluation
    /// @return none: no sample was applied in it
    [[nodiscard]] std::optional<TrainWindow> end(const TrainControl& run, double pause_s = 0) {
        const Clock::Seconds now = run.clock().now();
        steps_.exclude(pause_s);
        std::optional<TrainWindow> window;
        if (steps_.samples() > 0) {
            window = {.samples_applied = run.progress().samples_applied,
                      .updates = run.progress().updates,
                      .train_s = run.progress().train_seconds,
                      .learning_rate = learning_rate_,
                      .gradient_norm = gradient_norm_,
                      .samples_per_s = steps_.samples_per_s(now),
                      .loss = steps_.loss(),
                      .accuracy = steps_.accuracy(),
                      .cluster = run.cluster()};
        }
        steps_.restart(now);
        return window;
    }

private:
    StepWindow steps_;
    double learning_rate_ = 0;
    double gradient_norm_ = 0;
};

}  // namespace cohort
