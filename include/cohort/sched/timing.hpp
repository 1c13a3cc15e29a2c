#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// Courses that workers' own times may take, the same ones for every plan that is timed on them, so
/// that differences between plans are no chance of the draw.
struct TimeDraws {
    int replicates = 0;
    int iterations = 0;          ///< of each worker in a replicate; then it goes on from the first
    std::vector<float> factors;  ///< [replicates][iterations][workers], times the expected own time

    [[nodiscard]] double factor(int replicate, std::int64_t iteration, std::size_t worker,
                                std::size_t workers) const {
        const auto row =
            static_cast<std::size_t>(std::int64_t{replicate} * iterations + iteration % iterations);
        return factors[row * workers + worker];
    }
};

/// A plan's pace.
struct PlanTiming {
    double update_s = 0;   ///< mean time between two updates
    double samples_s = 0;  ///< samples per second, applied
    double mean_lag = 0;   ///< of the pushes applied, reference batches
    double max_lag = 0;
    double used = 0;  ///< share of samples computed that is applied, 0..1; parts of mini-batches
                      ///< that are interrupted count
    std::vector<double> replicates;  ///< samples per second in each; empty for constant times
};

/// Mean time between updates of static x-order over whole cycles: residuals r_i = tau_i; the x
/// workers with the smallest make the update and start anew, the others go on; ties go to the lower
/// index. @param own_s  tau, [N]  @param quorum  x, 1..N
[[nodiscard]] double static_update_s(std::span<const double> own_s, int quorum);

/// Runs any plan under a virtual clock with these own times, as its UpdateEngine would, until the
/// pace is known: about 1000 pushes, or six of each worker. Workers without a place in the plan
/// take no part.
/// @param own_s  tau for that worker's batch, [workers], what the network and the servers take in
///               it; of those in the plan > 0
/// @param batches  samples of a push, [workers]
/// @param reference_batch  B
[[nodiscard]] PlanTiming time_plan(const SyncPlan& plan, std::span<const double> own_s,
                                   std::span<const std::int64_t> batches,
                                   std::int64_t reference_batch);

/// The same on times that vary: every replicate begins with all workers at the start of an
/// iteration and ends after as many pushes as there are draws; mini-batches under way at its end
/// count by the part that is done.
/// @param first_s  tau of each worker's first iteration: with the batch that it has already;
///                 empty: own_s
[[nodiscard]] PlanTiming time_plan(const SyncPlan& plan, std::span<const double> own_s,
                                   std::span<const std::int64_t> batches,
                                   std::int64_t reference_batch, const TimeDraws& draws,
                                   std::span<const double> first_s = {});

}  // namespace cohort
