#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/load_view.hpp"
#include "sched/cost/own_times.hpp"
#include "sched/modes/adaptive/plan_space.hpp"

namespace cohort {

/// A plan with its expected rate.
struct RatedPlan {
    PlanOption option;
    PlanTiming timing;
    Candidate candidate;
};

/// Rates plans: samples per second x value of a sample under the plan, by its batches and
/// staleness.
class PlanRater {
public:
    /// @param setting  B, the update rule, facts of the job
    explicit PlanRater(const ModeSetting& setting);

    /// @param current  the option in force, whose iterations are in progress
    /// @param pace  measured over predicted samples per second, of plans like it
    [[nodiscard]] RatedPlan rate(PlanOption option, const LoadEstimate& load,
                                 const TimeDraws& draws, const PlanOption& current,
                                 const GradientFacts& gradients, double pace) const;
    [[nodiscard]] double reference_batch() const noexcept { return reference_batch_; }
    [[nodiscard]] bool rates_local_steps() const noexcept { return job_.local_steps; }

private:
    [[nodiscard]] PlanTiming timing_of(const PlanOption& option, const LoadEstimate& load,
                                       const TimeDraws& draws, const PlanOption& current) const;

    JobFacts job_;
    double reference_batch_;
};

/// Measured over predicted throughput of plans, separately for each PaceKind: where the servers'
/// network is too narrow for plans without waiting, one trial corrects the prediction of all of
/// them. Of a kind of plan that was never in force the prediction counts, so that it is tried where
/// it may be the best; old measurements fade, so that the kind is tried again. Pure.
class PaceRecord {
public:
    /// @param window_samples  samples over which throughput is measured
    explicit PaceRecord(double window_samples) : window_(window_samples) {}

    /// The plan in force since the last call was in force until now.
    /// @param predicted_samples_s  of that plan; 0: not known
    void went(PaceKind kind, double seconds, double samples, double predicted_samples_s);
    /// Another plan is in force, or its batches changed.
    /// @param begun_samples  samples of the iterations that are in progress, which began under the
    ///     old plan. The throughput is measured from when that many samples are done; before, it
    ///     is a mixture of both plans
    void restart(double begun_samples);
    /// Measured over predicted: half of it is what the newest window showed, half what was held
    /// before; 1: never in force.
    [[nodiscard]] double of(PaceKind kind) const;

private:
    void begin_window();

    struct Kind {
        double ratio = 1;
        double window = 0;  ///< when it was measured last; 0: never
    };
    double window_;
    double skip_ = 0;     ///< samples still to be done until the pace of the plan counts
    double windows_ = 0;  ///< measured windows
    double samples_ = 0;
    double predicted_ = 0;
    std::array<Kind, 3> kinds_;  ///< by PaceKind
};

/// Whether workers would do the same.
[[nodiscard]] bool same_way(const PlanOption& a, const PlanOption& b);

/// The plan in force and the others that it could be changed for, rated for one load.
class PlanRanking {
public:
    using Rate = std::function<RatedPlan(PlanOption option)>;

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

    /// A worker's own time differs from that of the last rating.
    [[nodiscard]] bool moved(const LoadEstimate& now, const std::vector<int>& live) const;
    /// Mean own time.
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
