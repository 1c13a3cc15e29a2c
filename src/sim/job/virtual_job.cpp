#include "sim/job/virtual_job.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "optim/update_cost.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

/// Reference batches that the lag histogram covers; more is in its last bin.
constexpr std::size_t kLagBatches = 16;

EngineOptions engine_options(const JobSpec& spec) {
    return {.workers = spec.workers(), .reference_batch = spec.setting.batch * spec.workers()};
}

}  // namespace

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

VirtualJob::VirtualJob(VirtualCluster& cluster, Learner& learner, JobSpec spec)
    : cluster_(cluster),
      learner_(learner),
      spec_(std::move(spec)),
      modes_(spec_.choice, spec_.setting, 0),
      engine_(engine_options(spec_), modes_.start()),
      gradients_(spec_.setting.batch * spec_.workers()),
      book_(spec_.train, {.seed = spec_.seed}, spec_.budget_samples),
      books_(spec_.workers(), spec_.setting.batch),
      lanes_(spec_.workers(), spec_.lane_spans),
      batches_(at(spec_.workers()), spec_.setting.batch),
      pushes_(batches_.size(), 0),
      iterations_(batches_.size(), 0),
      reference_batch_(spec_.setting.batch * spec_.workers()),
      next_evaluation_(spec_.eval_every_samples),
      lag_histogram_(kLagBatches * SimulationResult::kLagBins + 1, 0) {
    check_invariant(spec_.setting.live.size() == spec_.worker_nodes.size(),
                    "a mode is set for the workers that there are");
    if (spec_.telemetry) {
        load_ = std::make_unique<LoadDesk>(spec_.workers(), spec_.setting.batch,
                                           LoadDesk::kLagBound, nullptr);
    }
    places_.reserve(batches_.size());
    for (const int node : spec_.worker_nodes) {
        places_.push_back(cluster_.add_place(node));
    }
}

VirtualJob::~VirtualJob() {
    for (const VirtualCluster::PlaceId place : places_) {
        cluster_.remove_place(place);
    }
}

void VirtualJob::begin() {
    engine_.set_noise_scale(spec_.noise_scale);
    start_work();
    happened();
}

void VirtualJob::end(const std::string& reason) {
    if (!over_) {
        stop_reason_ = stopping() ? stop_reason_ : reason;
        finish();
    }
}

double VirtualJob::learning_rate(double scale) const {
    return scale * spec_.schedule.lr(spec_.lr, samples_applied_);
}

VirtualJob::Lease* VirtualJob::take_lease(int worker, std::int64_t samples) {
    const SyncPlan& plan = engine_.plan();
    const std::int64_t batch = std::max<std::int64_t>(batch_of(worker), 1);
    const std::int64_t wanted = samples > 0 ? samples : batch * steps_per_push(plan);
    const std::optional<LeasedSlice> taken = book_.take_slice(wanted);
    if (!taken) {
        return nullptr;
    }
    Lease& lease = leases_[taken->id];
    lease = {.id = taken->id,
             .worker = worker,
             .slice = taken->slice,
             .work = plan.work,
             .plan = plan.id};
    lease.halves = gradients_.halve(plan, taken->slice.count, wish());
    if (plan.work == Work::kDelta) {
        lease.steps = local_steps_of(taken->slice.count, batch, plan);
        lease.lr = learning_rate(plan.lr_scale);
    }
    log_.add(EventLog::Kind::kLease, now(), worker, lease.id, lease.slice.position);
    return &lease;
}

VirtualJob::Lease* VirtualJob::lease(std::uint64_t id) {
    const auto found = leases_.find(id);
    return found == leases_.end() ? nullptr : &found->second;
}

void VirtualJob::give_back(std::uint64_t lease, ReturnReason reason) {
    const auto found = leases_.find(lease);
    check_invariant(found != leases_.end(), "a lease that comes back was out");
    came_back(found->second);
    if (found->second.computed != 0) {
        learner_.forget(found->second.computed);
    }
    leases_.erase(found);
    check_invariant(
        reason == ReturnReason::kStop ? book_.mark_unused(lease) : book_.mark_returned(lease),
        "a lease that comes back is outstanding");
}

Learner::Released VirtualJob::parameters_for(int worker, double lag) {
    const SyncPlan& plan = engine_.plan();
    const double lr = fired_lr_ ? *fired_lr_ : learning_rate(plan.lr_scale);
    return learner_.release(worker, lag, lr, plan.delay_compensation > 0);
}

Learner::Job VirtualJob::job_of(const Lease& lease, Learner::Released parameters) const {
    return {.worker = lease.worker,
            .slice = lease.slice,
            .parameters = std::move(parameters),
            .work = lease.work,
            .steps = lease.steps,
            .lr = lease.lr,
            .generation = lease.plan,
            .halves = lease.halves};
}

void VirtualJob::timed(Timed what) {
    const bool measured = what.own_s > 0;
    books_.timed(what.worker, measured ? what.samples : 0, what.own_s, Clock::Seconds(now()));
    if (!measured || !load_) {
        return;
    }
    IterationRecord& record = what.record;
    record.worker = what.worker;
    record.iteration = ++iterations_[at(what.worker)];
    record.samples = what.samples;
    record.version = what.version;
    record.arrived_s = now();
    record.lag = engine_.lag_of(what.version);
    load_->timed(record);
    if (records_.size() < spec_.records) {
        records_.push_back(record);
    }
}

double VirtualJob::cpu_share(int worker, const CpuTime& time) const {
    if (time.wanted_s <= 0 || time.took_s <= 0) {
        return cluster_.shares(place(worker)).cpu;
    }
    return std::min(time.wanted_s / time.took_s, 1.0);
}

double VirtualJob::out_alone_s(int worker, double bytes) const {
    const ClusterProfile& kind = cluster_.profile();
    return kind.latency_s + bytes / (kind.nic_bytes_per_s * cluster_.shares(place(worker)).tx);
}

double VirtualJob::in_alone_s(int worker, double bytes) const {
    const ClusterProfile& kind = cluster_.profile();
    return kind.latency_s + bytes / (kind.nic_bytes_per_s * cluster_.shares(place(worker)).rx);
}

void VirtualJob::begun(int worker, std::int64_t samples) {
    if (load_) {
        load_->begun(worker, now(), samples);
    }
}

void VirtualJob::stopped(int worker) {
    if (load_) {
        load_->stopped(worker);
    }
}

void VirtualJob::push(const Arrival& arrival) {
    const Lease& pushed = lease_out(arrival.lease);
    check_invariant(pushed.computed != 0, "a push was computed");
    const int worker = pushed.worker;
    timed({.worker = worker,
           .samples = pushed.slice.count,
           .version = arrival.version,
           .own_s = arrival.own_s,
           .record = arrival.record});
    const Learner::Outcome outcome = learner_.outcome(pushed.computed);
    if (pushed.halves && outcome.finite) {
        gradients_.halves(pushed.slice.count, outcome.half_squares,
                          outcome.gradient_norm * outcome.gradient_norm);
        learned_of_gradients();
    }
    PushTicket ticket{.id = {.worker = worker,
                             .incarnation = engine_.incarnation(worker),
                             .sequence = ++pushes_[at(worker)]},
                      .lease = arrival.lease,
                      .version = arrival.version,
                      .samples = pushed.slice.count,
                      .finite = outcome.finite,
                      .loss_sum = outcome.loss_sum,
                      .gradient_norm = outcome.gradient_norm,
                      .work = pushed.work};
    if (engine_.plan().validate_every > 0) {
        std::tie(ticket.reference_dot, ticket.reference_norm) = learner_.compare(pushed.computed);
    }
    log_.add(EventLog::Kind::kPush, now(), worker, ticket.lease, ticket.version, ticket.loss_sum);
    held_[ticket.id] = {
        .lease = ticket.lease, .samples = ticket.samples, .version = ticket.version};
    carry_out(engine_.push(ticket));
}

void VirtualJob::put_in_force(PlanChange change) {
    log_.add(EventLog::Kind::kPlan, now(), change.plan.id);
    const std::vector<Effect> effects = engine_.install(std::move(change.plan));
    if (!change.batches.empty()) {
        check_invariant(change.batches.size() == batches_.size(), "a batch size for every worker");
        batches_ = std::move(change.batches);
    }
    carry_out(effects);
    modes_.installed(engine_.plan(), now());
}

RunMoment VirtualJob::moment() {
    return {
        .seconds = now(), .samples = samples_applied_, .loss = load_ ? load_->gradients().loss : 0};
}

void VirtualJob::finish() {
    end_work();
    carry_out(engine_.stop());
    while (!leases_.empty()) {  // those that the engine was not told of
        const auto oldest =
            std::min_element(leases_.begin(), leases_.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
        give_back(oldest->first, ReturnReason::kStop);
    }
    check_accounts();
    if (spec_.eval_every_samples > 0 && !last_) {
        evaluate(0);
    }
    modes_.end(moment());
    collect_switches();
    if (load_) {
        load_->ended();
    }
    collect_stragglers();
    over_ = true;
    set_alarm();
}

void VirtualJob::check_accounts() const {
    const EngineAccounts accounts = engine_.accounts();
    std::int64_t settled = accounts.applied;
    for (const std::int64_t samples : accounts.returned) {
        settled += samples;
    }
    check_invariant(accounts.leased == settled && accounts.outstanding == 0,
                    "every leased sample was applied or came back");
    check_invariant(accounts.applied == samples_applied_ &&
                        book_.account().applied == samples_applied_ &&
                        book_.account().outstanding == 0,
                    "the books and the engine agree");
}

void VirtualJob::report(SimulationResult& result) {
    result.stop_reason = stop_reason_;
    result.virtual_s = now();
    result.samples_applied = samples_applied_;
    result.updates = updates_;
    EventLog log = log_;
    log.mix(learner_.digest());
    result.digest = log.digest();
    result.tta_virtual_s = tta_s_;
    result.samples_to_target = samples_to_target_;
    if (last_) {
        result.accuracy = last_->accuracy;
        result.loss = last_->loss;
    }
    const auto known = [](double number) {
        return number != 0 ? std::optional<double>(number) : std::nullopt;
    };
    result.noise_scale = known(gradients_.noise_scale());
    result.step_curvature = known(gradients_.step_curvature());
    result.agreement = known(gradients_.agreement());
    result.accounts = engine_.accounts();
    result.workers = books_.reports();
    for (const WorkerLanes::Totals& total : lanes_.totals()) {
        result.worker_busy_s.push_back(total.busy_s);
        result.worker_wait_s.push_back(total.wait_s);
        result.worker_cpu_s.push_back(total.cpu_core_s);
        result.worker_bytes.push_back(total.bytes);
    }
    result.evaluations = evaluations_;
    result.switches = switches_;
    result.decisions = decisions_;
    result.windows = windows_;
    report_load(result);
    result.lag_histogram = lag_histogram_;
    result.lanes = lanes_.spans();
    report_servers(result);
}

void VirtualJob::report_load(SimulationResult& result) const {
    result.records = records_;
    result.stragglers = stragglers_;
    if (load_) {
        result.predictor_scores = load_->scores();
    }
}

}  // namespace cohort
