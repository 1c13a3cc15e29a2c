#include "sim/job/virtual_job.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

void ConsultationAlarm::set(std::optional<double> at_s) {
    if (at_s && *at_s <= rang_s_) {
        at_s = std::nullopt;  // the consultation for that time has taken place
    }
    if (at_s == at_s_) {
        return;
    }
    queue_.cancel(event_);
    at_s_ = at_s;
    event_ = !at_s ? 0 : queue_.at(std::max(*at_s, queue_.now()), [this] {
        at_s_.reset();
        rang_s_ = queue_.now();
        rung_ = true;
        rings_();
    });
}

void IterationEnds::timed(const End& end) {
    const VirtualLease& lease = job_.leases_out.at(end.lease);
    if (end.own_s <= 0) {  // not measured
        return;
    }
    IterationRecord record = end.record;
    record.worker = lease.worker;
    record.iteration = ++iterations_[job_.at(lease.worker)];
    record.samples = lease.slice.count;
    record.steps = lease.steps;
    record.version = end.version;
    job_.session.iteration_timed(record, end.own_s);
    if (job_.spec.telemetry) {
        job_.records.timed(record);
    }
}

PushTicket IterationEnds::pushed(const End& end) {
    const VirtualLease& pushed = job_.leases_out.at(end.lease);
    check_invariant(pushed.computed != 0, "a push was computed");
    const int worker = pushed.worker;
    timed(end);
    const Learner::Outcome outcome = job_.learner.outcome(pushed.computed);
    if (pushed.halves && outcome.finite) {
        job_.session.gradients().halves(pushed.slice.count, outcome.half_squares,
                                        outcome.gradient_norm);
    }
    PushTicket ticket{.id = {.worker = worker,
                             .incarnation = job_.engine().incarnation(worker),
                             .sequence = ++pushes_[job_.at(worker)]},
                      .lease = end.lease,
                      .version = end.version,
                      .samples = pushed.slice.count,
                      .finite = outcome.finite,
                      .loss_sum = outcome.loss_sum,
                      .correct = outcome.correct,
                      .gradient_norm = outcome.gradient_norm,
                      .work = pushed.work};
    if (job_.engine().plan().validate_every > 0) {
        std::tie(ticket.reference_dot, ticket.reference_norm) =
            job_.learner.compare(pushed.computed);
    }
    job_.log.add(EventLog::Kind::kPush, job_.now(), worker, ticket.lease, ticket.version,
                 ticket.loss_sum);
    if (job_.spec.timeline != nullptr) {
        job_.spec.timeline->pushed(ticket.id, end.version);
    }
    return ticket;
}

VirtualJob::VirtualJob(VirtualCluster& on, Learner& model, JobSpec job)
    : VirtualJobContext(on, model, std::move(job)),
      iteration_ends_(*this),
      evaluations_(spec, learner, log, result),
      alarm_(cluster.queue(), [this] { happened(); }) {
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

void VirtualJob::apply(const UpdateOrder& order, const Fire& /*fire*/) {
    fired_lr = order.learning_rate;
    std::vector<Learner::WorkId> works;
    works.reserve(order.terms.size());
    for (const UpdateTerm& term : order.terms) {
        works.push_back(leases_out.extract(term.lease).mapped().computed);
    }
    const double squares = learner.apply(order, works);
    if (order.ask_norm) {
        session.gradients().answered(order.version, squares);
    }
}

void VirtualJob::applied(const UpdateOrder& update, const Fire& fire) {
    if (spec.timeline != nullptr) {
        std::vector<PushId> pushes;
        for (const UpdateTerm& term : update.terms) {
            pushes.push_back(term.push);
        }
        spec.timeline->updated(update.version, now(), now(), pushes, update.samples);
    }
    if (evaluations_.updated(now(), session.counts().samples_applied) && !stopping()) {
        stop("target");
    }
    if (session.stopping() && !stopping()) {
        stop("budget");
    }
    fired(fire);
    fired_lr.reset();
}

void VirtualJob::check_drops() {
    if (session.counts().drops.diverged(session.counts().updates) && !stopping()) {
        stop("diverged");
    }
}

/// Leases first: who gets one is waited for under the plan that follows.
void VirtualJob::happened() {
    if (!stopping()) {
        give_leases();
    }
    while (!stopping() && (consultation.has_news() || alarm_.rung())) {
        if (auto change = consultation.consult(alarm_.stop())) {
            install(*std::move(change));
            give_leases();
        }
        records.collect(session);
    }
    if (stopping() && !over_) {
        finish();
    }
    alarm_.set(over_ ? std::nullopt : consultation.wake_at());
}

void VirtualJob::finish() {
    end_work();
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
    alarm_.set(std::nullopt);
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
    result.noise_scale = known(session.gradients().statistics().noise_scale());
    result.accounts = engine().accounts();
    result.workers = session.workers().reports();
    if (session.load() != nullptr) {
        result.predictor_scores = session.load()->scores();
    }
    return result;
}

}  // namespace cohort
