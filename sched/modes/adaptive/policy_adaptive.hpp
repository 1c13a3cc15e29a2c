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

/// Weighs every plan by what it is expected to achieve per second, and changes to another one when
/// that surely pays.
///
///  1. OwnTimes says what workers' own times are like, and draws courses that they may take
///  2. every plan is timed on the same draws and weighed with what batches and staleness do to a
///     sample's worth: its rate; the pace that it really had corrects the first
///  3. with g the gain in rate over the plan in force, s its standard error over the draws, c what
///     a change costs and L how long the present state is expected to last (kLasts times as long as
///     it has), the plan with the highest g - kConfidence s - c / L is taken when that is above
///     kLeastGain
///
/// Looks once per iteration, and when a worker is late; rates anew when a level has moved, and
/// every kOften iterations. Cost: at most 20 plans on some thousand pushes each.
class AdaptivePolicy : public PolicyBase {
public:
    AdaptivePolicy(Mode mode, const ModeSetting& setting);

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

    /// The plan in force for the workers there are, with equal batches; all is to be rated anew.
    [[nodiscard]] Decision begin_anew(const Telemetry& telemetry, std::string reason);
    /// Looks when it is time to, and rates all plans anew when that shows something new.
    /// @return false: too little is known
    [[nodiscard]] bool observe(const Telemetry& telemetry);
    /// Changes to the best plan if that pays.
    [[nodiscard]] Decision choose(const Telemetry& telemetry);
    /// Rates all plans for what is known: value() has changed.
    void rate_anew(const Telemetry& telemetry);
    /// A plan that another one made. @param batches  by worker; empty: equal ones
    [[nodiscard]] PlanOption option_of(const SyncPlan& plan,
                                       std::vector<std::int64_t> batches) const;
    /// Another one decided.
    void follow(const PlanOption& option);
    /// It is in force already.
    [[nodiscard]] bool follows(const PlanOption& option) const;
    /// What is known of workers that are gone counts no more.
    void forget_gone();
    /// What a plan is worth: sets the candidate's rate.
    virtual void value(RatedPlan& /*plan*/, const Telemetry& /*telemetry*/) const {}

    [[nodiscard]] const PlanOption& current() const noexcept { return current_; }
    /// The plan in force as rated last; none: it has just changed.
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
    PlanOption current_;              ///< in force, or asked for
    double predicted_samples_s_ = 0;  ///< of the plan in force, by the model alone
    double update_s_ = 0;             ///< the same
    double change_s_ = 0;             ///< what changes cost, mean of some; 0: none was measured
    std::int64_t next_look_ = 0;      ///< pushes
    int looks_ = 0;                   ///< since all was rated
    std::int64_t seen_samples_ = 0;
    double seen_s_ = 0;
    // The last rating.
    LoadEstimate load_;
    std::optional<RatedPlan> kept_;  ///< the plan in force
    std::vector<RatedPlan> others_;  ///< best first
};

}  // namespace cohort
