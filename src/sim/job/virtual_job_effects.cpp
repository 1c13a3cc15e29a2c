#include <algorithm>
#include <utility>
#include <variant>

#include "cohort/core/error.hpp"
#include "sched/engine/fire_sum.hpp"
#include "sim/job/virtual_job.hpp"

// What the engine decides, carried out: updates of the learner, evaluations, entries in the books.
namespace cohort {
namespace {

/// Of accuracy: from here to the target the whole test set decides.
constexpr double kNearTarget = 0.01;

}  // namespace

void VirtualJob::carry_out(const std::vector<Effect>& effects) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
        log(effects[i]);
        if (const auto* stopped = std::get_if<Interrupt>(&effects[i])) {
            carry_out(*stopped, lease_given_up(effects, i));
        } else if (const auto* fire = std::get_if<Fire>(&effects[i])) {
            carry_out(*fire);
        } else if (const auto* release = std::get_if<ReleaseOne>(&effects[i])) {
            released(*release);
        } else if (const auto* refusal = std::get_if<Refuse>(&effects[i])) {
            carry_out(*refusal);
        } else {
            carry_out(std::get<ReturnLease>(effects[i]));
        }
    }
}

void VirtualJob::log(const Effect& effect) {
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

void VirtualJob::carry_out(const Fire& fire) {
    fired_lr_ = learning_rate(fire.lr_scale);
    apply(fire);
    settle_books(fire);
    note_loss(fire);
    samples_applied_ += fire.samples;
    ++updates_;
    last_update_s_ = now();
    drops_.updated();
    last_.reset();
    if (modes_.awaits_update()) {
        modes_.updated(now(), books_.slowest_own_s());
    }
    updated_ = true;
    if (spec_.eval_every_samples > 0 && samples_applied_ >= next_evaluation_) {
        evaluate();
    }
    if (book_.finished() && !stopping()) {
        stop_reason_ = "budget";
    }
    fired(fire);
    fired_lr_.reset();
}

std::vector<double> VirtualJob::coefficients(const Fire& fire) const {
    std::vector<std::int32_t> steps;
    for (std::size_t i = 0; i < fire.pushes.size() && fire.work == Work::kDelta; ++i) {
        steps.push_back(leases_.at(fire.pushes[i].ticket.lease).steps);
    }
    return sum_coefficients(fire, steps, reference_batch_);
}

/// Summed in the order of leases, not of arrival: the same bits whatever the timing.
void VirtualJob::apply(const Fire& fire) {
    Learner::Update update{.version = fire.version,
                           .samples = fire.samples,
                           .fraction = fire.fraction,
                           .lr = *fired_lr_,
                           .work = fire.work,
                           .delay_compensation = engine_.plan().delay_compensation,
                           .terms = {}};
    std::vector<double> weights = coefficients(fire);
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    order.reserve(weights.size());
    for (std::size_t i = 0; i < fire.pushes.size(); ++i) {
        order.emplace_back(fire.pushes[i].ticket.lease, i);
    }
    std::sort(order.begin(), order.end());
    update.terms.reserve(order.size());
    for (const auto& [id, i] : order) {
        const auto found = leases_.find(id);
        check_invariant(found != leases_.end(), "a push that fires has its lease");
        const PushTicket& ticket = fire.pushes[i].ticket;
        update.terms.push_back({.work = found->second.computed,
                                .coefficient = weights[i],
                                .worker = ticket.id.worker,
                                .version = ticket.version});
        leases_.erase(found);
        held_.erase(ticket.id);
        check_invariant(book_.mark_applied(id), "an applied lease is outstanding");
    }
    update.question = gradients_.ask(fire, engine_.plan(), wish());
    const GradientAnswer answer = learner_.apply(update);
    if (update.question.any()) {
        gradients_.answered(fire.version, answer);
        learned_of_gradients();
    }
}

GradientWish VirtualJob::wish() const {
    return {.every_update =
                engine_.plan().lr_unit == SyncPlan::LrUnit::kAdaScale && spec_.noise_scale == 0,
            .now_and_then = spec_.measure_gradients || modes_.wants_gradients()};
}

/// What was known holds until it is known anew.
void VirtualJob::learned_of_gradients() {
    if (const double phi = gradients_.noise_scale(); phi > 0 && wish().every_update) {
        engine_.set_noise_scale(phi);
    }
    if (load_) {
        load_->measured({.noise_scale = gradients_.noise_scale(),
                         .curvature = gradients_.step_curvature(),
                         .agreement = gradients_.agreement()});
    }
}

void VirtualJob::settle_books(const Fire& fire) {
    for (const FiredPush& push : fire.pushes) {
        books_.settled(outcome_of(push));
        const double bin = push.lag * SimulationResult::kLagBins;
        const std::size_t last = lag_histogram_.size() - 1;
        ++lag_histogram_[bin < static_cast<double>(last) ? static_cast<std::size_t>(bin) : last];
    }
}

/// Without a network there is none.
void VirtualJob::note_loss(const Fire& fire) {
    double loss_sum = 0;
    for (const FiredPush& push : fire.pushes) {
        loss_sum += push.ticket.loss_sum;
    }
    if (load_ && loss_sum > 0) {
        load_->updated(loss_sum / static_cast<double>(fire.samples));
    }
}

void VirtualJob::carry_out(const Refuse& refusal) {
    const auto held = held_.extract(refusal.push);
    check_invariant(!held.empty(), "a refused push was held");
    books_.settled({.worker = refusal.push.worker,
                    .samples = held.mapped().samples,
                    .lag = refusal.lag,
                    .lag_updates = engine_.version() - held.mapped().version,
                    .weight = 0,
                    .returned = refusal.reason});
    refused(refusal, lease_out(held.mapped().lease));
    if (refusal.reason == ReturnReason::kNonFinite) {
        dropped();
    }
}

void VirtualJob::unused(int worker, std::int64_t samples, ReturnReason reason) {
    books_.settled({.worker = worker, .samples = samples, .weight = 0, .returned = reason});
}

void VirtualJob::dropped() {
    drops_.dropped(updates_);
    if (drops_.diverged(updates_) && !stopping()) {
        stop_reason_ = "diverged";
    }
}

void VirtualJob::carry_out(const Interrupt& interrupt, const ReturnLease* lease) {
    if (lease != nullptr) {
        books_.settled({.worker = interrupt.worker,
                        .samples = lease->samples,
                        .lag = interrupt.behind,
                        .weight = 0,
                        .returned = ReturnReason::kInterrupted});
    }
    interrupted(interrupt);
}

void VirtualJob::carry_out(const ReturnLease& lease) {
    give_back(lease.lease, lease.reason);
}

/// At the first update at or after each boundary; it takes no virtual time.
void VirtualJob::evaluate() {
    const std::int64_t every = spec_.eval_every_samples;
    next_evaluation_ = (samples_applied_ / every + 1) * every;
    const double target = spec_.target_accuracy;
    if (spec_.eval_samples > 0) {
        const double first = evaluate(spec_.eval_samples);
        if (target <= 0 || first < target - kNearTarget) {
            return;
        }
    }
    const double decides = evaluate(0);
    if (target > 0 && decides >= target && !stopping()) {
        stop_reason_ = "target";
    }
}

/// The time to the target is the time of the first update that reaches it on the whole test set,
/// also when that is found out at the end.
/// @return the accuracy that is to reach the target
double VirtualJob::evaluate(std::int64_t samples) {
    const Learner::Accuracy found = learner_.evaluate(samples);
    EvaluationPoint point{.virtual_s = last_update_s_,
                          .samples_applied = samples_applied_,
                          .accuracy = found.accuracy,
                          .loss = found.loss,
                          .test_samples = found.samples};
    log_.add(EventLog::Kind::kEvaluation, last_update_s_, found.accuracy, found.loss,
             found.samples);
    if (spec_.eval_average) {
        const Learner::Accuracy mean = learner_.evaluate_average(samples);
        point.average_accuracy = mean.accuracy;
        point.average_loss = mean.loss;
    }
    evaluations_.push_back(point);
    const double decides =
        spec_.target_on_average ? point.average_accuracy.value_or(0) : found.accuracy;
    if (samples > 0) {
        return decides;
    }
    last_ = found;
    if (spec_.target_accuracy > 0 && decides >= spec_.target_accuracy && !tta_s_) {
        tta_s_ = last_update_s_;
        samples_to_target_ = samples_applied_;
    }
    return decides;
}

}  // namespace cohort
