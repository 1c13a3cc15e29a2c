#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/efficiency.hpp"
#include "cohort/sched/load_view.hpp"
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
    /// @param setting  B, the update rule, facts of the job. Errors: FileError for malformed
    /// coefficients
    explicit PlanRater(const ModeSetting& setting);

    /// Gives a plan that is not in force the scale of the learning rate that suits it best.
    /// @param in_force  the plan in force keeps its scale
    /// @param begun  batches of the iterations in progress, by worker
    /// @param pace  measured over predicted samples per second, of plans like it
    [[nodiscard]] RatedPlan rate(PlanOption option, const LoadEstimate& load,
                                 const TimeDraws& draws, const std::vector<std::int64_t>& begun,
                                 const GradientFacts& gradients, double pace, bool in_force) const;
    [[nodiscard]] double reference_batch() const noexcept { return reference_batch_; }

private:
    [[nodiscard]] StalenessFeatures features_of(const SyncPlan& plan, const PlanTiming& timing,
                                                const GradientFacts& gradients) const;

    JobFacts job_;
    double reference_batch_;
    EfficiencyModel staleness_;
};

/// Measured over predicted throughput of plans, separately for plans under which all workers wait
/// for all and for the other plans: where the servers' network is too narrow for plans without
/// waiting, one trial corrects the prediction of all of them. A kind of plan that was never in
/// force has the mean of both kinds; old measurements fade towards that mean, so that the kind is
/// tried again. Pure.
class PaceRecord {
public:
    /// @param window_samples  samples over which throughput is measured
    explicit PaceRecord(double window_samples) : window_(window_samples) {}

    /// The plan in force since the last call was in force until now.
    /// @param waits  all workers wait for all
    /// @param predicted_samples_s  of that plan; 0: not known
    void went(bool waits, double seconds, double samples, double predicted_samples_s);
    /// Another plan is in force, or its batches changed: its first samples do not count.
    void restart();
    /// Measured over predicted.
    [[nodiscard]] double of(bool waits) const;

private:
    struct Kind {
        double ratio = 1;
        double window = -std::numeric_limits<double>::infinity();  ///< when
    };
    double window_;
    double windows_ = 0;  ///< measured windows
    double samples_ = 0;
    double predicted_ = 0;
    double all_ = 1;
    std::array<Kind, 2>
        kinds_;  ///< 0: plans with less waiting; 1: plans under which all wait for all
};

}  // namespace cohort
