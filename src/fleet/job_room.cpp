#include "fleet/job_room.hpp"

#include <algorithm>

#include "cohort/core/clock.hpp"
#include "cohort/sched/modes.hpp"
#include "sched/servers/shard_shares.hpp"

namespace cohort {
namespace {

constexpr Clock::Seconds kTellEvery{1};

/// Facts of a host that a fleet does not measure; no transfer within a host comes near them.
constexpr double kMessageSeconds = 1e-4;
constexpr double kMemoryBytesPerSecond = 1e10;

/// None: those of some workers are not known.
std::optional<ComputeTimes> measured_times(const ClusterReport& cluster) {
    ComputeTimes times;
    int count = 0;
    for (std::size_t worker = 0; worker < cluster.loads.size(); ++worker) {
        if (!cluster.workers[worker].live) {
            continue;
        }
        const double seconds = cluster.loads[worker].input_s + cluster.loads[worker].compute_s;
        if (seconds <= 0) {
            return std::nullopt;
        }
        times.mean += seconds;
        times.slowest = std::max(times.slowest, seconds);
        ++count;
    }
    if (count == 0) {
        return std::nullopt;
    }
    times.mean /= count;
    return times;
}

}  // namespace

JobNeeds real_needs(const RealJob& job, const TrainOptions& options, const ComputeTimes& compute,
                    const SyncPlan& plan) {
    const double compute_s = is_synchronous(plan) ? compute.slowest : compute.mean;
    ClusterProfile hosts;
    hosts.nic_bytes_per_s = job.card_bytes_s;
    hosts.latency_s = kMessageSeconds;
    hosts.local_bytes_per_s = hosts.memory_bytes_per_s = kMemoryBytesPerSecond;
    hosts.cores = job.cores;
    JobSpec spec;
    spec.setting.batch = options.batch;
    spec.worker_nodes = job.worker_nodes;
    spec.server_nodes = job.server_nodes;
    spec.workload.device_s_per_sample = compute_s / static_cast<double>(options.batch);
    spec.workload.parameter_bytes = job.parameter_bytes;
    spec.optimizer = options.optimizer;
    spec.wire = options.wire;
    spec.node_staging = options.node_staging;
    const ServersOfJob servers{.nodes = job.server_nodes,
                               .shares = equal_shares(job.server_nodes.size())};
    return needs_of(spec, hosts, job.nodes, servers, plan);
}

std::unique_ptr<TrainHook> JobRoom::observer() {
    class Observer final : public TrainHook {
    public:
        explicit Observer(JobRoom& room) : room_(room) {}
        void on_step(TrainControl& run, const StepReport& /*step*/) override {
            room_.look(run, false);
        }
        void on_switch(TrainControl& run, const SwitchReport& /*change*/) override {
            room_.look(run, true);
        }

    private:
        JobRoom& room_;
    };
    return std::make_unique<Observer>(*this);
}

void JobRoom::look(const TrainControl& run, bool at_once) {
    const Clock::Seconds now = clock_.now();
    if (told_ && !at_once && now - told_at_ < kTellEvery) {
        return;
    }
    const ClusterReport cluster = run.cluster();
    const SyncPlan& plan = cluster.plan;
    const std::optional<ComputeTimes> compute = measured_times(cluster);
    if (!compute) {
        return;
    }
    if (told_ && told_->going.plan != plan.id) {
        const std::scoped_lock lock(mutex_);
        answers_.clear();
    }
    const auto workers = static_cast<std::int64_t>(job_.worker_nodes.size());
    told_ = FleetReport{.job = job_.number,
                        .runs = true,
                        .error = {},
                        .samples = run.progress().samples_applied,
                        .lost = {},
                        .going = {.budget_samples = run.budget_samples(),
                                  .reference_batch = run.options().batch * workers,
                                  .plan = plan.id,
                                  .plan_name = plan.name,
                                  .needs = real_needs(job_, run.options(), *compute, plan)},
                        .wish = {}};
    told_at_ = now;
    compute_ = *compute;
    options_ = &run.options();
    tell_(*told_);
}

bool JobRoom::admits(const SyncPlan& wanted, double worth) {
    if (!told_) {
        return true;
    }
    {
        const std::scoped_lock lock(mutex_);
        Answer& answer = answers_[wanted.name];
        if (answer.asked && clock_.now() - *answer.asked < kHolds) {
            return answer.fits.value_or(false);
        }
        answer = {.asked = clock_.now(), .fits = {}};
    }
    FleetReport question = *told_;
    question.wish = {.plan = wanted.name,
                     .worth = worth,
                     .needs = real_needs(job_, *options_, compute_, wanted)};
    tell_(std::move(question));
    return false;
}

void JobRoom::answered(const std::string& plan, bool fits) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = answers_.find(plan); found != answers_.end()) {
        found->second.fits = fits;
    }
}

}  // namespace cohort
