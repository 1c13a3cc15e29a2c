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
#include "train/protocol/send_order.hpp"
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

UpdateExtras Coordinator::decide(std::int64_t samples) {
    UpdateExtras extras;
    if (stop_ || samples >= parts_.budget_samples) {
        return extras;  // the end of the run does it all
    }
    const bool together = is_synchronous(session_->engine().plan());
    if (!sleeps_ && evaluations_->due(samples) && (together || evaluator().has_room())) {
        extras.evaluation = evaluations_->start();
        extras.snapshot.gather = together ? 0 : extras.evaluation;
    }
    if (checkpoints_->due(samples, clock().now())) {
        extras.snapshot.checkpoint = checkpoints_->start(samples);
    }
    return extras;
}

void Coordinator::updated(const UpdateOrder& update) {
    update_progress();
    const StepReport step{.result = {.loss_sum = update.loss_sum,
                                     .correct = update.correct,
                                     .samples = update.samples},
                          .learning_rate = update.learning_rate,
                          .gradient_norm = update.gradient_norm,
                          .applied = true,
                          .epoch = update.epoch};
    for (const auto& hook : hooks_) {
        hook->on_step(*this, step);
    }
}

void Coordinator::request_stop(StopReason reason) {
    stop_ = stop_.value_or(reason);
    if (session_) {
        session_->stop();
    }
}

/// With rings nobody sends for himself: members and riders are compared by what they compute.
void Coordinator::timed(const IterationRecord& said) {
    IterationRecord record = said;
    const double sending_s = links_.map.servers > 0 ? record.push_s : 0;
    session_->iteration_timed(record, record.input_s + record.compute_s + sending_s);
    for (const auto& hook : hooks_) {
        hook->on_push(*this, record);
    }
    if (refiner_) {
        refiner_->add(record);
    }
    report_stragglers();
}

void Coordinator::report_stragglers() {
    if (session_->load() == nullptr) {
        return;
    }
    for (const StragglerNews::Item& news : session_->load()->straggler_news().take()) {
        log_info("{}", describe(news));
        for (const auto& hook : hooks_) {
            hook->on_straggler(*this, news);
        }
    }
}

double Coordinator::seconds_of_training() const {
    return earlier_.train_seconds + (clock().now() - started_).count() - pauses_;
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
    update_progress();
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
    } else if (!waiting_ || waiting_version_ != session_->counts().version) {
        waiting_version_ = session_->counts().version;
        waiting_.reset();
        waiting_ = wait_for_awaited("update", static_cast<std::uint64_t>(waiting_version_ + 1));
    }
}

void Coordinator::update_progress() {
    const SessionCounts& counts = session_->counts();
    progress_.samples_applied = counts.samples_applied;
    progress_.updates = counts.updates;
    progress_.drops = counts.drops;
    update_times();
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
    snapshot.version = session_->counts().version;
    snapshot.reference_batch = parts_.reference_batch;
    snapshot.reference_batches = session_->counts().reference_batches;
    snapshot.lease_state = encode_lease_state(session_->leases().open().ledger().state());
    snapshot.accounts = session_->leases().open().accounts();
    snapshot.metrics_bytes = metrics_->position();
    snapshot.parameters = parts_.graph.parameters().total();
    return snapshot;
}

}  // namespace cohort
