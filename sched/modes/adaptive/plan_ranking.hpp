#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sched/cost/own_times.hpp"
#include "sched/modes/adaptive/plan_rates.hpp"
#include "sched/modes/adaptive/plan_space.hpp"

namespace cohort {

/// Only their learning rates may differ: they would do the same.
[[nodiscard]] bool same_way(const PlanOption& a, const PlanOption& b);

/// The plan in force and the others that it could be changed for, rated for one load.
class PlanRanking {
public:
    /// Rates an option. @param in_force  it is the plan in force
    using Rate = std::function<RatedPlan(PlanOption option, bool in_force)>;

    static constexpr double kConfidence = 1.64;  ///< one-sided, 95 %

    explicit PlanRanking(const ModeSetting& setting) : setting_(setting), rater_(setting) {}

    [[nodiscard]] const PlanRater& rater() const noexcept { return rater_; }
    /// The load of the last rating.
    [[nodiscard]] const LoadEstimate& load() const noexcept { return load_; }
    /// The plan in force as rated last; none: it has just changed.
    [[nodiscard]] const std::optional<RatedPlan>& kept() const noexcept { return kept_; }
    /// Best first.
    [[nodiscard]] const std::vector<RatedPlan>& others() const noexcept { return others_; }

    void set_load(LoadEstimate load) { load_ = std::move(load); }
    /// Rates the plan in force and one of each shape.
    void rank(const PlanOption& current, const std::vector<PlanShape>& shapes, const Rate& rate);
    /// Another plan is in force.
    void forget_kept() noexcept { kept_.reset(); }
    /// The chosen plan changes places with the one in force. @return it
    [[nodiscard]] RatedPlan take(std::size_t choice);
    /// The others' candidates by rate, the first of them `first`.
    [[nodiscard]] std::vector<Candidate> candidates(const Candidate& first) const;

    /// A worker's local step time differs from that of the last rating.
    [[nodiscard]] bool moved(const LoadEstimate& now, const std::vector<int>& live) const;
    /// Mean local step time.
    [[nodiscard]] double iteration_s(const std::vector<int>& live) const;
    /// Gain in rate over the plan in force, less what may be chance. @param index  of others()
    [[nodiscard]] double sure_gain(std::size_t index) const;

private:
    const ModeSetting& setting_;
    PlanRater rater_;
    LoadEstimate load_;
    std::optional<RatedPlan> kept_;
    std::vector<RatedPlan> others_;
};

/// Why a plan is taken: "worker 3 is 3.6x slower: smaller batches for it, 748 -> 2200 samples/s"
[[nodiscard]] std::string change_sentence(const OwnTimes& times, std::size_t workers,
                                          const RatedPlan& before, const RatedPlan& best);

}  // namespace cohort
