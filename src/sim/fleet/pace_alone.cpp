#include <exception>
#include <memory>
#include <utility>

#include "sim/fleet/fleet_run.hpp"

namespace cohort {
namespace {

/// Samples/s until so many are applied; none: the job does not come to its end.
std::optional<double> pace_alone(const FleetParts& parts, int nodes, JobSpec spec,
                                 std::int64_t samples) {
    spec.budget_samples = samples;
    spec.eval_every_samples = 0;
    EventQueue queue;
    VirtualCluster cluster(queue, parts.profile(), nodes, nullptr);
    Learner idle;
    const std::unique_ptr<VirtualJob> job = make_job(cluster, idle, std::move(spec));
    cluster.start();
    job->begin();
    while (!job->over()) {
        if (!queue.step()) {
            return std::nullopt;
        }
    }
    return static_cast<double>(job->session.counts().samples_applied) / queue.now();
}

}  // namespace

void add_paces_alone(FleetResult& result, const FleetPlan& plan, const FleetParts& parts,
                     const std::function<bool(const FleetProgress&)>& progress) {
    FleetProgress state{.virtual_s = result.makespan_s,
                        .events = result.events,
                        .jobs = result.jobs.size(),
                        .arrived = result.jobs.size(),
                        .over = result.jobs.size(),
                        .failed = summarise(result).failed};
    for (std::size_t job = 0; job < result.jobs.size() && !result.stopped; ++job) {
        FleetJobResult& known = result.jobs[job];
        if (!known.ended() || known.samples == 0) {
            continue;
        }
        try {
            known.alone_samples_s = pace_alone(
                parts, plan.nodes,
                parts.spec(job, {.workers = known.worker_nodes, .servers = known.server_nodes}),
                known.samples);
        } catch (const std::exception&) {  // the fleet's result stands without this number
            known.alone_samples_s.reset();
        }
        ++state.alone;
        result.stopped = progress && progress(state);
    }
}

}  // namespace cohort
