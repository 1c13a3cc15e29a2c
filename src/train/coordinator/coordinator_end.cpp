// How a run ends: the last evaluation, checkpoint and model, and the summary.
#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "train/coordinator/coordinator.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"
#include "train/run/run_space.hpp"

namespace cohort {
namespace {

/// Number of the snapshot that becomes the model; evaluations count from 1.
constexpr std::uint64_t kModelGather = ~std::uint64_t{0};

}  // namespace

template <class Done, class Missing>
void Coordinator::wait_until(const char* name, WaitLimit limit, const Done& done,
                             const Missing& missing) {
    set_awaited(missing());
    waiting_ = wait_for_awaited(name, static_cast<std::uint64_t>(version_), limit);
    while (!done()) {
        step();
        set_awaited(missing());
    }
    waiting_.reset();
}

void Coordinator::finish() {
    leases_->return_all();
    if (!sleeps_) {
        final_evaluation();
    }
    modes_->end({.seconds = progress_.train_seconds,
                 .samples = progress_.samples_applied,
                 .loss = load_ ? load_->gradients().loss : 0});
    report_switches();
    if (load_) {
        load_->ended();
        report_stragglers();
    }
    for (const auto& hook : hooks_) {
        hook->on_end(*this, stop_.value_or(StopReason::kBudget));
    }
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
        return {links_.messenger.rank()};  // the evaluator beside training
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
               !(test_ && progress_.evaluated_at == progress_.samples_applied);
    };
    if (evaluator_) {
        evaluator_->lift_share();
    }
    // The evaluator's own work, if it is that, takes as long as it takes.
    wait_until("evaluation", evaluations_->pausing() ? WaitLimit::kFatal : WaitLimit::kWarn, over,
               missing);
    for (int losses = -1; wanted() && losses != losses_.times_lost();) {
        losses = losses_.times_lost();
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
    if (links_.map.servers > 0) {
        stop_workers();  // servers hold all that is still wanted
    }
    wait_until("checkpoint", WaitLimit::kWarn, saved, owners_missing);
    UpdateExtras extras;
    extras.snapshot.gather = sleeps_ ? 0 : kModelGather;
    if (checkpoints_->wanted_at_end(stop_.value_or(StopReason::kBudget),
                                    progress_.samples_applied)) {
        extras.snapshot.checkpoint = checkpoints_->start(progress_.samples_applied);
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
    waiting_.reset();
    if (cancelled()) {
        return;
    }
    for (int server = 0; server < links_.map.servers; ++server) {
        send_order(links_, {links_.map.rank_of_server(server), Port::kServer}, MessageKind::kStop,
                   Empty());
    }
    stop_workers();
    if (!await_farewells()) {
        return;
    }
    if (links_.membership != nullptr) {
        links_.membership->watch({});  // who is lost from here on owes nothing
    }
    complete_transfers(
        links_, Port::kCoordinator, "last snapshots",
        [this] { return gathering_.coming(); },  // servers are the ranks 0.., as are their parts
        [this](const Message& message) {
            if (static_cast<MessageKind>(message.kind) == MessageKind::kGathered) {
                (void)gathering_.arrived(message);
            } else if (static_cast<MessageKind>(message.kind) == MessageKind::kRankEvent) {
                lost_at_the_end(decode<RankNews>(message.body));
            }
        });
}

void Coordinator::stop_workers() {
    for (int worker = 0; worker < links_.map.workers() && !workers_stopped_; ++worker) {
        const int rank = links_.map.rank_of_worker(worker);
        if (!losses_.is_lost(rank)) {
            send_order(links_, {rank, Port::kWorker}, MessageKind::kStop, Empty());
        }
    }
    workers_stopped_ = true;
}

void Coordinator::said_farewell(const Message& message) {
    farewells_.push_back(decode<Farewell>(message.body));
    std::erase(at_work_, message.from.rank);
}

/// False when this rank's own role failed meanwhile. Whoever is lost now owes nothing any more.
bool Coordinator::await_farewells() {
    constexpr Clock::Seconds kLook{0.1};
    const auto wait = wait_for_awaited("farewell", 0);
    while (!at_work_.empty()) {
        set_awaited(at_work_);
        if (const auto message = links_.messenger.mailbox(Port::kCoordinator).receive(kLook)) {
            switch (static_cast<MessageKind>(message->kind)) {
                case MessageKind::kFarewell: said_farewell(*message); break;
                case MessageKind::kGathered: (void)gathering_.arrived(*message); break;
                case MessageKind::kRankEvent:
                    lost_at_the_end(decode<RankNews>(message->body));
                    break;
                default: break;
            }
        }
        if (cancelled()) {
            return false;
        }
    }
    return true;
}

void Coordinator::record_failure(ExitCode code, const std::string& reason) const noexcept {
    if (owns_folder_) {
        append_line(RunFolder(options().out).metrics, failure_json(static_cast<int>(code), reason));
    }
}

TrainSummary Coordinator::summarize() {
    update_times();
    TrainSummary summary;
    summary.reason = stop_.value_or(StopReason::kBudget);
    summary.mode = modes_->mode();
    summary.workers = links_.map.workers();
    summary.servers = links_.map.servers;
    summary.progress = progress_;
    summary.accounts = leases_->accounts();
    summary.test = test_;
    summary.cluster = cluster();
    summary.switches = switches_;
    summary.regroupings = regroupings_;
    if (load_) {
        summary.predictor_scores = load_->scores();
        summary.brief = load_->straggler_news().brief();
    }
    summary.lost = losses_.times_lost();
    summary.returned = losses_.times_returned();
    summary.losses = losses_.story();
    const double seconds = progress_.train_seconds - earlier_.train_seconds;
    const auto samples = progress_.samples_applied - earlier_.samples_applied;
    summary.part_s = seconds;
    summary.samples_per_s = seconds > 0 ? static_cast<double>(samples) / seconds : 0;
    for (const Farewell& farewell : farewells_) {
        summary.arena_bytes = std::max(summary.arena_bytes, farewell.arena_bytes);
        summary.peak_bytes = std::max(summary.peak_bytes, farewell.peak_bytes);
        summary.staging_bytes = std::max(summary.staging_bytes, farewell.staging_bytes);
        summary.snapshot_bytes = std::max(summary.snapshot_bytes, farewell.snapshot_bytes);
        summary.bytes_sent += farewell.bytes_sent;
        summary.bytes_received += farewell.bytes_received;
        summary.comm_cpu_seconds += farewell.comm_cpu_s;
    }
    const auto batches = static_cast<double>(std::max<std::int64_t>(spent_.batches, 1));
    summary.compute_s = spent_.compute_s / batches;
    summary.exposed_s = spent_.exposed_s / batches;
    summary.exchange_s = spent_.exchange_s / batches;
    if (refiner_) {
        summary.refiner = refiner_->use();
    }
    summary.outputs_saved = outputs_saved_ && metrics_->failures() == 0;
    return summary;
}

}  // namespace cohort
