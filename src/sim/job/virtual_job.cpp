#include "sim/job/virtual_job.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"

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

VirtualJob::VirtualJob(VirtualCluster& cluster, Learner& learner, JobSpec spec)
    : cluster_(cluster),
      learner_(learner),
      spec_(std::move(spec)),
      records_(spec_.records),
      session_(session_options(spec_, cluster_, records_),
               ModeController(spec_.choice, spec_.setting, 0),
               LeaseLedger(spec_.train, {.seed = spec_.seed}, spec_.budget_samples), {}, {}),
      effects_(session_, *this),
      lanes_(spec_.workers(), spec_.lane_spans),
      evaluations_(spec_, learner_, log_),
      batches_(at(spec_.workers()), spec_.setting.batch),
      pushes_(batches_.size(), 0),
      iterations_(batches_.size(), 0) {
    check_invariant(spec_.setting.live.size() == spec_.worker_nodes.size(),
                    "a mode is set for the workers that there are");
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
    engine().set_noise_scale(spec_.noise_scale);
    start_work();
    happened();
}

void VirtualJob::end(const std::string& reason) {
    if (!over_) {
        stop(reason);
        finish();
    }
}

/// The first reason counts.
void VirtualJob::stop(const std::string& reason) {
    stop_reason_ = stopping() ? stop_reason_ : reason;
    session_.stop();
}

// ----------------------------------------------------------------------------------------- leases

VirtualJob::Lease* VirtualJob::take_lease(int worker) {
    const SyncPlan& plan = engine().plan();
    const std::int64_t batch = std::max<std::int64_t>(batches_[at(worker)], 1);
    std::optional<LeaseOrder> order =
        session_.leases().open().take(worker, batch * steps_per_push(plan));
    if (!order) {
        return nullptr;
    }
    order->halves = session_.gradients().halve(plan, order->count, session_.gradient_policy());
    order->work.work = plan.work;
    if (plan.work == Work::kDelta) {
        order->work.steps = local_steps_of(order->count, batch, plan);
        order->work.lr = session_.learning_rate(plan.lr_scale);
    }
    return &add_lease(worker, *order);
}

VirtualJob::Lease& VirtualJob::add_lease(int worker, const LeaseOrder& order) {
    log_.add(EventLog::Kind::kLease, now(), worker, order.lease, order.position);
    return leases_[order.lease] = {
               .id = order.lease,
               .worker = worker,
               .slice = {.epoch = order.epoch, .position = order.position, .count = order.count},
               .work = order.work.work,
               .steps = order.work.steps,
               .lr = order.work.lr,
               .halves = order.halves,
               .plan = engine().plan().id};
}

VirtualJob::Lease* VirtualJob::lease(std::uint64_t id) {
    const auto found = leases_.find(id);
    return found == leases_.end() ? nullptr : &found->second;
}

void VirtualJob::give_back(std::uint64_t lease, ReturnReason reason) {
    returned({.lease = lease, .reason = reason});
    session_.leases().open().returned(lease, reason);
}

void VirtualJob::returned(const ReturnLease& lease) {
    const auto found = leases_.find(lease.lease);
    check_invariant(found != leases_.end(), "a lease that comes back was out");
    came_back(found->second);
    if (found->second.computed != 0) {
        learner_.forget(found->second.computed);
    }
    leases_.erase(found);
}

Learner::Released VirtualJob::parameters_for(int worker, double lag) {
    const SyncPlan& plan = engine().plan();
    const double lr = fired_lr_ ? *fired_lr_ : session_.learning_rate(plan.lr_scale);
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

// ------------------------------------------------------------------------------------- iterations

void VirtualJob::timed(Timed what) {
    IterationRecord& record = what.record;
    if (what.own_s <= 0) {  // not measured
        return;
    }
    record.worker = what.worker;
    record.iteration = ++iterations_[at(what.worker)];
    record.samples = what.samples;
    record.version = what.version;
    session_.iteration_timed(record, what.own_s);
    if (spec_.telemetry) {
        records_.timed(record);
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
        session_.halves(pushed.slice.count, outcome.half_squares, outcome.gradient_norm);
    }
    PushTicket ticket{.id = {.worker = worker,
                             .incarnation = engine().incarnation(worker),
                             .sequence = ++pushes_[at(worker)]},
                      .lease = arrival.lease,
                      .version = arrival.version,
                      .samples = pushed.slice.count,
                      .finite = outcome.finite,
                      .loss_sum = outcome.loss_sum,
                      .gradient_norm = outcome.gradient_norm,
                      .work = pushed.work};
    if (engine().plan().validate_every > 0) {
        std::tie(ticket.reference_dot, ticket.reference_norm) = learner_.compare(pushed.computed);
    }
    log_.add(EventLog::Kind::kPush, now(), worker, ticket.lease, ticket.version, ticket.loss_sum);
    deliver({.ticket = ticket, .correct = outcome.correct});
}

void VirtualJob::unused(int worker, std::int64_t samples, ReturnReason reason) {
    session_.settled({.worker = worker, .samples = samples, .weight = 0, .returned = reason});
}

// ------------------------------------------------------------------------- effects of the engine

void VirtualJob::observe(const Effect& effect) {
    const double time = now();
    using Kind = EventLog::Kind;
    if (const auto* fire = std::get_if<Fire>(&effect)) {
        log_.add(Kind::kFire, time, fire->version, fire->samples, fire->fraction);
        for (const FiredPush& push : fire->pushes) {
            log_.mix(push.ticket.lease);
            log_.mix(push.weight);
        }
    } else if (const auto* release = std::get_if<ReleaseOne>(&effect)) {
        log_.add(Kind::kRelease, time, release->worker, release->version, release->lag);
    } else if (const auto* refusal = std::get_if<Refuse>(&effect)) {
        log_.add(Kind::kRefuse, time, refusal->push.worker, refusal->push.sequence);
    } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
        log_.add(Kind::kInterrupt, time, interrupt->worker, interrupt->version);
    } else if (const auto* lease = std::get_if<ReturnLease>(&effect)) {
        log_.add(Kind::kReturn, time, lease->worker, lease->lease);
    }
}

void VirtualJob::apply(const UpdateOrder& order, const Fire& /*fire*/) {
    fired_lr_ = order.learning_rate;
    Learner::Update update{.version = order.version,
                           .samples = order.samples,
                           .fraction = order.fraction,
                           .lr = order.learning_rate,
                           .work = order.work,
                           .delay_compensation = order.delay_compensation,
                           .terms = {},
                           .question = order.question};
    update.terms.reserve(order.terms.size());
    for (const UpdateOrder::Term& term : order.terms) {
        const auto lease = leases_.extract(term.lease);
        update.terms.push_back({.work = lease.mapped().computed,
                                .coefficient = term.coefficient,
                                .worker = term.push.worker,
                                .version = term.version});
    }
    const GradientAnswer answer = learner_.apply(update);
    if (update.question.any()) {
        session_.answered(order.version, answer);
    }
}

void VirtualJob::applied(const UpdateOrder& /*update*/, const Fire& fire) {
    if (evaluations_.updated(now(), samples_applied()) && !stopping()) {
        stop("target");
    }
    if (session_.stopping() && !stopping()) {
        stop("budget");
    }
    fired(fire);
    fired_lr_.reset();
}

void VirtualJob::dropped() {
    session_.dropped();
    if (session_.counts().drops.diverged(updates()) && !stopping()) {
        stop("diverged");
    }
}

void VirtualJob::dropped(const SessionPush& /*push*/) {
    if (session_.counts().drops.diverged(updates()) && !stopping()) {
        stop("diverged");
    }
}

void VirtualJob::log_plan(const SyncPlan& plan) {
    log_.add(EventLog::Kind::kPlan, now(), plan.id);
}

void VirtualJob::put_in_force(PlanChange change) {
    log_plan(change.plan);
    const std::vector<Effect> effects = engine().install(std::move(change.plan));
    if (!change.batches.empty()) {
        check_invariant(change.batches.size() == batches_.size(), "a batch size for every worker");
        batches_ = std::move(change.batches);
    }
    carry_out(effects);
    session_.installed();
}

// ------------------------------------------------------------------------------- after each event

/// Leases first: who gets one is waited for under the plan that follows.
void VirtualJob::happened() {
    if (!stopping()) {
        deal();
    }
    while (!stopping() && (session_.has_news() || woken_)) {
        consult_modes();
    }
    if (stopping() && !over_) {
        finish();
    }
    set_alarm();
}

/// Whoever chooses the mode may want to be asked before the next update.
void VirtualJob::set_alarm() {
    const std::optional<double> at_s = over_ ? std::nullopt : session_.wake_at();
    if (at_s == alarm_s_) {
        return;
    }
    queue().cancel(alarm_);
    alarm_s_ = at_s;
    alarm_ = !at_s ? 0 : queue().at(std::max(*at_s, now()), [this] {
        alarm_s_.reset();
        woken_ = true;
        happened();
    });
}

/// Asks whoever chooses the mode, once an update was made, or it is time.
void VirtualJob::consult_modes() {
    if (session_.wants_consultation(std::exchange(woken_, false))) {
        if (auto change = session_.consult()) {
            install(*std::move(change));
            deal();
        }
    }
    records_.collect(session_);
}

void VirtualJob::finish() {
    end_work();
    carry_out(engine().stop());
    while (!leases_.empty()) {  // those that the engine was not told of
        const auto oldest =
            std::min_element(leases_.begin(), leases_.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
        give_back(oldest->first, ReturnReason::kStop);
    }
    check_accounts();
    evaluations_.end();
    session_.end();
    records_.collect(session_);
    over_ = true;
    set_alarm();
}

void VirtualJob::check_accounts() const {
    const EngineAccounts accounts = engine().accounts();
    std::int64_t settled = accounts.applied;
    for (const std::int64_t samples : accounts.returned) {
        settled += samples;
    }
    check_invariant(accounts.leased == settled && accounts.outstanding == 0,
                    "every leased sample was applied or came back");
    const SampleAccounts leases = session_.leases().open().part_accounts();
    check_invariant(accounts.applied == samples_applied() && leases.applied == accounts.applied &&
                        leases.outstanding == 0,
                    "the leases and the engine agree");
}

void VirtualJob::report(SimulationResult& result) {
    result.stop_reason = stop_reason_;
    result.virtual_s = now();
    result.samples_applied = samples_applied();
    result.updates = updates();
    EventLog log = log_;
    log.mix(learner_.digest());
    result.digest = log.digest();
    const auto known = [](double number) {
        return number != 0 ? std::optional<double>(number) : std::nullopt;
    };
    const GradientStatistics& gradients = session_.gradients();
    result.noise_scale = known(gradients.noise_scale());
    result.step_curvature = known(gradients.step_curvature());
    result.agreement = known(gradients.agreement());
    result.accounts = engine().accounts();
    result.workers = session_.workers().reports();
    for (const WorkerLanes::Totals& total : lanes_.totals()) {
        result.worker_busy_s.push_back(total.busy_s);
        result.worker_wait_s.push_back(total.wait_s);
        result.worker_cpu_s.push_back(total.cpu_core_s);
        result.worker_bytes.push_back(total.bytes);
    }
    result.lanes = lanes_.spans();
    if (session_.load() != nullptr) {
        result.predictor_scores = session_.load()->scores();
    }
    evaluations_.report(result);
    records_.report(result);
    report_servers(result);
}

}  // namespace cohort
