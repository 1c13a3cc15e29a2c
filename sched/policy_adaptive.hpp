#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load_estimator.hpp"
#include "overdue.hpp"
#include "plan_rates.hpp"
#include "policy_base.hpp"
#include "switch_guard.hpp"

namespace cohort {

/// Weighs every plan by what it is expected to achieve per second, and changes to the best one when
/// that pays.
///
///  1. new records say what mini-batches cost the workers, forecasts what they will cost; who is
///     overdue costs at least what its iteration has lasted, and what is still to come of it
///  2. plans of the grid are timed with that, by their own engine, and weighed with what batches
///     and staleness do to a sample's worth; the pace that they really had corrects the first
///  3. the guard says whether a change to the best one pays
///
/// While workers are overdue and others wait for them, there is a detour instead: a plan under
/// which they are apart (policy_detour.cpp).
///
/// Cost: a decision times at most 20 plans, and only when the load has changed.
class AdaptivePolicy : public PolicyBase {
public:
    AdaptivePolicy(std::string mode, const ModeSetting& setting);

    Decision start() override;
    [[nodiscard]] bool looks(const RunCounts& /*counts*/) const override { return true; }
    [[nodiscard]] bool wants_load() const override { return true; }
    [[nodiscard]] bool wants_gradients() const override { return true; }
    [[nodiscard]] std::optional<double> wake_at(const RunningIterations& running) const override {
        return watch_.wake_at(running);
    }
    void switched(const SwitchReport& report) override;

protected:
    Decision adapt(const Telemetry& telemetry) override;
    Decision regroup(const Telemetry& telemetry, std::string reason) override {
        return begin_anew(telemetry, std::move(reason));
    }

    /// The plan in force for the workers there are, with equal batches; all is to be rated anew.
    [[nodiscard]] Decision begin_anew(const Telemetry& telemetry, std::string reason);
    /// Takes what is new, and rates all plans anew when that changes something.
    /// @return false: too little is known
    [[nodiscard]] bool observe(const Telemetry& telemetry);
    /// Changes to the best plan if that pays.
    [[nodiscard]] Decision choose(const Telemetry& telemetry);
    /// Rates all plans for the load that is known: value() has changed.
    void rate_anew(const Telemetry& telemetry) { rate_all(LoadEstimate(load_), telemetry); }
    /// A plan that another one made. @param batches  by worker; empty: equal ones
    [[nodiscard]] PlanOption option_of(const SyncPlan& plan,
                                       std::vector<std::int64_t> batches) const;
    /// Another one decided.
    void follow(const PlanOption& option, double now_s);
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
    /// Nobody waits for those who are overdue until they have shown how fast they are.
    struct Detour {
        double begun_s = 0;
        PlanShape from;                          ///< what was in force
        std::vector<std::int64_t> batches;       ///< of it
        std::map<int, std::int64_t> iterations;  ///< by worker apart: with which it is back
    };
    /// When a worker was late last.
    struct Lateness {
        double begun_s = -1;  ///< that iteration
        double seen_s = -1;
        double usual_s = 0;  ///< that it should have taken for a sample
        bool again = false;  ///< it was so a little before, too
    };

    // Who is overdue (policy_detour.cpp).
    void look_for_overdue(const LoadEstimate& load, const Telemetry& telemetry);
    void count_overdue(LoadEstimate& load, const LoadView& view, bool all) const;
    [[nodiscard]] bool heeds(const OverdueWorker& late, const Telemetry& telemetry);
    [[nodiscard]] std::vector<int> slow_workers(const LoadView& view) const;
    [[nodiscard]] std::string reason_of(double gain) const;
    [[nodiscard]] PlanOption apart(const std::vector<std::vector<int>>& groups,
                                   const LoadView& view) const;
    [[nodiscard]] std::optional<Decision> take_detour(const Telemetry& telemetry);
    [[nodiscard]] bool detour_pays(double gain, const LoadView& view) const;
    [[nodiscard]] std::optional<Decision> begin_detour(const Telemetry& telemetry);
    [[nodiscard]] double saved_s(const Detour& detour, const TelemetryHistory& history) const;
    [[nodiscard]] Decision end_detour(const Telemetry& telemetry);

    [[nodiscard]] bool news(const LoadEstimate& load, const LoadView& view) const;
    void rate_all(const LoadEstimate& load, const Telemetry& telemetry);
    [[nodiscard]] RatedPlan rated(PlanOption option, const Telemetry& telemetry) const;
    [[nodiscard]] double entry_s(const PlanOption& option) const;
    [[nodiscard]] SwitchGuard::Wish wish_for(const RatedPlan& other, const LoadView& view) const;
    [[nodiscard]] Decision take(std::size_t choice, const Telemetry& telemetry, std::string reason);
    [[nodiscard]] double mean_iteration_s(const LoadEstimate& load) const;

    LoadEstimator loads_;
    OverdueWatch watch_;
    std::vector<OverdueWorker> overdue_;  ///< at the last look, those who are heeded
    bool just_late_ = false;              ///< somebody is, not for long
    std::vector<Lateness> lateness_;      ///< by worker
    std::optional<Detour> detour_;
    PlanRater rater_;
    PaceRecord paces_;
    SwitchGuard guard_;
    PlanOption current_;              ///< in force, or asked for
    PlanOption previous_;             ///< before it
    double predicted_samples_s_ = 0;  ///< of the plan in force, by the model alone
    double update_s_ = 0;             ///< the same
    double iteration_s_ = 0;          ///< own time, mean
    std::int64_t seen_samples_ = 0;
    double seen_s_ = 0;
    // The last rating.
    LoadEstimate load_;
    GradientFacts gradients_;
    double lag_limit_ = 0;
    std::int64_t rated_at_ = 0;      ///< records then
    std::optional<RatedPlan> kept_;  ///< the plan in force
    std::vector<RatedPlan> others_;  ///< best first
};

}  // namespace cohort
