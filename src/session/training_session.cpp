#include "session/training_session.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

EngineOptions engine_options(const SessionOptions& options, const SessionCounts& start) {
    return {.workers = options.workers,
            .reference_batch = options.reference_batch,
            .version = start.version,
            .reference_batches = start.reference_batches};
}

}  // namespace

TrainingSession::TrainingSession(SessionOptions options, ModeController modes, LeaseLedger ledger,
                                 const SampleAccounts& earlier, SessionCounts start)
    : options_(std::move(options)),
      modes_(std::move(modes)),
      engine_(engine_options(options_, start), modes_.start()),
      leases_(std::move(ledger), options_.budget_samples,
              {.workers = options_.workers, .batch = options_.batch}, earlier),
      gradients_(options_.reference_batch),
      workers_(options_.workers, options_.batch),
      counts_(std::move(start)) {
    if (options_.monitor_load) {
        load_ = std::make_unique<LoadMonitor>(options_.workers, options_.batch,
                                              LoadMonitor::kLagBound, nullptr);
    }
}

void TrainingSession::iteration_begun(int worker, std::int64_t samples) {
    if (load_) {
        load_->begun(worker, options_.now().training_s, samples);
    }
}

void TrainingSession::iteration_abandoned(int worker) {
    if (load_) {
        load_->stopped(worker);
    }
}

void TrainingSession::iteration_timed(IterationRecord& record, double own_s) {
    record.arrived_s = options_.now().training_s;
    record.lag = engine_.lag_of(record.version);
    workers_.timed(record.worker, record.samples, own_s);
    if (load_) {
        load_->timed(record);
    }
}

GradientStatsPolicy TrainingSession::gradient_policy() const {
    return {.every_update =
                engine_.plan().lr_unit == SyncPlan::LrUnit::kAdaScale && options_.noise_scale == 0,
            .now_and_then = options_.measure_gradients || modes_.wants_gradients()};
}

void TrainingSession::answered(std::int64_t version, const GradientAnswer& answer) {
    gradients_.answered(version, answer);
    gradients_measured();
}

void TrainingSession::halves(std::int64_t samples, const std::array<double, 2>& squares,
                             double norm) {
    gradients_.halves(samples, squares, norm * norm);
    gradients_measured();
}

/// What was known holds until it is known anew.
void TrainingSession::gradients_measured() {
    if (const double phi = gradients_.noise_scale(); phi > 0 && gradient_policy().every_update) {
        engine_.set_noise_scale(phi);
    }
    const GradientFacts facts{.noise_scale = gradients_.noise_scale(),
                              .curvature = gradients_.step_curvature(),
                              .agreement = gradients_.agreement()};
    if (load_) {
        load_->measured(facts);
    }
    if (options_.observer != nullptr) {
        options_.observer->measured(facts);
    }
}

void TrainingSession::settled(const PushOutcome& outcome) {
    workers_.settled(outcome);
    if (options_.observer != nullptr) {
        options_.observer->settled(outcome);
    }
}

void TrainingSession::updated(const Fire& fire) {
    double loss_sum = 0;
    for (const FiredPush& push : fire.pushes) {
        settled(outcome_of(push));
        loss_sum += push.ticket.loss_sum;
    }
    if (load_ && loss_sum > 0) {  // without a network there is none
        load_->updated(loss_sum / static_cast<double>(fire.samples));
    }
    counts_.samples_applied += fire.samples;
    ++counts_.updates;
    counts_.version = fire.version;
    counts_.reference_batches +=
        static_cast<double>(fire.samples) / static_cast<double>(options_.reference_batch);
    counts_.drops.updated();
    if (modes_.awaits_update()) {
        modes_.updated(options_.now().training_s, workers_.slowest_own_s());
    }
    updated_ = true;
}

std::optional<double> TrainingSession::wake_at() const {
    return load_ ? modes_.wake_at(load_->running()) : std::nullopt;
}

void TrainingSession::keep_forecasts() {
    if (load_ && options_.predictor && modes_.wants_load() && !load_->predicts()) {
        load_->predict_with(options_.predictor());
    }
}

bool TrainingSession::wants_consultation(bool due) {
    const bool updated = std::exchange(updated_, false);
    const bool requested = std::exchange(consultation_requested_, false);
    return requested || due ||
           (updated && modes_.looks({.updates = counts_.updates,
                                     .pushes = workers_.pushes(),
                                     .samples_applied = counts_.samples_applied,
                                     .budget_samples = options_.budget_samples}));
}

std::optional<PlanChange> TrainingSession::consult() {
    keep_forecasts();
    const SessionTime now = options_.now();
    return modes_.ask({.seconds = now.training_s,
                       .samples_applied = counts_.samples_applied,
                       .budget_samples = options_.budget_samples,
                       .updates = counts_.updates,
                       .workers = workers_.reports(),
                       .load = load_ ? &load_->view() : nullptr});
}

void TrainingSession::installed() {
    modes_.installed(engine_.plan(), options_.now().training_s);
    if (options_.observer != nullptr) {
        options_.observer->installed(engine_.plan());
    }
}

/// What was recorded of a worker says nothing about what it will be.
void TrainingSession::worker_lost(int worker) {
    workers_.lost(worker);
    if (load_) {
        load_->lost(worker);
    }
    consultation_requested_ = true;
}

void TrainingSession::worker_joined(int worker) {
    workers_.joined(worker);
    if (load_) {
        load_->lost(worker);
    }
    consultation_requested_ = true;
}

void TrainingSession::check_accounts() const {
    const EngineAccounts mine = engine_.accounts();
    SampleAccounts other = leases_.open().part_accounts();
    bool same = mine.leased == other.leased && mine.applied == other.applied &&
                mine.outstanding == other.outstanding;
    for (std::size_t i = 0; i < kReturnReasons; ++i) {
        const auto reason = static_cast<ReturnReason>(i);
        same = same && mine.returned_for(reason) == returned_for(other, reason);
    }
    check_invariant(same, "the accounts of engine and leases agree");
}

void TrainingSession::end() {
    modes_.end({.seconds = options_.now().training_s,
                .samples = counts_.samples_applied,
                .loss = load_ ? load_->gradients().loss : 0});
    if (load_) {
        load_->ended();
    }
}

}  // namespace cohort
