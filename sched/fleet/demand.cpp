#include "sched/fleet/demand.hpp"

#include "cohort/core/error.hpp"
#include "cohort/sched/modes.hpp"
#include "cohort/sched/timing.hpp"

namespace cohort {

JobDemand demand_of(const SyncPlan& plan, std::span<const double> own_s,
                    std::span<const std::int64_t> batches, std::int64_t reference_batch,
                    const JobTraffic& traffic) {
    check_invariant(traffic.nodes.size() == own_s.size(), "a node for each worker");
    const PlanTiming timing = time_plan(plan, own_s, batches, reference_batch);
    const bool together = is_synchronous(plan);
    double alone_samples_s = 0;
    for (std::size_t i = 0; i < own_s.size(); ++i) {
        alone_samples_s += static_cast<double>(batches[i]) / own_s[i];
    }
    JobDemand demand{.workers = {},
                     .shares = traffic.shares,
                     .push_bytes = traffic.parameter_bytes,
                     .pull_bytes = traffic.parameter_bytes,
                     .server_threads = traffic.server_threads,
                     .worker_threads = traffic.input_threads};
    double pushes_s = 0;
    for (std::size_t i = 0; i < own_s.size(); ++i) {
        const double pace =
            together ? 1 / timing.update_s : timing.samples_s / alone_samples_s / own_s[i];
        demand.workers.push_back({.node = traffic.nodes[i], .iterations_s = pace});
        pushes_s += demand.workers.back().iterations_s;
    }
    demand.server_cores = pushes_s * traffic.push_core_s + traffic.update_core_s / timing.update_s;
    demand.worker_cores = pushes_s / static_cast<double>(own_s.size()) * traffic.input_core_s;
    return demand;
}

}  // namespace cohort
