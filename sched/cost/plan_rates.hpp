#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/chooser_options.hpp"
#include "cohort/sched/efficiency.hpp"
#include "cohort/sched/load_desk.hpp"
#include "sched/modes/adaptive/plan_space.hpp"

namespace cohort {

/// The cost of staleness that the options name. Errors: FileError for coefficients that are none.
[[nodiscard]] std::unique_ptr<StalenessCost> make_staleness_cost(const ChooserOptions& options);

/// A plan with what is expected of it.
struct RatedPlan {
    PlanOption option;
    PlanTiming timing;
    Candidate candidate;
};

/// What plans are worth: samples per second x what a sample is worth under them, batches and
/// staleness counted.
class PlanRater {
public:
    /// @param setting  B, the update rule, facts of the job
    explicit PlanRater(const ModeSetting& setting);

    /// Gives a plan that is not in force the scale of the learning rate that suits it best.
    /// @param in_force  its scale is what it is
    /// @param begun  batches of the iterations that workers are at, by worker
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
    std::unique_ptr<StalenessCost> staleness_;
};

/// How fast plans really went, over what was predicted, apart for those under which all wait for
/// all and for the others: where not waiting was promised more than the servers' network allows,
/// one trial says so of all plans that do not wait. A kind that never was in force has the mean of
/// both; what was seen long ago fades towards it, so that it is tried again. Pure.
class PaceRecord {
public:
    /// @param window_samples  over which a pace is measured
    explicit PaceRecord(double window_samples) : window_(window_samples) {}

    /// What was in force since the last call went on until now.
    /// @param waits  all for all
    /// @param predicted_samples_s  of it; 0: not known
    void went(bool waits, double seconds, double samples, double predicted_samples_s);
    /// Another plan is in force, or its batches changed: what comes at first is not its pace.
    void restart();
    /// Measured over predicted.
    [[nodiscard]] double of(bool waits) const;

private:
    struct Kind {
        double ratio = 1;
        double window = -std::numeric_limits<double>::infinity();  ///< when
    };
    double window_;
    double windows_ = 0;  ///< measured
    double samples_ = 0;
    double predicted_ = 0;
    double all_ = 1;
    std::array<Kind, 2> kinds_;  ///< of the others; of those under which all wait for all
};

}  // namespace cohort
