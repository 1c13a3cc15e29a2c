#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/rate_regressor.hpp"
#include "sched/modes/adaptive/policy_adaptive.hpp"

namespace cohort {

/// Does what another mode's policy says, and measures what the plans in force achieve: samples per
/// second over windows of some reference batches, beside what the timing model makes of the load
/// that was seen. Windows end with their plan, and where the load changes.
class AdvisedPolicy : public AdaptivePolicy {
public:
    /// @param adviser  whose word counts
    AdvisedPolicy(Mode mode, const Mode& adviser, const ModeSetting& setting);

    Decision start() override;
    /// When the adviser wants to be asked: whoever only measures changes nothing.
    [[nodiscard]] std::optional<double> wake_at(const RunningIterations& running) const override {
        return adviser_->wake_at(running);
    }
    [[nodiscard]] bool wants_load() const override { return adviser_->wants_load(); }
    void switched(const SwitchReport& report) override;
    [[nodiscard]] std::vector<RateWindow> take_windows() override;

protected:
    static constexpr double kWindowRounds = 8;  ///< reference batches of a window

    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override;

    [[nodiscard]] RateFeatures features_of(const RatedPlan& plan, const Telemetry& telemetry) const;
    /// Rates are relative to that of all workers at the pace of the fastest.
    [[nodiscard]] double healthy_samples_s() const;
    /// A window that ends now; after observe(). It is kept for take_windows() too.
    [[nodiscard]] std::optional<RateWindow> measure(const Telemetry& telemetry);
    void restart_window() { window_s_ = window_samples_ = predicted_ = 0; }
    /// When this policy would want to be asked if it decided itself.
    [[nodiscard]] std::optional<double> own_wake_at(const RunningIterations& running) const {
        return AdaptivePolicy::wake_at(running);
    }
    /// To be asked all the time: it follows what happens.
    [[nodiscard]] Decision ask_adviser(const Telemetry& telemetry);
    /// Its last word.
    [[nodiscard]] const PlanOption& advised() const noexcept { return advised_; }

private:
    std::unique_ptr<ModePolicy> adviser_;
    PlanOption advised_;
    std::vector<RateWindow> windows_;
    // The window under way.
    double window_s_ = 0;
    double window_samples_ = 0;
    double predicted_ = 0;
    double timed_samples_s_ = 0;  ///< during it
    double last_s_ = 0;
    std::int64_t last_samples_ = 0;
};

}  // namespace cohort
