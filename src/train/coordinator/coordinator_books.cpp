// What the flow of updates writes into the books of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/sched/modes.hpp"
#include "core/log.hpp"
#include "train/coordinator/coordinator.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/run/job_context.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/snapshot.hpp"

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
    if (checkpoints_->due(samples, reporter_.clock().now())) {
        extras.snapshot.checkpoint = checkpoints_->start(samples);
    }
    return extras;
}

void Coordinator::updated(const UpdateOrder& update) {
    reporter_.updated(update);
}

void Coordinator::request_stop(StopReason reason) {
    stop_ = stop_.value_or(reason);
    if (session_) {
        session_->stop();
    }
}

/// With rings nobody sends for himself: members and riders are compared by what they compute.
void Coordinator::timed(const IterationRecord& measured) {
    IterationRecord record = measured;
    const double sending_s = comm_.map.servers > 0 ? record.push_s : 0;
    session_->iteration_timed(record, record.input_s + record.compute_s + sending_s);
    reporter_.tell([&](TrainHook& hook) { hook.on_push(reporter_, record); });
    consultation_->timed(record);
    reporter_.report_stragglers();
}

/// What was given up since it was asked for does not count.
void Coordinator::taken(const UpdateExtras& extras, int evaluation_parts) {
    reporter_.update_progress();
    const TrainProgress& progress = reporter_.progress();
    if (evaluations_->running() && extras.evaluation == evaluations_->id()) {
        evaluations_->taken(progress, progress.samples_applied, evaluation_parts,
                            extras.snapshot.gather == 0);
    }
    if (checkpoints_->awaits(extras.snapshot.checkpoint)) {
        checkpoints_->captured(run_snapshot(), reporter_.clock().now());
    }
}

void Coordinator::drop(const BatchResult& result, const std::string& because) {
    reporter_.dropped(result, because);
}

void Coordinator::spent(double compute_s, double exposed_s, double exchange_s) {
    ++spent_.batches;
    spent_.compute_s += compute_s;
    spent_.exposed_s += exposed_s;
    spent_.exchange_s += exchange_s;
}

void Coordinator::evaluated(const EvaluationReport& report) {
    if (report.samples > 0) {  // else it failed, which has been said
        reporter_.evaluated(report);
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
                const Address here{comm_.messenger.rank(), Port::kCoordinator};
                send_order(comm_, here, MessageKind::kEvaluated, done.part);
            });
    }
    return *evaluator_;
}

RunSnapshot Coordinator::run_snapshot() {
    RunSnapshot snapshot;
    snapshot.identity = run_identity(options(), parts_.train_set->info());
    snapshot.progress = reporter_.progress();
    snapshot.version = session_->counts().version;
    snapshot.reference_batch = parts_.reference_batch;
    snapshot.reference_batches = session_->counts().reference_batches;
    snapshot.lease_state = encode_lease_state(session_->leases().open().ledger().state());
    snapshot.accounts = session_->leases().open().accounts();
    snapshot.metrics_bytes = reporter_.metrics().position();
    snapshot.parameters = parts_.graph.parameters().total();
    return snapshot;
}

}  // namespace cohort
