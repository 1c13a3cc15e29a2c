// What the flow of updates writes into the books of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/sched/modes.hpp"
#include "core/log.hpp"
#include "core/system/process_usage.hpp"
#include "train/coordinator/coordinator.hpp"
#include "train/protocol/lease_codec.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/train_parts.hpp"

namespace cohort {
namespace {

/// Data that must not be used ends a run; any other failure of the evaluator costs an evaluation.
bool ends_the_run(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const FileError&) {
        return true;
    } catch (const std::exception& other) {
        log_error("a snapshot could not be evaluated: {}", other.what());
        return false;
    }
}

}  // namespace

std::string non_finite_reason(double loss_sum, bool finite) {
    if (!std::isfinite(loss_sum)) {
        return "the loss is not finite";
    }
    return finite ? "" : "the gradient is not finite";
}

double push_bytes(const JobParts& parts) {
    return static_cast<double>(parts.graph.parameters().total()) * sizeof(float);
}

IterationRecord record_of(const Ticket& ticket, const PushSending& sending, double received) {
    const WorkerTimes& times = ticket.times;
    const double idle_s = times.exchange_s - times.pull_s + times.lease_s;
    const double wait_s = std::max(0.0, idle_s - sending.before_s);
    const double after_s = std::max(0.0, sending.before_s - idle_s);  // beside what came then
    IterationRecord record{.worker = ticket.push.worker,
                           .iteration = static_cast<std::int64_t>(ticket.push.sequence),
                           .samples = ticket.samples,
                           .version = ticket.version,
                           .input_s = times.input_s,
                           .compute_s = times.compute_s,
                           .push_s = sending.seconds + std::max(0.0, times.buffer_s - after_s),
                           .pull_s = times.pull_s,
                           .wait_s = wait_s,
                           .use = times.use,
                           .telemetry_s = times.telemetry_s};
    const double left_s = times.leaving_s + sending.seconds;
    record.use.tx_bytes_s = left_s > 0 ? sending.bytes / left_s : 0;
    record.use.rx_bytes_s = times.pull_s > 0 ? received / times.pull_s : 0;
    return record;
}

UpdateExtras Coordinator::decide(std::int64_t samples) {
    UpdateExtras extras;
    if (stop_ || samples >= parts_.budget_samples) {
        return extras;  // the end of the run does it all
    }
    const bool together = is_synchronous(engine_->plan());
    if (!sleeps_ && evaluations_->due(samples) && (together || evaluator().has_room())) {
        extras.evaluation = evaluations_->start();
        extras.snapshot.gather = together ? 0 : extras.evaluation;
    }
    if (checkpoints_->due(samples, clock().now())) {
        extras.snapshot.checkpoint = checkpoints_->start(samples);
    }
    return extras;
}

void Coordinator::commit(const UpdateRecord& update) {
    for (const std::uint64_t lease : update.leases) {
        leases_->applied(lease);
    }
    version_ = update.version;
    reference_batches_ +=
        static_cast<double>(update.result.samples) / static_cast<double>(parts_.reference_batch);
    progress_.samples_applied += update.result.samples;
    ++progress_.updates;
    progress_.drops.updated();
    update_times();
    const StepReport step{.result = update.result,
                          .learning_rate = update.learning_rate,
                          .gradient_norm = update.gradient_norm,
                          .applied = true,
                          .epoch = update.epoch};
    for (const auto& hook : hooks_) {
        hook->on_step(*this, step);
    }
    if (load_) {
        load_->updated(update.result.loss_sum / static_cast<double>(update.result.samples));
    }
    if (modes_->awaits_update()) {
        modes_->updated(progress_.train_seconds, workers_.slowest_own_s());
    }
    updated_ = true;
}

void Coordinator::begun(int worker, std::int64_t samples) {
    if (load_) {
        load_->begun(worker, seconds_of_training(), samples);
    }
}

void Coordinator::stopped(int worker) {
    if (load_) {
        load_->stopped(worker);
    }
}

/// With rings nobody sends for himself: members and riders are compared by what they compute.
void Coordinator::timed(const IterationRecord& said) {
    IterationRecord record = said;
    record.arrived_s = seconds_of_training();
    record.lag = engine_->lag_of(record.version);
    const double sending_s = links_.map.servers > 0 ? record.push_s : 0;
    workers_.timed(record.worker, record.samples, record.input_s + record.compute_s + sending_s,
                   clock().now());
    for (const auto& hook : hooks_) {
        hook->on_push(*this, record);
    }
    if (load_) {
        load_->timed(record);
        if (refiner_) {
            refiner_->add(record);
        }
        report_stragglers();
    }
}

void Coordinator::settled(const PushOutcome& outcome) {
    workers_.settled(outcome);
}

void Coordinator::measured(const GradientFacts& facts) {
    if (load_) {
        load_->measured(facts);
    }
}

void Coordinator::report_stragglers() {
    for (const StragglerNews::Item& news : load_->straggler_news().take()) {
        log_info("{}", describe(news));
        for (const auto& hook : hooks_) {
            hook->on_straggler(*this, news);
        }
    }
}

double Coordinator::seconds_of_training() const {
    return earlier_.train_seconds + (clock().now() - started_).count() - pauses_;
}

void Coordinator::installed(const SyncPlan& plan) {
    update_times();
    modes_->installed(plan, progress_.train_seconds);
}

/// What was given up since it was asked for does not count.
void Coordinator::taken(const UpdateExtras& extras, int evaluation_parts) {
    update_times();
    if (evaluations_->running() && extras.evaluation == evaluations_->id()) {
        evaluations_->taken(progress_, progress_.samples_applied, evaluation_parts,
                            extras.snapshot.gather == 0);
    }
    if (checkpoints_->awaits(extras.snapshot.checkpoint)) {
        checkpoints_->captured(run_snapshot(), clock().now());
    }
}

void Coordinator::drop(const BatchResult& result, const std::string& because) {
    progress_.drops.dropped(progress_.updates);
    update_times();
    const StepReport step{.result = result, .applied = false, .dropped_because = because};
    for (const auto& hook : hooks_) {
        hook->on_step(*this, step);
    }
}

void Coordinator::spent(double compute_s, double exposed_s, double exchange_s) {
    ++spent_.batches;
    spent_.compute_s += compute_s;
    spent_.exposed_s += exposed_s;
    spent_.exchange_s += exchange_s;
}

void Coordinator::reach_target(double train_seconds) {
    progress_.tta_seconds = progress_.tta_seconds.value_or(train_seconds);
}

void Coordinator::evaluated(const EvaluationReport& report) {
    if (report.samples == 0) {
        return;  // it failed, which has been said
    }
    pauses_ += report.seconds;
    update_times();
    progress_.evaluated_at = report.samples_applied;
    test_ = report;
    log_info("test after {} samples: accuracy {:.2f} %, loss {:.4f}", report.samples_applied,
             100 * report.accuracy, report.loss);
    for (const auto& hook : hooks_) {
        hook->on_evaluation(*this, report);
    }
}

void Coordinator::report_checkpoint(const CheckpointReport& report) {
    outputs_saved_ = report.error.empty();
    for (const auto& hook : hooks_) {
        hook->on_checkpoint(*this, report);
    }
}

/// Made when a mode needs it for the first time.
SnapshotEvaluator& Coordinator::evaluator() {
    if (!evaluator_) {
        evaluator_ = std::make_unique<SnapshotEvaluator>(
            parts_, options().eval_share, [this](const SnapshotEvaluation& done) {
                if (done.error && ends_the_run(done.error)) {
                    cancel(done.error);
                    return;
                }
                const Address here{links_.messenger.rank(), Port::kCoordinator};
                send_order(links_, here, MessageKind::kEvaluated, done.part);
            });
    }
    return *evaluator_;
}

void Coordinator::set_awaited(std::vector<int> ranks) {
    const std::lock_guard lock(mutex_);
    awaited_ = std::move(ranks);
}

OperationBoard::Wait Coordinator::wait_for_awaited(std::string_view name, std::uint64_t sequence,
                                                   WaitLimit limit) {
    return links_.operations.begin(
        name, sequence,
        [this] {
            const std::lock_guard lock(mutex_);
            return awaited_;
        },
        limit);
}

/// Names those whom the next update waits for, from the first that has come on.
void Coordinator::watch_updates() {
    std::vector<int> awaited = flow_->awaited();
    const bool waiting = !awaited.empty();
    set_awaited(std::move(awaited));
    if (!waiting) {
        waiting_.reset();
    } else if (!waiting_ || waiting_version_ != version_) {
        waiting_version_ = version_;
        waiting_.reset();
        waiting_ = wait_for_awaited("update", static_cast<std::uint64_t>(version_ + 1));
    }
}

void Coordinator::update_times() {
    const double wall = (clock().now() - started_).count();
    progress_.wall_seconds = earlier_.wall_seconds + wall;
    progress_.train_seconds = seconds_of_training();
    double cpu = 0;
    for (const Farewell& farewell : farewells_) {
        cpu += farewell.cpu_s;
    }
    cpu = farewells_.empty() ? process_cpu_seconds() : cpu;
    progress_.cpu_seconds = earlier_.cpu_seconds + cpu - cpu_at_start_;
}

RunSnapshot Coordinator::run_snapshot() {
    RunSnapshot snapshot;
    snapshot.identity = run_identity(options(), parts_.train_set->info());
    snapshot.progress = progress_;
    snapshot.version = version_;
    snapshot.reference_batch = parts_.reference_batch;
    snapshot.reference_batches = reference_batches_;
    snapshot.lease_state = encode_lease_state(leases_->state());
    snapshot.accounts = leases_->accounts();
    snapshot.metrics_bytes = metrics_->position();
    snapshot.parameters = parts_.graph.parameters().total();
    return snapshot;
}

}  // namespace cohort
