// How a run ends: the last evaluation, checkpoint and model, and the summary.
#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "train/coordinator/coordinator.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"

namespace cohort {
namespace {

/// Number of the snapshot that becomes the model; evaluations count from 1.
constexpr std::uint64_t kModelGather = ~std::uint64_t{0};

}  // namespace

template <class Done, class Missing>
void Coordinator::wait_until(const char* name, WaitLimit limit, const Done& done,
                             const Missing& missing) {
    wait_.set_awaited(missing());
    wait_.begin(name, static_cast<std::uint64_t>(session_->counts().version), limit);
    while (!done()) {
        step();
        wait_.set_awaited(missing());
    }
    wait_.end();
}

void Coordinator::finish() {
    session_->leases().open().return_all();
    if (!sleeps_) {
        final_evaluation();
    }
    session_->end();
    reporter_.report_modes();
    reporter_.report_stragglers();
    const StopReason reason = stop_.value_or(StopReason::kBudget);
    reporter_.tell([&](TrainHook& hook) { hook.on_end(reporter_, reason); });
    final_checkpoint();
    if (!failure_.empty()) {
        throw DeviceError(failure_);
    }
    dismiss();
    check_cancelled();
}

/// World ranks that owe a part of the evaluation that is running.
std::vector<int> Coordinator::evaluators_missing() const {
    if (!evaluations_->pausing()) {
        return {comm_.messenger.rank()};  // the evaluator beside training
    }
    const std::vector<int> evaluators = flow_->evaluators();
    std::vector<int> ranks;
    for (const int part : evaluations_->missing()) {
        if (static_cast<std::size_t>(part) < evaluators.size()) {  // else it is about to be ordered
            ranks.push_back(evaluators[static_cast<std::size_t>(part)]);
        }
    }
    return ranks;
}

/// Of the final parameters, unless a signal ends the run; split over all workers. When one of them
/// is lost meanwhile, the others do it again.
void Coordinator::final_evaluation() {
    const auto over = [this] {
        if (environment_.stop_requested()) {
            request_stop(StopReason::kSignal);
        }
        return !evaluations_->running() || stop_ == StopReason::kSignal;
    };
    const auto missing = [this] { return evaluators_missing(); };
    const auto wanted = [this] {
        return stop_ != StopReason::kSignal &&
               !(reporter_.test() &&
                 reporter_.progress().evaluated_at == reporter_.progress().samples_applied);
    };
    if (evaluator_) {
        evaluator_->lift_share();
    }
    // The evaluator's own work, if it is that, takes as long as it takes.
    wait_until("evaluation", evaluations_->pausing() ? WaitLimit::kFatal : WaitLimit::kWarn, over,
               missing);
    for (int losses = -1; wanted() && losses != roster_.losses().times_lost();) {
        losses = roster_.losses().times_lost();
        const UpdateExtras extras{.evaluation = evaluations_->start(), .snapshot = {}};
        taken(extras, flow_->request(extras));
        wait_until("evaluation", WaitLimit::kFatal, over, missing);
    }
    evaluations_->abandon();
}

void Coordinator::final_checkpoint() {
    const auto owners_missing = [this] {
        std::vector<int> ranks;
        std::vector<int> parts =
            checkpoints_->running() ? checkpoints_->missing() : gathering_.missing(kModelGather);
        for (const int part : parts) {
            ranks.push_back(part);  // servers are the ranks 0.., and so is worker 0 of a ring
        }
        return ranks;
    };
    const auto saved = [this] { return !checkpoints_->running(); };
    if (comm_.map.servers > 0) {
        roster_.stop_workers();  // servers hold all that is still wanted
    }
    wait_until("checkpoint", WaitLimit::kWarn, saved, owners_missing);
    UpdateExtras extras;
    extras.snapshot.gather = sleeps_ ? 0 : kModelGather;
    if (checkpoints_->wanted_at_end(stop_.value_or(StopReason::kBudget),
                                    reporter_.progress().samples_applied)) {
        extras.snapshot.checkpoint = checkpoints_->start(reporter_.progress().samples_applied);
    }
    if (!extras.snapshot.empty()) {
        flow_->request(extras);
        taken(extras, 0);
    }
    wait_until("checkpoint", WaitLimit::kWarn, saved, owners_missing);
    if (!sleeps_) {
        wait_until(
            "model", WaitLimit::kWarn, [this] { return model_.has_value(); }, owners_missing);
        save_model(*model_);
    }
}

void Coordinator::gathered(const Gathered& snapshot) {
    if (snapshot.id == kModelGather) {
        model_ = snapshot;
    } else if (evaluator_ && evaluations_->running() && snapshot.id == evaluations_->id()) {
        check_invariant(evaluator_->submit(snapshot.id, snapshot.parameters, snapshot.state),
                        "one evaluation at a time");
    }
}

void Coordinator::save_model(const Gathered& snapshot) {
    const SampleSetInfo& info = parts_.train_set->info();
    const ModelFile model{.model = options().model,
                          .sample_shape = info.sample_shape,
                          .classes = info.classes,
                          .mean = info.mean,
                          .std = info.std,
                          .parameters = snapshot.parameters,
                          .state = snapshot.state};
    const RunFolder folder(options().out);
    // After a signal or a failure the run goes on from its newest checkpoint.
    const bool over = stop_ != StopReason::kSignal && failure_.empty();
    try {
        const bool kept = write_with_room(folder.checkpoints, run_bytes(parts_).model, over, [&] {
            write_model({folder.model, true, FolderRule::kOwn}, parts_.graph, model, parts_.hdf5);
        });
        outputs_saved_ = outputs_saved_ && kept;
    } catch (const FileError& error) {
        outputs_saved_ = false;
        log_error("the model could not be saved: {}", error.what());
    }
}

/// Sends everybody home and waits for their last words and bytes. Does nothing on a rank whose own
/// role has failed: then the whole job ends.
void Coordinator::dismiss() {
    wait_.end();
    if (cancelled()) {
        return;
    }
    send_servers(comm_, MessageKind::kStop, Empty());
    roster_.stop_workers();
    if (!await_final_reports()) {
        return;
    }
    if (comm_.membership != nullptr) {
        comm_.membership->watch({});  // who is lost from here on owes nothing
    }
    complete_transfers(
        comm_, Port::kCoordinator, "last snapshots",
        [this] { return gathering_.coming(); },  // servers are the ranks 0.., as are their parts
        [this](const Message& message) {
            if (static_cast<MessageKind>(message.kind) == MessageKind::kGathered) {
                (void)gathering_.arrived(message);
            } else if (static_cast<MessageKind>(message.kind) == MessageKind::kRankEvent) {
                lost_at_the_end(decode<RankNews>(message.body));
            }
        });
}

/// False when this rank's own role failed meanwhile. Whoever is lost now owes nothing any more.
bool Coordinator::await_final_reports() {
    constexpr Clock::Seconds kLook{0.1};
    wait_.begin("farewell", 0);
    while (!roster_.at_work().empty()) {
        wait_.set_awaited(roster_.at_work());
        if (const auto message = comm_.messenger.mailbox(Port::kCoordinator).receive(kLook)) {
            switch (static_cast<MessageKind>(message->kind)) {
                case MessageKind::kFarewell: roster_.reported(*message); break;
                case MessageKind::kGathered: (void)gathering_.arrived(*message); break;
                case MessageKind::kRankEvent:
                    lost_at_the_end(decode<RankNews>(message->body));
                    break;
                default: break;
            }
        }
        if (cancelled()) {
            wait_.end();
            return false;
        }
    }
    wait_.end();
    return true;
}

void Coordinator::record_failure(ExitCode code, const std::string& reason) const noexcept {
    if (owns_folder_) {
        append_line(RunFolder(options().out).metrics, failure_json(static_cast<int>(code), reason));
    }
}

TrainSummary Coordinator::summarize() {
    reporter_.update_progress(roster_.cpu_seconds());
    TrainSummary summary = reporter_.summary();
    summary.reason = stop_.value_or(StopReason::kBudget);
    roster_.summarize(summary);
    const auto batches = static_cast<double>(std::max<std::int64_t>(spent_.batches, 1));
    summary.compute_s = spent_.compute_s / batches;
    summary.exposed_s = spent_.exposed_s / batches;
    summary.exchange_s = spent_.exchange_s / batches;
    summary.refiner = consultation_->use();
    summary.outputs_saved = outputs_saved_ && reporter_.metrics().failures() == 0;
    return summary;
}

}  // namespace cohort
