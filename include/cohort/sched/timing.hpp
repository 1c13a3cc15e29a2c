#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// Random courses of workers' own times. All plans are timed on the same draws, so that differences
/// between plans are not due to chance.
struct TimeDraws {
    int replicates = 0;
    int iterations =
        0;  ///< iterations of each worker in a replicate; after the last the first follows again
    std::vector<float>
        factors;  ///< [replicates][iterations][workers], in units of the expected own time

    [[nodiscard]] double factor(int replicate, std::int64_t iteration, std::size_t worker,
                                std::size_t workers) const {
        const auto row =
            static_cast<std::size_t>(std::int64_t{replicate} * iterations + iteration % iterations);
        return factors[row * workers + worker];
    }
    /// The same courses for iterations of `steps` local steps: means of the factors of as many
    /// iterations. @param workers  of the factors
    [[nodiscard]] TimeDraws averaged(int steps, std::size_t workers) const;
};

/// A plan's throughput and lag.
struct PlanTiming {
    double update_s = 0;         ///< mean time between two updates
    double samples_s = 0;        ///< samples per second, applied
    double mean_lag = 0;         ///< mean lag of the applied pushes, reference batches
    double mean_square_lag = 0;  ///< mean of their squared lags
    double max_lag = 0;
    double used = 0;  ///< applied share of the computed samples, 0..1; finished parts of
                      ///< interrupted mini-batches count as computed
    std::vector<double>
        replicates;  ///< samples per second in each replicate; empty for constant times
};

/// Mean time between updates of static x-order over whole cycles: residuals r_i = tau_i; the x
/// workers with the smallest residuals make the update and start their next iteration, the others
/// continue; ties go to the lower index. @param own_s  tau, [N]  @param quorum  x, 1..N
[[nodiscard]] double static_update_s(std::span<const double> own_s, int quorum);

/// Runs any plan under a virtual clock with these own times, with the results of its UpdateEngine,
/// until the throughput is known: about 1000 pushes, or six of each worker. Workers without a place
/// in the plan take no part.
/// @param own_s  tau for that worker's batch, [workers], with the time of network and servers; > 0
/// for workers in the plan
/// @param batches  samples of a push, [workers]
/// @param reference_batch  B
[[nodiscard]] PlanTiming time_plan(const SyncPlan& plan, std::span<const double> own_s,
                                   std::span<const std::int64_t> batches,
                                   std::int64_t reference_batch);

/// As above with varying times: every replicate begins with all workers at the start of an
/// iteration and ends after as many pushes as there are draws; mini-batches in progress at its end
/// count by their finished part.
/// @param first_s  tau of each worker's first iteration, with its present batch; empty: own_s
[[nodiscard]] PlanTiming time_plan(const SyncPlan& plan, std::span<const double> own_s,
                                   std::span<const std::int64_t> batches,
                                   std::int64_t reference_batch, const TimeDraws& draws,
                                   std::span<const double> first_s = {});

}  // namespace cohort
