#include "train/coordinator/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "core/system/live_line.hpp"
#include "formats/chooser_file.hpp"
#include "formats/efficiency_file.hpp"
#include "formats/predictor_file.hpp"
#include "train/run/job_context.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_records.hpp"
#include "train/run/snapshot.hpp"
#include "train/worker/sleep_compute.hpp"

namespace cohort {
namespace {

/// The coordinator looks at what is due by time at least this often, and not more often than that
/// without a message.
constexpr Clock::Seconds kTick{0.1};
constexpr Clock::Seconds kLeastTick{0.001};

std::int64_t evaluate_every(const TrainOptions& options, std::int64_t epoch_samples) {
    return options.eval_every_samples > 0 ? options.eval_every_samples : epoch_samples;
}

}  // namespace

Coordinator::Coordinator(CommContext comm, JobContext& parts, const TrainEnvironment& environment,
                         std::string device)
    : comm_(comm),
      parts_(parts),
      environment_(environment),
      device_(std::move(device)),
      sleeps_(!computes_network(parts.options)),
      shards_(cut_shards(parts.graph, comm.map.servers == 0 ? 1 : comm.map.servers)),
      gathering_(shards_),
      roster_(comm, parts.options.max_lost),
      reporter_(parts, environment, [this](StopReason reason) { request_stop(reason); }),
      wait_(comm.operations) {
    comm_.messenger.set_sink(Port::kCoordinator, &gathering_);
    check_free_space(parts.options, run_bytes(parts));
}

Coordinator::~Coordinator() {
    if (comm_.membership != nullptr) {
        comm_.membership->watch({});
    }
}

TrainSummary Coordinator::run() {
    reporter_.start();
    try {
        lock_.emplace(prepare_run_folder(options()));
        owns_folder_ = true;
        begin();
        const LiveLineGuard guard(environment_.live_line);
        train();
        finish();
    } catch (const Error& error) {
        fail_run(error, error.exit_code());
        if (!flow_begun_) {
            throw;
        }
        throw Error(error.exit_code(), fmt::format("{} (after update {}, {} samples applied)",
                                                   error.what(), reporter_.progress().updates,
                                                   reporter_.progress().samples_applied));
    } catch (const std::exception& error) {
        fail_run(error, static_cast<ExitCode>(EXIT_FAILURE));
        throw;
    }
    TrainSummary summary = summarize();
    reporter_.metrics().write(summary_json(summary, options()));
    std::string reason = summary.outputs_saved ? to_string(summary.reason)
                                               : "some results could not be saved, see the log";
    if (!summary.losses.empty()) {
        reason += "; " + summary.losses;
    }
    write_exit_code(options().out, exit_code(summary), reason);
    return summary;
}

/// The record of a failure; then everybody may go.
void Coordinator::fail_run(const std::exception& error, ExitCode code) {
    reporter_.failed(error_json(error, static_cast<int>(code), reporter_.progress()));
    dismiss();
    if (owns_folder_) {
        write_exit_code(options().out, code, error.what());
    }
}

/// Seen within a tick.
void Coordinator::cancel(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    cancelled_ = std::move(error);
}

std::exception_ptr Coordinator::cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_;
}

void Coordinator::check_cancelled() {
    if (const std::exception_ptr error = cancelled()) {
        std::rethrow_exception(error);
    }
}

/// Fresh parameters or those of a checkpoint, the books, metrics and hooks; then all may work.
void Coordinator::begin() {
    const BeginOrder order = restore();
    reporter_.make_hooks();
    listen();
    UpdateExtras extras;
    if (!sleeps_ &&
        evaluations_->due(
            reporter_.progress().samples_applied)) {  // when the part before this one ended
        extras.evaluation = evaluations_->start();
    }
    flow_begun_ = true;
    const int parts = flow_->begin(order, extras);
    if (extras.evaluation != 0) {
        taken(extras, parts);
    }
}

BeginOrder Coordinator::restore() {
    const RunFolder folder(options().out);
    const SampleSetInfo& train = parts_.train_set->info();
    BeginOrder order;
    LeaseState leases;
    SampleAccounts accounts;
    SessionCounts start;
    std::int64_t metrics_bytes = 0;
    if (options().resume) {
        const auto found =
            find_manifest(folder.checkpoints, run_identity(options(), train), parts_.hdf5);
        if (!found) {
            log_info("no checkpoint in {}: starting at the beginning", folder.checkpoints);
        } else {
            const RunSnapshot& snapshot = found->snapshot;
            order = {.checkpoint = found->manifest, .version = snapshot.version};
            parts_.reference_batch = snapshot.reference_batch;
            reporter_.resume(snapshot.progress);
            start = {.samples_applied = snapshot.progress.samples_applied,
                     .updates = snapshot.progress.updates,
                     .version = snapshot.version,
                     .reference_batches = snapshot.reference_batches,
                     .drops = snapshot.progress.drops};
            leases = decode_lease_state(snapshot.lease_state);
            accounts = snapshot.accounts;
            metrics_bytes = snapshot.metrics_bytes;
        }
    }
    open_session(leases, accounts, start);
    evaluations_.emplace(evaluate_every(options(), train.samples),
                         reporter_.progress().evaluated_at);
    checkpoints_.emplace(options(), folder.checkpoints, static_cast<int>(shards_.size()),
                         parts_.hdf5);
    checkpoints_->begin(reporter_.progress().samples_applied, reporter_.clock().now());
    reporter_.begin(*session_, folder.metrics, metrics_bytes,
                    start_json(parts_, comm_.map, device_, reporter_.progress()));
    return order;
}

/// The mode in charge at this point of the run, its plan, and who drives its updates.
void Coordinator::open_session(const LeaseState& leases, const SampleAccounts& accounts,
                               const SessionCounts& start) {
    const int workers = comm_.map.workers();
    ModeSetting setting = mode_setting(options(), workers);
    load_chooser_files(setting.chooser);
    setting.workers_at_start = std::max<std::int64_t>(1, parts_.reference_batch / options().batch);
    if (workers < setting.workers_at_start) {
        log_warn(
            "the run began with {} workers and goes on with {}: parameters of its mode and faults "
            "that name others do without them",
            setting.workers_at_start, workers);
    }
    setting.job = job_facts(parts_);
    std::shared_ptr<const LstmModel> model;  // null: the predictor needs none
    if (!options().deterministic) {
        model = model_of(setting.chooser);  // a file that cannot be read ends the run here
    }
    session_.emplace(
        SessionOptions{
            .workers = workers,
            .batch = options().batch,
            .reference_batch = parts_.reference_batch,
            .budget_samples = parts_.budget_samples,
            .noise_scale = options().noise_scale,
            .monitor_load = !options().deterministic,  // times differ from run to run
            .learning_rate =
                [this](std::int64_t samples) { return parts_.schedule.lr(options().lr, samples); },
            .now =
                [this] {
                    return SessionTime{.training_s = reporter_.seconds_of_training(),
                                       .clock_s = reporter_.clock().now()};
                },
            .predictor =
                [workers, model, batch = options().batch, name = setting.chooser.predictor] {
                    return make_predictor(name, workers, batch, model);
                }},
        ModeController({.modes = options().modes, .deterministic = options().deterministic},
                       setting, start.samples_applied),
        LeaseLedger(parts_.train_set->info(), parts_.order, parts_.budget_samples, leases),
        accounts, start);
    consultation_.emplace(*session_, reporter_.clock(), model);
    flow_ = comm_.map.servers == 0 ? make_ring_driver(comm_, parts_, *this)
                                   : make_servers_driver(comm_, parts_, *this);
}

void Coordinator::train() {
    training_ = true;
    while (!stopping() || !flow_->quiet()) {
        step();
    }
    training_ = false;
    wait_.end();
}

void Coordinator::step() {
    const Clock::Seconds tick =
        std::clamp(Clock::Seconds(wake_s().value_or(kTick.count())), kLeastTick, kTick);
    if (const auto message = comm_.messenger.mailbox(Port::kCoordinator).receive(tick)) {
        handle(*message);
    } else if (environment_.stop_requested()) {
        request_stop(StopReason::kSignal);
    }
    check_cancelled();
    if (control_) {
        control_->look(reporter_.clock().now());
    }
    consult_modes();
    if (const auto report = checkpoints_->collect(reporter_.clock().now())) {
        outputs_saved_ = report->error.empty();
        reporter_.tell([&](TrainHook& hook) { hook.on_checkpoint(reporter_, *report); });
    }
    if (training_) {
        wait_.watch_update(flow_->awaited(), session_->counts().version);
    }
}

/// A run that cannot go on ends as one that is told to stop: with a checkpoint.
void Coordinator::stop_requested(const StopRequest& request) {
    if (!request.failure.empty() && failure_.empty()) {
        failure_ = fmt::format("{} ({})", request.failure, comm_.map.describe(request.rank));
        log_error("{}; the run ends", failure_);
    }
    request_stop(StopReason::kSignal);
}

void Coordinator::handle(const Message& message) {
    if (flow_->handle(message)) {
        return;
    }
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kEvaluated: {
            const auto part = decode<EvaluatedPart>(message.body);
            if (const auto report = evaluations_->part(part)) {
                evaluated(*report);
            }
            return;
        }
        case MessageKind::kEvaluating: wait_.renew(); return;
        case MessageKind::kSaved: checkpoints_->saved(decode<SavedPart>(message.body)); return;
        case MessageKind::kGathered:
            if (const auto snapshot = gathering_.arrived(message)) {
                gathered(*snapshot);
            }
            return;
        case MessageKind::kStopRequested: stop_requested(decode<StopRequest>(message.body)); return;
        case MessageKind::kRankEvent: rank_news(decode<RankNews>(message.body)); return;
        case MessageKind::kFarewell: roster_.reported(message); return;
        default:
            fail<PeerError>({.where = "coordinator",
                             .what = "a message that it does not know",
                             .got = fmt::format("kind {} from {}", message.kind,
                                                comm_.map.describe(message.from.rank))});
    }
}

}  // namespace cohort
