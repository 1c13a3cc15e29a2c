#include "sim/job/virtual_job.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"

namespace cohort {

VirtualJob::VirtualJob(VirtualCluster& on, Learner& model, JobSpec job)
    : VirtualJobContext(on, model, std::move(job)),
      effects_(session, *this),
      evaluations_(spec, learner, log, result),
      pushes_(at(workers()), 0),
      iterations_(pushes_.size(), 0) {
}

void VirtualJob::begin() {
    engine().set_noise_scale(spec.noise_scale);
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
    session.stop();
}

void VirtualJob::give_back(std::uint64_t lease, ReturnReason reason) {
    returned({.lease = lease, .reason = reason});
    session.leases().open().returned(lease, reason);
}

void VirtualJob::returned(const ReturnLease& lease) {
    const auto out = leases_out.extract(lease.lease);
    check_invariant(!out.empty(), "a lease that comes back was out");
    if (out.mapped().computed != 0) {
        learner.forget(out.mapped().computed);
    }
}

void VirtualJob::timed(const Arrival& arrival) {
    const VirtualLease& lease = leases_out.at(arrival.lease);
    if (arrival.own_s <= 0) {  // not measured
        return;
    }
    IterationRecord record = arrival.record;
    record.worker = lease.worker;
    record.iteration = ++iterations_[at(lease.worker)];
    record.samples = lease.slice.count;
    record.version = arrival.version;
    session.iteration_timed(record, arrival.own_s);
    if (spec.telemetry) {
        records.timed(record);
    }
}

void VirtualJob::push(const Arrival& arrival) {
    const VirtualLease& pushed = leases_out.at(arrival.lease);
    check_invariant(pushed.computed != 0, "a push was computed");
    const int worker = pushed.worker;
    timed(arrival);
    const Learner::Outcome outcome = learner.outcome(pushed.computed);
    if (pushed.halves && outcome.finite) {
        session.gradients().halves(pushed.slice.count, outcome.half_squares, outcome.gradient_norm);
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
        std::tie(ticket.reference_dot, ticket.reference_norm) = learner.compare(pushed.computed);
    }
    log.add(EventLog::Kind::kPush, now(), worker, ticket.lease, ticket.version, ticket.loss_sum);
    deliver({.ticket = ticket, .correct = outcome.correct});
}

// ------------------------------------------------------------------------- effects of the engine

void VirtualJob::observe(const Effect& effect) {
    const double time = now();
    using Kind = EventLog::Kind;
    if (const auto* fire = std::get_if<Fire>(&effect)) {
        log.add(Kind::kFire, time, fire->version, fire->samples, fire->fraction);
        for (const FiredPush& push : fire->pushes) {
            log.mix(push.ticket.lease);
            log.mix(push.weight);
        }
    } else if (const auto* release = std::get_if<ReleaseOne>(&effect)) {
        log.add(Kind::kRelease, time, release->worker, release->version, release->lag);
    } else if (const auto* refusal = std::get_if<Refuse>(&effect)) {
        log.add(Kind::kRefuse, time, refusal->push.worker, refusal->push.sequence);
    } else if (const auto* interrupt = std::get_if<Interrupt>(&effect)) {
        log.add(Kind::kInterrupt, time, interrupt->worker, interrupt->version);
    } else if (const auto* lease = std::get_if<ReturnLease>(&effect)) {
        log.add(Kind::kReturn, time, lease->worker, lease->lease);
    }
}

void VirtualJob::apply(const UpdateOrder& order, const Fire& /*fire*/) {
    fired_lr = order.learning_rate;
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
        const auto lease = leases_out.extract(term.lease);
        update.terms.push_back({.work = lease.mapped().computed,
                                .coefficient = term.coefficient,
                                .worker = term.push.worker,
                                .version = term.version});
    }
    const GradientAnswer answer = learner.apply(update);
    if (update.question.any()) {
        session.gradients().answered(order.version, answer);
    }
}

void VirtualJob::applied(const UpdateOrder& /*update*/, const Fire& fire) {
    if (evaluations_.updated(now(), session.counts().samples_applied) && !stopping()) {
        stop("target");
    }
    if (session.stopping() && !stopping()) {
        stop("budget");
    }
    fired(fire);
    fired_lr.reset();
}

void VirtualJob::dropped() {
    session.dropped();
    check_drops();
}

void VirtualJob::check_drops() {
    if (session.counts().drops.diverged(session.counts().updates) && !stopping()) {
        stop("diverged");
    }
}

// ------------------------------------------------------------------------------- after each event

/// Leases first: who gets one is waited for under the plan that follows.
void VirtualJob::happened() {
    if (!stopping()) {
        give_leases();
    }
    while (!stopping() && (consultation.has_news() || woken_)) {
        consult_modes();
    }
    if (stopping() && !over_) {
        finish();
    }
    set_alarm();
}

/// Whoever chooses the mode may want to be asked before the next update.
void VirtualJob::set_alarm() {
    const std::optional<double> at_s = over_ ? std::nullopt : consultation.wake_at();
    if (at_s == alarm_s_) {
        return;
    }
    cluster.queue().cancel(alarm_);
    alarm_s_ = at_s;
    alarm_ = !at_s ? 0 : cluster.queue().at(std::max(*at_s, now()), [this] {
        alarm_s_.reset();
        woken_ = true;
        happened();
    });
}

/// Asks whoever chooses the mode, once an update was made, or it is time.
void VirtualJob::consult_modes() {
    if (auto change = consultation.consult(std::exchange(woken_, false))) {
        install(*std::move(change));
        give_leases();
    }
    records.collect(session);
}

void VirtualJob::finish() {
    end_work();
    effects().carry_out(engine().stop());
    while (!leases_out.empty()) {  // those that the engine was not told of
        give_back(leases_out.begin()->first, ReturnReason::kStop);
    }
    const EngineAccounts mine = engine().accounts();
    const SampleAccounts leases = session.leases().open().part_accounts();
    check_invariant(
        mine.leased == std::accumulate(mine.returned.begin(), mine.returned.end(), mine.applied) &&
            mine.applied == leases.applied && mine.applied == session.counts().samples_applied &&
            mine.outstanding == 0 && leases.outstanding == 0,
        "every leased sample was applied or came back");
    evaluations_.end();
    session.end();
    records.collect(session);
    over_ = true;
    set_alarm();
}

const SimulationResult& VirtualJob::report() {
    result.stop_reason = stop_reason_;
    result.virtual_s = now();
    result.samples_applied = session.counts().samples_applied;
    result.updates = session.counts().updates;
    EventLog all = log;
    all.mix(learner.digest());
    result.digest = all.digest();
    const auto known = [](double number) {
        return number != 0 ? std::optional<double>(number) : std::nullopt;
    };
    const GradientStatistics& gradients = session.gradients().statistics();
    result.noise_scale = known(gradients.noise_scale());
    result.step_curvature = known(gradients.step_curvature());
    result.agreement = known(gradients.agreement());
    result.accounts = engine().accounts();
    result.workers = session.workers().reports();
    if (session.load() != nullptr) {
        result.predictor_scores = session.load()->scores();
    }
    return result;
}

}  // namespace cohort
