#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "sim/fleet/job_needs.hpp"

// Messages of a fleet on real ranks.
namespace cohort {

/// From the controller to a free rank: take part in a job, or end; to a rank of a job: its weight,
/// or an answer.
struct FleetOrder {
    bool ends = false;
    std::int32_t exit_code = 0;       ///< where it ends
    bool started = true;              ///< where it ends: there was a fleet
    bool lost = false;                ///< where it ends: ranks have died
    std::uint64_t job = 0;            ///< index in the plan
    std::vector<std::int32_t> ranks;  ///< of the pool, in the order of the job's own ranks
    std::int32_t number = 0;          ///< of the job's World
    bool resume = false;
    double weight =
        0;             ///< > 0: that the rank's transfers have from now on, as long as the job runs
    std::string plan;  ///< not empty: the answer to a wish for it (FleetReport::Wish)
    bool fits = false;  ///< the answer
    /// For a rank at work.
    [[nodiscard]] bool of_running_job() const { return weight > 0 || !plan.empty(); }
    auto fields() {
        return std::tie(ends, exit_code, started, lost, job, ranks, number, resume, weight, plan,
                        fits);
    }
};

/// From a rank to the controller: it is free again, or its process ends with its job, or how far
/// the job is.
struct FleetReport {
    std::uint64_t job = 0;
    bool gone = false;    ///< its process ends, as those of all ranks of the job; see error
    bool speaks = false;  ///< rank 0 of the job, which knows what follows
    bool runs = false;    ///< the job goes on; `samples` and `going` are known
    FleetJobState state = FleetJobState::kFailed;
    std::string error;
    std::int64_t samples = 0;
    std::int64_t updates = 0;
    std::int64_t switches = 0;
    double accuracy = 0;
    double busy_s = 0;               ///< of this part of a job that was stopped and resumed
    double wait_s = 0;               ///< the same
    std::vector<std::int32_t> lost;  ///< ranks of the pool without which the job ended
    /// Of a job that goes on.
    struct Going {
        std::int64_t budget_samples = 0;
        std::int64_t reference_batch = 1;
        std::uint64_t plan = 0;  ///< SyncPlan::id
        std::string plan_name;
        JobNeeds needs;  ///< of this plan; nodes are hosts
        auto fields() { return std::tie(budget_samples, reference_batch, plan, plan_name, needs); }
    };
    Going going;
    /// Another plan that its chooser wants, as RoomReview::Wish.
    struct Wish {
        std::string plan;  ///< empty: none
        double worth = 1;
        JobNeeds needs;
        auto fields() { return std::tie(plan, worth, needs); }
    };
    Wish wish;
    auto fields() {
        return std::tie(job, gone, speaks, runs, state, error, samples, updates, switches, accuracy,
                        busy_s, wait_s, lost, going, wish);
    }
};

}  // namespace cohort
