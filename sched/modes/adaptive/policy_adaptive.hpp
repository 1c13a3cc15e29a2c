#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/cost/own_times.hpp"
#include "sched/modes/adaptive/plan_ranking.hpp"
#include "sched/modes/policy_base.hpp"

namespace cohort {

/// Rates every plan by its expected progress per second, and changes to another plan when that pays
/// with confidence.
///
///  1. OwnTimes says what workers' own times are like, and draws courses that they may take
///  2. every plan is timed on the same draws and weighed with what batches and staleness do to a
///     sample's worth: its rate; the pace that it really had corrects the first
///  3. with g the gain in rate over the plan in force, s its standard error over the draws, c what
///     a change costs and L how long the present state is expected to last (kLasts times as long as
///     it has), the plan with the highest g - PlanRanking::kConfidence s - c / L is taken when that
///     is above kLeastGain
///
/// Looks once per iteration, and when a worker is late; rates again when a level has moved, and
/// every kOften iterations. Cost: at most 18 plans on some thousand pushes each.
class AdaptivePolicy : public PolicyBase {
public:
    AdaptivePolicy(Mode mode, const ModeSetting& setting);

    Decision start() override;
    [[nodiscard]] bool looks(const RunCounts& counts) const override {
        return counts.pushes >= next_look_;
    }
    /// Of all numbers that gradients tell, e_n of batch_efficiency() needs the noise scale.
    [[nodiscard]] bool wants_gradients() const override {
        return current_.plan.lr_unit == SyncPlan::LrUnit::kAdaScale;
    }
    [[nodiscard]] std::optional<double> wake_at(const ActiveIterations& running) const override;
    void switched(const SwitchReport& report) override;

    static constexpr double kLasts = 2;
    static constexpr double kLeastGain = 0.01;  ///< plans that are nearly as good change no places

protected:
    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override {
        return restart(telemetry, std::move(reason));
    }

    /// Begins again with the present workers: all plans are to be rated again.
    [[nodiscard]] Decision restart(const Telemetry& telemetry, std::string reason);
    /// Looks when it is time to, and rates all plans again when that shows something new.
    /// @return false: too little is known
    [[nodiscard]] bool observe(const Telemetry& telemetry);
    /// Changes to the best plan that pays and is admitted.
    [[nodiscard]] Decision choose(const Telemetry& telemetry);
    /// Rates all plans again: value() has changed.
    void rate_again(const Telemetry& telemetry);
    /// A plan that another policy made. @param batches  by worker; empty: equal ones
    [[nodiscard]] PlanOption option_of(const SyncPlan& plan,
                                       std::vector<std::int64_t> batches) const;
    /// Another policy decided.
    void follow(const PlanOption& option);
    /// The option is in force already.
    [[nodiscard]] bool follows(const PlanOption& option) const;
    /// Forgets what is known of workers that have left.
    void forget_gone();
    /// Adjusts the rate of a candidate.
    virtual void value(RatedPlan& /*plan*/, const Telemetry& /*telemetry*/) const {}

    [[nodiscard]] const PlanOption& current() const noexcept { return current_; }
    [[nodiscard]] const PlanRanking& ranking() const noexcept { return ranking_; }

private:
    void note_timing(const RatedPlan& plan) {
        predicted_samples_s_ = plan.timing.samples_s;
        update_s_ = plan.timing.update_s;
    }
    [[nodiscard]] Decision take(std::size_t choice);

    OwnTimes times_;
    PlanRanking ranking_;
    PaceRecord paces_;
    PlanOption current_;              ///< in force, or requested
    double predicted_samples_s_ = 0;  ///< of the plan in force, by the uncorrected model
    double update_s_ = 0;             ///< time between updates of the plan in force, by the model
    double change_s_ = 0;             ///< recent mean cost of a change; 0: not measured yet
    std::int64_t next_look_ = 0;      ///< pushes
    int looks_ = 0;                   ///< looks since the last rating
    std::int64_t seen_samples_ = 0;
    double seen_s_ = 0;
};

}  // namespace cohort
