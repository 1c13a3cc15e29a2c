#include "coordinator.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "cohort/sched/modes.hpp"
#include "cohort/train/process_usage.hpp"
#include "hook_progress.hpp"
#include "lease_codec.hpp"
#include "run_folder.hpp"
#include "run_records.hpp"
#include "train_parts.hpp"

namespace cohort {
namespace {

/// The coordinator looks at what is due by time at least this often.
constexpr Clock::Seconds kTick{0.1};

/// Leases that a worker holds in modes that wait: two in rounds that are under way, the others on
/// their way through its loader.
constexpr int kLeasesAhead = 4;
/// The same in modes that do not: one that it works on, one that is loaded meanwhile.
constexpr int kLeasesAheadAlone = 2;

std::int64_t evaluate_every(const TrainOptions& options, std::int64_t epoch_samples) {
    return options.eval_every_samples > 0 ? options.eval_every_samples : epoch_samples;
}

}  // namespace

std::string non_finite_reason(double loss_sum, bool finite) {
    if (!std::isfinite(loss_sum)) {
        return "the loss is not finite";
    }
    return finite ? "" : "the gradient is not finite";
}

Coordinator::Coordinator(Links links, JobParts& parts, const TrainEnvironment& environment,
                         std::string device)
    : links_(links),
      parts_(parts),
      environment_(environment),
      device_(std::move(device)),
      plan_(make_plan(parts.options.mode, mode_setting(parts.options, links.map.workers()))),
      synchronous_(is_synchronous(plan_)),
      shards_(cut_shards(parts.graph, links.map.servers == 0 ? 1 : links.map.servers)),
      gathering_(shards_),
      flow_(links.map.servers == 0 ? make_ring_flow(links, parts, *this)
                                   : make_servers_flow(links, parts, *this)) {
    for (int rank = 0; rank < links_.map.size(); ++rank) {
        at_work_.push_back(rank);
    }
    links_.messenger.set_sink(Port::kCoordinator, &gathering_);
}

TrainSummary Coordinator::run() {
    started_ = clock().now();
    cpu_at_start_ = process_cpu_seconds();
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
        throw Error(error.exit_code(),
                    fmt::format("{} (after update {}, {} samples applied)", error.what(),
                                progress_.updates, progress_.samples_applied));
    } catch (const std::exception& error) {
        fail_run(error, static_cast<ExitCode>(EXIT_FAILURE));
        throw;
    }
    TrainSummary summary = summarize();
    metrics_->write(summary_json(summary, options()));
    write_exit_code(options().out, exit_code(summary),
                    summary.outputs_saved ? to_string(summary.reason)
                                          : "some results could not be saved, see the log");
    return summary;
}

/// The record of a failure; then everybody may go.
void Coordinator::fail_run(const std::exception& error, ExitCode code) {
    if (metrics_) {
        metrics_->write(error_json(error, static_cast<int>(code), progress_));
    }
    dismiss();
    if (owns_folder_) {
        write_exit_code(options().out, code, error.what());
    }
}

void Coordinator::cancel(std::exception_ptr error) {
    {
        const std::lock_guard lock(mutex_);
        cancelled_ = std::move(error);
    }
    links_.messenger.mailbox(Port::kCoordinator)
        .put({.kind = static_cast<std::uint16_t>(MessageKind::kStopRequested)});
}

/// Fresh parameters or those of a checkpoint, the books, metrics and hooks; then all may work.
void Coordinator::begin() {
    const BeginOrder order = restore();
    make_hooks();
    for (const auto& hook : hooks_) {
        hook->on_start(*this);
    }
    if (!synchronous_) {
        evaluator_ = std::make_unique<SnapshotEvaluator>(
            parts_, options().eval_share, [this](const SnapshotEvaluation& done) {
                if (!done.error.empty()) {
                    log_error("a snapshot could not be evaluated: {}", done.error);
                }
                const Address here{links_.messenger.rank(), Port::kCoordinator};
                send_order(links_, here, MessageKind::kEvaluated, done.part);
            });
    }
    UpdateExtras extras;
    if (evaluations_->due(progress_.samples_applied)) {  // when the part before this one ended
        extras.evaluation = evaluations_->start();
        taken(extras, links_.map.workers());
    }
    flow_begun_ = true;
    flow_->begin(order, extras);
}

BeginOrder Coordinator::restore() {
    const RunFolder folder(options().out);
    const SampleSetInfo& train = parts_.train_set->info();
    BeginOrder order;
    LeaseState leases;
    SampleAccounts accounts;
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
            earlier_ = snapshot.progress;
            progress_ = snapshot.progress;
            version_ = snapshot.version;
            reference_batches_ = snapshot.reference_batches;
            leases = decode_lease_state(snapshot.lease_state);
            accounts = snapshot.accounts;
            metrics_bytes = snapshot.metrics_bytes;
        }
    }
    leases_.emplace(LeaseBook(train, parts_.order, parts_.budget_samples, leases),
                    parts_.budget_samples,
                    LeaseDesk::Options{.workers = links_.map.workers(),
                                       .batch = options().batch,
                                       .ahead = synchronous_ ? kLeasesAhead : kLeasesAheadAlone,
                                       .share_tail = !synchronous_},
                    accounts);
    engine_.emplace(EngineOptions{.workers = links_.map.workers(),
                                  .reference_batch = parts_.reference_batch,
                                  .version = version_,
                                  .reference_batches = reference_batches_},
                    plan_);
    evaluations_.emplace(evaluate_every(options(), train.samples), progress_.evaluated_at);
    checkpoints_.emplace(options(), folder.checkpoints, static_cast<int>(shards_.size()),
                         parts_.hdf5);
    checkpoints_->begin(progress_.samples_applied, clock().now());
    metrics_ = std::make_unique<MetricsFile>(folder.metrics, metrics_bytes);
    metrics_->write(start_json(parts_, links_.map, device_, progress_));
    return order;
}

void Coordinator::make_hooks() {
    hooks_.push_back(make_nan_guard_hook());
    if (environment_.live_line) {
        hooks_.push_back(make_progress_hook(true, draw_live_line));
    } else {
        hooks_.push_back(
            make_progress_hook(false, [](const std::string& line) { log_info("{}", line); }));
    }
    hooks_.push_back(make_metrics_hook());
    hooks_.push_back(make_target_hook());
    hooks_.push_back(make_stop_hook(environment_.stop_requested));
}

void Coordinator::train() {
    training_ = true;
    while (!stopping() || !flow_->quiet()) {
        step();
    }
    training_ = false;
    waiting_.reset();
}

void Coordinator::step() {
    if (const auto message = links_.messenger.mailbox(Port::kCoordinator).receive(kTick)) {
        handle(*message);
    } else if (environment_.stop_requested()) {
        request_stop(StopReason::kSignal);
    }
    check_cancelled();
    if (const auto report = checkpoints_->collect(clock().now())) {
        report_checkpoint(*report);
    }
    if (training_) {
        watch_updates();
    }
}

void Coordinator::check_cancelled() {
    const std::lock_guard lock(mutex_);
    if (cancelled_) {
        std::rethrow_exception(cancelled_);
    }
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
        case MessageKind::kEvaluating:
            if (waiting_) {
                waiting_->renew();
            }
            return;
        case MessageKind::kSaved: checkpoints_->saved(decode<SavedPart>(message.body)); return;
        case MessageKind::kGathered:
            if (const auto snapshot = gathering_.arrived(message)) {
                gathered(*snapshot);
            }
            return;
        case MessageKind::kStopRequested:
            if (!message.body.empty()) {
                request_stop(StopReason::kSignal);
            }
            return;
        case MessageKind::kFarewell: said_farewell(message); return;
        default:
            fail<PeerError>({.where = "coordinator",
                             .what = "a message that it does not know",
                             .got = fmt::format("kind {} from {}", message.kind,
                                                links_.map.describe(message.from.rank))});
    }
}

UpdateExtras Coordinator::decide(std::int64_t samples) {
    UpdateExtras extras;
    if (stop_ || samples >= parts_.budget_samples) {
        return extras;  // the end of the run does it all
    }
    if (evaluations_->due(samples) && (synchronous_ || evaluator_->has_room())) {
        extras.evaluation = evaluations_->start();
        extras.snapshot.gather = synchronous_ ? 0 : extras.evaluation;
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
    reference_batches_ += update.fraction;
    progress_.samples_applied += update.result.samples;
    ++progress_.updates;
    progress_.dropped_in_a_row = 0;
    update_times();
    const StepReport step{.result = update.result,
                          .learning_rate = update.learning_rate,
                          .gradient_norm = update.gradient_norm,
                          .applied = true,
                          .epoch = update.epoch};
    for (const auto& hook : hooks_) {
        hook->on_step(*this, step);
    }
}

void Coordinator::taken(const UpdateExtras& extras, int evaluation_parts) {
    update_times();
    if (extras.evaluation != 0) {
        evaluations_->taken(progress_, progress_.samples_applied, evaluation_parts,
                            extras.snapshot.gather == 0);
    }
    if (!extras.snapshot.checkpoint.empty()) {
        checkpoints_->captured(run_snapshot(), clock().now());
    }
}

void Coordinator::drop(const BatchResult& result, const std::string& because) {
    progress_.record_drop();
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

/// Names those whom the next update waits for, from the first that has come on.
void Coordinator::watch_updates() {
    std::vector<int> awaited = flow_->awaited();
    const bool waiting = !awaited.empty();
    {
        const std::lock_guard lock(mutex_);
        awaited_ = std::move(awaited);
    }
    if (!waiting) {
        waiting_.reset();
    } else if (!waiting_ || waiting_version_ != version_) {
        waiting_version_ = version_;
        waiting_.reset();
        waiting_ =
            links_.operations.begin("update", static_cast<std::uint64_t>(version_ + 1), [this] {
                const std::lock_guard lock(mutex_);
                return awaited_;
            });
    }
}

void Coordinator::update_times() {
    const double wall = (clock().now() - started_).count();
    progress_.wall_seconds = earlier_.wall_seconds + wall;
    progress_.train_seconds = earlier_.train_seconds + wall - pauses_;
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
