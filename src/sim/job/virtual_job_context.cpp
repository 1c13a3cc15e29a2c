#include "sim/job/virtual_job_context.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "layers/optim/update_cost.hpp"
#include "sim/job/job_spec.hpp"

namespace cohort {
namespace {

SessionOptions session_options(const JobSpec& spec, VirtualCluster& cluster,
                               SessionObserver& observer) {
    return {.workers = spec.workers(),
            .batch = spec.setting.batch,
            .reference_batch = spec.reference_batch(),
            .budget_samples = spec.budget_samples,
            .noise_scale = spec.noise_scale,
            .measure_gradients = spec.measure_gradients,
            .only_samples_weigh = spec.server_nodes.empty(),
            .clip_norm = spec.clip_norm,
            .monitor_load = spec.telemetry,
            .learning_rate =
                [&spec](std::int64_t samples) { return spec.schedule.lr(spec.lr, samples); },
            .now =
                [&cluster] {
                    const double now_s = cluster.queue().now();
                    return SessionTime{.training_s = now_s, .clock_s = Clock::Seconds(now_s)};
                },
            .predictor = spec.predictor,
            .observer = &observer};
}

}  // namespace

VirtualJobContext::VirtualJobContext(VirtualCluster& on, Learner& model, JobSpec job)
    : cluster(on),
      learner(model),
      spec(std::move(job)),
      records(result, log, cluster.queue(), spec.records),
      session(session_options(spec, cluster, records), ModeController(spec.choice, spec.setting, 0),
              LeaseLedger(spec.train, {.seed = spec.seed}, spec.budget_samples), {}, {}),
      lanes(result, spec.timeline, spec.workers(), spec.lane_spans) {
    check_invariant(spec.setting.live.size() == spec.worker_nodes.size(),
                    "a mode is set for the workers that there are");
    for (const int node : spec.worker_nodes) {
        places.push_back(cluster.add_place(node));
    }
}

VirtualJobContext::~VirtualJobContext() {
    for (const VirtualCluster::PlaceId place : places) {
        cluster.remove_place(place);
    }
}

VirtualLease& VirtualJobContext::add_lease(int worker, const LeaseOrder& order) {
    log.add(EventLog::Kind::kLease, now(), worker, order.lease, order.position);
    VirtualLease& lease = leases_out[order.lease];
    static_cast<Learner::Job&>(lease) = {
        .worker = worker,
        .slice = {.epoch = order.epoch, .position = order.position, .count = order.count},
        .parameters = {},
        .work = order.work.work,
        .steps = order.work.steps,
        .lr = order.work.lr,
        .generation = engine().plan().id,
        .halves = order.halves};
    lease.id = order.lease;
    return lease;
}

Learner::Released VirtualJobContext::parameters_for(int worker, double lag) {
    const SyncPlan& plan = engine().plan();
    const double lr = fired_lr ? *fired_lr : session.learning_rate(plan.lr_scale);
    return learner.release(worker, lag, lr, plan.delay_compensation > 0);
}

double VirtualJobContext::alone_s(double share) const {
    const ClusterProfile& kind = cluster.profile();
    return kind.latency_s + spec.wire_parameter_bytes() / (kind.nic_bytes_per_s * share);
}

void VirtualWorker::begin(std::uint64_t next_lease) {
    lease = next_lease;
    step = 0;
    own_s = 0;
    input_ = {};
}

void VirtualWorker::begin_step(Action backward, Action computed) {
    const VirtualLease& mine = job_->leases_out.at(lease);
    const std::int64_t count = mine.slice.count;
    compute(count * (step + 1) / mine.steps - count * step / mine.steps, std::move(backward),
            std::move(computed));
}

void VirtualWorker::compute(std::int64_t samples, Action backward, Action computed) {
    const VirtualCluster::PlaceId place = job_->place(index_);
    job_->cluster.begin_iteration(place, job_->rounds_done() + step);
    current.begun_s = job_->now();
    current.delay_s = job_->cluster.shares(place).delay_s;
    current.cost = job_->spec.cost_of(samples);
    work = job_->cluster.compute(
        place, current.cost,
        [this, backward = std::move(backward)] {
            backward_at_s = job_->now();
            backward();
        },
        [this, computed = std::move(computed)] {
            work = 0;
            note_step();
            computed();
        });
}

void VirtualWorker::update(Action then) {
    current.begun_s = job_->now();
    current.delay_s = 0;
    current.cost = job_->spec.update_cost(job_->cluster.profile());
    work = job_->cluster.work(job_->place(index_), current.cost, [this, then = std::move(then)] {
        work = 0;
        job_->lanes.used(index_, current.cost.cpu_core_s, 0);
        job_->lanes.span(index_, LaneSpan::Kind::kCompute, current.begun_s, job_->now());
        then();
    });
}

/// Where a step's time went; forward is taken to be as fast as backward was.
void VirtualWorker::note_step() {
    const double now = job_->now();
    const double share = job_->spec.workload.backward_share;
    const double forward_s = share > 0 ? (now - backward_at_s) * (1 - share) / share : 0;
    const double input_at = std::min(current.begun_s + current.delay_s, now);
    const double forward_at = std::clamp(backward_at_s - forward_s, input_at, now);
    own_s += now - current.begun_s;
    computed_at_s = now;
    ++step;
    job_->lanes.span(index_, LaneSpan::Kind::kDelay, current.begun_s, input_at);
    job_->lanes.span(index_, LaneSpan::Kind::kInput, input_at, forward_at);
    job_->lanes.span(index_, LaneSpan::Kind::kCompute, forward_at, now);
    job_->lanes.used(index_, current.cost.cpu_core_s, 0);
    record.input_s += forward_at - current.begun_s;
    input_.wanted_s += current.cost.cpu_core_s / current.cost.cpu_threads;
    input_.took_s += forward_at - input_at;
    record.use.cpu_share = cpu_share();
}

double VirtualWorker::cpu_share() const {
    return input_.wanted_s <= 0 || input_.took_s <= 0
               ? job_->cluster.shares(job_->place(index_)).cpu
               : std::min(input_.wanted_s / input_.took_s, 1.0);
}

VirtualCluster::IterationCost JobSpec::cost_of(std::int64_t samples) const {
    const Workload& work = workload;
    const auto count = static_cast<double>(samples);
    return {.cpu_core_s = work.cpu_s + count * work.cpu_s_per_sample,
            .cpu_threads = work.cpu_threads,
            .device_s = work.device_s + count * work.device_s_per_sample,
            .backward_share = work.backward_share};
}

VirtualCluster::IterationCost JobSpec::update_cost(const ClusterProfile& profile) const {
    const double moved = (1 + update_passes(optimizer)) * workload.parameter_bytes;
    VirtualCluster::IterationCost cost{.cpu_core_s = profile.update_s,
                                       .cpu_threads = profile.server_threads};
    if (profile.device_memory_bytes_per_s > 0) {
        cost.device_s = moved / profile.device_memory_bytes_per_s;
    } else {
        cost.cpu_core_s += moved / profile.memory_bytes_per_s;
    }
    return cost;
}

}  // namespace cohort
