#include "sched/session/training_session.hpp"

#include <utility>

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
      workers_(options_.workers, options_.batch),
      load_(options_.monitor_load ? std::make_unique<LoadMonitor>(options_.workers, options_.batch,
                                                                  LoadMonitor::kLagBound, nullptr)
                                  : nullptr),
      gradients_(options_, modes_, engine_, load_.get()),
      counts_(std::move(start)) {
}

void TrainingSession::iteration_timed(IterationRecord& record, double own_s) {
    record.arrived_s = options_.now().training_s;
    record.lag = engine_.lag_of(record.version);
    workers_.timed(record.worker, record.samples, own_s);
    if (load_) {
        load_->timed(record);
    }
}

void TrainingSession::settled(const PushOutcome& outcome) {
    workers_.settled(outcome);
    if (options_.observer != nullptr) {
        options_.observer->settled(outcome);
    }
}

void TrainingSession::undone(int worker, std::int64_t samples) {
    counts_.samples_applied -= samples;
    counts_.reference_batches -=
        static_cast<double>(samples) / static_cast<double>(options_.reference_batch);
    workers_.undone(worker, samples);
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
    if (modes_.switches().awaits_update()) {
        modes_.updated(options_.now().training_s, workers_.slowest_own_s());
    }
}

void TrainingSession::installed() {
    modes_.installed(engine_.plan(), options_.now().training_s);
    if (options_.observer != nullptr) {
        options_.observer->installed(engine_.plan());
    }
}

/// What was recorded of a worker says nothing about what it will be.
void TrainingSession::set_live(int worker, bool live) {
    live ? workers_.joined(worker) : workers_.lost(worker);
    if (load_) {
        load_->lost(worker);
    }
}

void TrainingSession::end() {
    modes_.end({.seconds = options_.now().training_s,
                .samples = counts_.samples_applied,
                .loss = load_ ? load_->gradients().loss : 0});
    if (load_) {
        load_->ended();
    }
}

std::optional<double> ModeConsultation::wake_at() const {
    const LoadMonitor* const load = session_.load();
    return load != nullptr ? session_.modes().wake_at(load->running()) : std::nullopt;
}

void ModeConsultation::keep_forecasts() {
    LoadMonitor* const load = session_.load();
    const SessionOptions& options = session_.options();
    if (load != nullptr && options.predictor && session_.modes().wants_load() &&
        !load->predicts()) {
        load->predict_with(options.predictor());
    }
}

std::optional<PlanChange> ModeConsultation::consult(bool due) {
    const SessionCounts& counts = session_.counts();
    const SessionOptions& options = session_.options();
    const WorkerStats& workers = session_.workers();
    ModeController& modes = session_.modes();
    const bool updated = std::exchange(updates_, counts.updates) != counts.updates;
    const bool asks = std::exchange(requested_, false) || due ||
                      (updated && modes.looks({.updates = counts.updates,
                                               .pushes = workers.pushes(),
                                               .samples_applied = counts.samples_applied,
                                               .budget_samples = options.budget_samples}));
    if (!asks) {
        return std::nullopt;
    }
    keep_forecasts();
    const SessionTime now = options.now();
    LoadMonitor* const load = session_.load();
    auto change = modes.ask({.seconds = now.training_s,
                             .samples_applied = counts.samples_applied,
                             .budget_samples = options.budget_samples,
                             .updates = counts.updates,
                             .workers = workers.reports(),
                             .load = load != nullptr ? &load->view() : nullptr});
    modes.decisions().took((options.now().clock_s - now.clock_s).count());
    return change;
}

void ModeConsultation::request(const std::string& mode) {
    session_.modes().request(mode);
    request();
}

}  // namespace cohort
