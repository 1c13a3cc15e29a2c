#include "train/coordinator/evaluation/run_evaluations.hpp"

#include "cohort/core/error.hpp"
#include "core/failure_text.hpp"
#include "core/log.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/run/sleep_compute.hpp"

namespace cohort {
namespace {

std::int64_t samples_between(const JobContext& parts) {
    const std::int64_t every = parts.options.eval_every_samples;
    return every > 0 ? every : parts.train_set->info().samples;
}

/// Data that must not be used ends a run; any other failure of the evaluator costs an evaluation.
bool ends_the_run(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const FileError&) {
        return true;
    } catch (const std::exception& other) {
        log_error("a snapshot could not be evaluated: {}", failure_text(other));
        return false;
    }
}

}  // namespace

RunEvaluations::RunEvaluations(CommContext comm, const JobContext& parts, RunReporter& reporter,
                               Cancellation& cancellation)
    : comm_(comm),
      parts_(parts),
      reporter_(reporter),
      cancellation_(cancellation),
      tracker_(samples_between(parts), reporter.progress().evaluated_at) {
}

void RunEvaluations::add_due(std::int64_t samples, bool together, UpdateExtras& extras) {
    if (parts_.evaluates() && tracker_.due(samples) && (together || beside_training().has_room())) {
        extras.evaluation = tracker_.start();
        extras.snapshot.gather = together ? 0 : extras.evaluation;
    }
}

void RunEvaluations::taken(const UpdateExtras& extras, int parts) {
    if (tracker_.running(extras.evaluation)) {
        const TrainProgress& progress = reporter_.progress();
        tracker_.taken(progress, progress.samples_applied, parts, extras.snapshot.gather == 0);
    }
}

void RunEvaluations::arrived(const EvaluatedPart& part) {
    const auto report = tracker_.part(part);
    if (report && report->samples > 0) {  // without samples it failed, which has been said
        reporter_.evaluated(*report);
    }
}

void RunEvaluations::arrived(const Gathered& snapshot) {
    if (evaluator_ && tracker_.running(snapshot.id)) {
        check_invariant(evaluator_->submit(snapshot.id, snapshot.parameters, snapshot.state),
                        "one evaluation at a time");
    }
}

std::vector<int> RunEvaluations::missing(const UpdateDriver& driver) const {
    if (!tracker_.pausing()) {
        return {comm_.messenger.rank()};  // the evaluator beside training
    }
    const std::vector<int> evaluators = driver.evaluators();
    std::vector<int> ranks;
    for (const int part : tracker_.missing()) {
        if (static_cast<std::size_t>(part) < evaluators.size()) {  // else it is about to be ordered
            ranks.push_back(evaluators[static_cast<std::size_t>(part)]);
        }
    }
    return ranks;
}

void RunEvaluations::training_over() {
    if (evaluator_) {
        evaluator_->lift_share();
    }
}

bool RunEvaluations::wanted_at_end() const {
    const TrainProgress& progress = reporter_.progress();
    return !reporter_.test() || progress.evaluated_at != progress.samples_applied;
}

UpdateExtras RunEvaluations::start_last() {
    return {.evaluation = tracker_.start(), .snapshot = {}};
}

SnapshotEvaluator& RunEvaluations::beside_training() {
    if (!evaluator_) {
        evaluator_ = std::make_unique<SnapshotEvaluator>(
            parts_, parts_.options.eval_share, [this](const SnapshotEvaluation& done) {
                if (done.error && ends_the_run(done.error)) {
                    cancellation_.set(done.error);
                    return;
                }
                const Address here{comm_.messenger.rank(), Port::kCoordinator};
                send_order(comm_, here, MessageKind::kEvaluated, done.part);
            });
    }
    return *evaluator_;
}

}  // namespace cohort
