#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/cost/own_times.hpp"
#include "sched/cost/plan_rates.hpp"
#include "sched/modes/policy_base.hpp"

namespace cohort {

/// Rates every plan by its expected progress per second, and changes to another plan when that pays
/// with confidence.
///
///  1. OwnTimes models the workers' own times and draws possible courses of them.
///  2. Every plan is timed on the same draws. Its rate is the predicted throughput, corrected by
///  measured throughputs, times the value of a sample by batches and staleness.
///  3. With g the gain in rate over the plan in force, s the standard error of g over the draws, c
///  the cost of a change and L the expected duration of the present state (kLasts times its age),
///  the plan with the highest g - kConfidence s - c / L is installed when that is above kLeastGain.
///
/// Looks once per iteration, and when a worker is late; rates all plans again when a level has
/// moved, and every kOften iterations. Cost: at most 20 plans on some thousand pushes each.
class AdaptivePolicy : public PolicyBase {
public:
    AdaptivePolicy(std::string mode, const ModeSetting& setting);

    Decision start() override;
    [[nodiscard]] bool looks(const RunCounts& counts) const override {
        return counts.pushes >= next_look_;
    }
    [[nodiscard]] bool wants_gradients() const override { return true; }
    [[nodiscard]] std::optional<double> wake_at(const RunningIterations& running) const override;
    void switched(const SwitchReport& report) override;

    static constexpr double kConfidence = 1.64;  ///< one-sided, 95 %
    static constexpr double kLasts = 2;
    static constexpr double kLeastGain = 0.01;

protected:
    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override {
        return begin_anew(telemetry, std::move(reason));
    }

    /// The plan in force for the live workers, with equal batches; all plans will be rated again.
    [[nodiscard]] Decision begin_anew(const Telemetry& telemetry, std::string reason);
    /// Looks when a look is due, and rates all plans again when the load has changed.
    /// @return false: too few records
    [[nodiscard]] bool observe(const Telemetry& telemetry);
    /// Changes to the best plan if that pays.
    [[nodiscard]] Decision choose(const Telemetry& telemetry);
    /// Rates all plans on the present data, after value() has changed.
    void rate_anew(const Telemetry& telemetry);
    /// The option of a plan made by another policy. @param batches  by worker; empty: equal ones
    [[nodiscard]] PlanOption option_of(const SyncPlan& plan,
                                       std::vector<std::int64_t> batches) const;
    /// Adopts a plan that another policy has chosen.
    void follow(const PlanOption& option);
    /// Whether the plan is in force already.
    [[nodiscard]] bool follows(const PlanOption& option) const;
    /// Discards the data of workers that were lost.
    void forget_gone();
    /// Adjusts the rate of a candidate.
    virtual void value(RatedPlan& /*plan*/, const Telemetry& /*telemetry*/) const {}

    [[nodiscard]] const PlanOption& current() const noexcept { return current_; }
    /// The last rating of the plan in force; none: the plan has just changed.
    [[nodiscard]] const std::optional<RatedPlan>& kept() const noexcept { return kept_; }
    [[nodiscard]] const LoadEstimate& load() const noexcept { return load_; }
    [[nodiscard]] const PlanRater& rater() const noexcept { return rater_; }

private:
    [[nodiscard]] bool moved() const;
    [[nodiscard]] RatedPlan rated(PlanOption option, const TimeDraws& draws,
                                  const Telemetry& telemetry, bool in_force) const;
    [[nodiscard]] double iteration_s() const;
    [[nodiscard]] double sure_gain(const RatedPlan& other) const;
    [[nodiscard]] std::string sentence(const RatedPlan& best) const;
    [[nodiscard]] Decision take(std::size_t choice, const Telemetry& telemetry, std::string reason);

    OwnTimes times_;
    PlanRater rater_;
    PaceRecord paces_;
    PlanOption current_;              ///< in force, or requested
    double predicted_samples_s_ = 0;  ///< of the plan in force, by the uncorrected model
    double update_s_ = 0;             ///< time between updates of the plan in force, by the model
    double change_s_ = 0;             ///< recent mean cost of a change; 0: not measured yet
    std::int64_t next_look_ = 0;      ///< pushes
    int looks_ = 0;                   ///< looks since the last rating
    std::int64_t seen_samples_ = 0;
    double seen_s_ = 0;
    // The last rating.
    LoadEstimate load_;
    std::optional<RatedPlan> kept_;  ///< the plan in force
    std::vector<RatedPlan> others_;  ///< best first
};

}  // namespace cohort
