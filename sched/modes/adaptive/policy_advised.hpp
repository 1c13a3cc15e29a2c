#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/rate_regressor.hpp"
#include "sched/modes/adaptive/policy_adaptive.hpp"

namespace cohort {

/// Follows the decisions of another mode's policy (the adviser) and measures the rates of the plans
/// in force: samples per second over windows of some reference batches, compared with the timing
/// model for the measured load. A window ends when the plan or the load changes.
class AdvisedPolicy : public AdaptivePolicy {
public:
    /// @param adviser  the mode that decides
    AdvisedPolicy(Mode mode, const Mode& adviser, const ModeSetting& setting);

    Decision start() override;
    /// When the adviser wants to be asked: measuring alone changes nothing.
    [[nodiscard]] std::optional<double> wake_at(const ActiveIterations& running) const override {
        return adviser_->wake_at(running);
    }
    [[nodiscard]] bool wants_load() const override { return adviser_->wants_load(); }
    /// The noise scale is one of RateFeatures.
    [[nodiscard]] bool wants_gradients() const override { return true; }
    void switched(const SwitchReport& report) override;
    [[nodiscard]] std::vector<RateWindow> take_windows() override;

protected:
    static constexpr double kWindowRounds = 8;  ///< reference batches of a window

    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override;

    [[nodiscard]] RateFeatures features_of(const RatedPlan& plan, const Telemetry& telemetry) const;
    /// Reference of rates: the throughput of all workers at the speed of the fastest.
    [[nodiscard]] double healthy_samples_s() const;
    /// The window that ends now, if one does; called after observe(). It is also kept for
    /// take_windows().
    [[nodiscard]] std::optional<RateWindow> measure(const Telemetry& telemetry);
    void restart_window() { window_s_ = window_samples_ = predicted_ = 0; }
    /// When this policy would want to be asked if it decided itself.
    [[nodiscard]] std::optional<double> own_wake_at(const ActiveIterations& running) const {
        return AdaptivePolicy::wake_at(running);
    }
    /// Calls the adviser; must be called at every decision, as the adviser keeps its own state.
    [[nodiscard]] Decision ask_adviser(const Telemetry& telemetry);
    /// The adviser's last decision.
    [[nodiscard]] const PlanOption& advised() const noexcept { return advised_; }

private:
    /// Of live(), for full batches.
    [[nodiscard]] std::vector<double> own_s() const;

    std::unique_ptr<ModePolicy> adviser_;
    PlanOption advised_;
    std::vector<RateWindow> windows_;
    // The window in progress.
    double window_s_ = 0;
    double window_samples_ = 0;
    double predicted_ = 0;
    double timed_samples_s_ = 0;  ///< throughput by the timing model during the window
    double last_s_ = 0;
    std::int64_t last_samples_ = 0;
};

}  // namespace cohort
