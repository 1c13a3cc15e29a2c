#include "train/coordinator/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/coordinator/run_end.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/run/run_records.hpp"
#include "train/run/sleep_compute.hpp"

namespace cohort {
namespace {

/// The coordinator looks at what is due by time at least this often, and not more often than that
/// without a message.
constexpr Clock::Seconds kTick{0.1};
constexpr Clock::Seconds kLeastTick{0.001};
/// How often the output folder is looked at.
constexpr Clock::Seconds kLookPeriod{0.5};
/// Number of the snapshot that becomes the model; evaluations count from 1.
constexpr std::uint64_t kModelGather = ~std::uint64_t{0};

int shard_count(const RankMap& map) {
    return map.servers == 0 ? 1 : map.servers;
}

void report_rank(RunReporter& reporter, const RankReport& report, int workers) {
    log_warn("{}: {}; {} of {} workers are live",
             report.returned ? "a worker is back" : "a worker is lost", report.reason, report.live,
             workers);
    reporter.hooks().tell([&](TrainHook& hook) { hook.on_rank(reporter, report); });
}

}  // namespace

Coordinator::Active::Active(OpenedSession opened, CommContext comm, JobContext& parts,
                            RunReporter& reporter, Cancellation& cancellation,
                            std::function<void()> stop)
    : session(std::move(opened.session)),
      consultation(*session, std::move(opened.model)),
      evaluations(comm, parts, reporter, cancellation),
      checkpoints(parts.options, RunFolder(parts.options.out).checkpoints, shard_count(comm.map),
                  parts.hdf5),
      mirrors(comm, comm.mirrors == nullptr ? 0 : parts.options.mirror_every_s,
              shard_count(comm.map)),
      recorder({parts, *session, reporter, consultation, evaluations, checkpoints, mirrors},
               comm.map.servers > 0),
      requests(comm.map, *session, consultation, reporter, std::move(stop),
               [this](const std::string& words) { return driver->servers(words); }),
      driver(comm.map.servers == 0 ? make_ring_driver(comm, parts, recorder)
                                   : make_servers_driver(comm, parts, recorder)) {
}

/// Workers are at no iteration of theirs while training waits for an evaluation.
std::optional<double> Coordinator::Active::wake_s() const {
    if (session->stopping() || evaluations.pausing()) {
        return std::nullopt;
    }
    const std::optional<double> at_s = consultation.wake_at();
    return at_s ? std::optional<double>(*at_s - session->options().now().training_s) : at_s;
}

void Coordinator::Active::consult_modes(RunReporter& reporter) {
    const bool due = wake_s().value_or(1) <= 0;
    if (session->stopping() || (!consultation.has_news() && !due)) {
        return;
    }
    reporter.update_progress();
    if (auto change = consultation.consult(due)) {
        driver->install(*std::move(change));
    }
    reporter.report_modes();
}

Coordinator::Coordinator(CommContext comm, JobContext& parts, const TrainEnvironment& environment,
                         std::string device)
    : comm_(comm),
      parts_(parts),
      environment_(environment),
      device_(std::move(device)),
      gathering_(cut_shards(parts.graph, shard_count(comm.map))),
      roster_(comm, parts.options.max_lost),
      reporter_(parts, environment, [this](StopReason reason) { request_stop(reason); }),
      wait_(comm.operations),
      folder_(parts.options) {
    comm_.messenger.set_sink(Port::kCoordinator, &gathering_);
    check_free_space(parts.options, run_bytes(parts));
}

Coordinator::~Coordinator() {
    roster_.stop_watching();
    comm_.messenger.set_sink(Port::kCoordinator, nullptr);
}

TrainSummary Coordinator::run() {
    reporter_.start();
    try {
        folder_.lock();
        begin();
        const LiveLineGuard guard;
        train();
        finish();
    } catch (const WorldLost&) {  // the run goes on elsewhere: its folder and records are whole
        throw;
    } catch (const Error& error) {
        fail_run(error, error.exit_code());
        if (!active_ || !active_->roles_begun) {
            throw;
        }
        throw Error(error.exit_code(), fmt::format("{} (after update {}, {} samples applied)",
                                                   error.what(), reporter_.progress().updates,
                                                   reporter_.progress().samples_applied));
    } catch (const std::exception& error) {
        fail_run(error, static_cast<ExitCode>(EXIT_FAILURE));
        throw;
    }
    keep_folder(Clock::Seconds(0));
    TrainSummary summary = summarize();
    reporter_.metrics().write(summary_json(summary, parts_.options));
    std::string reason = summary.outputs_saved ? to_string(summary.reason)
                                               : "some results could not be saved, see the log";
    if (!summary.losses.story.empty()) {
        reason += "; " + summary.losses.story;
    }
    folder_.write_exit_code(exit_code(summary), reason);
    return summary;
}

/// The record of a failure; then everybody may go.
void Coordinator::fail_run(const std::exception& error, ExitCode code) {
    reporter_.failed(error_json(error, static_cast<int>(code), reporter_.progress()));
    dismiss_roles();
    folder_.write_exit_code(code, error.what());
}

/// Fresh parameters or those of a checkpoint, records, metrics and hooks; then all may work.
void Coordinator::begin() {
    parts_.arithmetic = arithmetic(parts_.options, comm_.map);
    const RunStart start = find_start(parts_);
    reporter_.resume(start.progress);
    active_.emplace(open_session(parts_, comm_.map.workers(), environment_, reporter_, start),
                    comm_, parts_, reporter_, cancellation_,
                    [this] { request_stop(StopReason::kSignal); });
    const TrainProgress& progress = reporter_.progress();
    active_->checkpoints.begin(progress.samples_applied, reporter_.clock().now());
    reporter_.begin(*active_->session, RunFolder(parts_.options.out).metrics, start.metrics_bytes,
                    start_json(parts_, comm_.map, device_, progress,
                               environment_.losses.empty() ? "" : environment_.losses.back()));
    reporter_.make_hooks();
    roster_.watch();
    active_->requests.open();
    UpdateExtras extras;  // an evaluation may be due since the part before this one
    active_->evaluations.add_due(progress.samples_applied, true, extras);
    active_->roles_begun = true;
    const int parts = active_->driver->begin(start.order, extras);
    if (extras.evaluation != 0) {
        active_->recorder.taken(extras, parts);
    }
}

void Coordinator::train() {
    while (!active_->session->stopping() || !active_->driver->quiet()) {
        step();
        wait_.watch_update(active_->driver->awaited(), active_->session->counts().version);
    }
    wait_.end();
}

void Coordinator::step() {
    const Clock::Seconds tick =
        std::clamp(Clock::Seconds(active_->wake_s().value_or(kTick.count())), kLeastTick, kTick);
    if (const auto message = comm_.messenger.mailbox(Port::kCoordinator).receive(tick)) {
        handle(*message);
    } else if (environment_.stop_requested()) {
        request_stop(StopReason::kSignal);
    }
    cancellation_.check();
    keep_folder(kLookPeriod);
    active_->requests.look(reporter_.clock().now());
    active_->consult_modes(reporter_);
    if (const auto report = active_->checkpoints.collect(reporter_.clock().now())) {
        end_.outputs_saved = report->error.empty();
        reporter_.hooks().tell([&](TrainHook& hook) { hook.on_checkpoint(reporter_, *report); });
    }
}

/// Others may delete or move the folder's files while the run has them open: its records would go
/// where nobody finds them. The files are made again; when that is impossible the run ends, after a
/// checkpoint if there is a place for one.
void Coordinator::keep_folder(Clock::Seconds period) {
    if (!folder_.due(reporter_.clock().now(), period)) {
        return;
    }
    try {
        const bool folder = folder_.restore();
        const bool metrics = reporter_.metrics().restore();
        if (folder || metrics) {
            log_warn("[{}] {} deleted or moved while the run writes there; {} anew",
                     parts_.options.out,
                     folder && metrics ? "the folder was"
                     : metrics         ? "metrics.jsonl was"
                                       : "run.lock was",
                     metrics ? "its records are written" : "it is made");
        }
    } catch (const FileError& error) {
        if (end_.failure.empty()) {
            end_.failure = error.what();
            end_.failure_code = error.exit_code();
            log_error("{}; the run ends", end_.failure);
        }
        end_.outputs_saved = false;
        if (!roster_.workers_stopped()) {
            request_stop(StopReason::kSignal);
        }
    }
}

template <class Done, class Missing>
void Coordinator::wait_until(const char* name, WaitLimit limit, const Done& done,
                             const Missing& missing) {
    wait_.set_awaited(missing());
    wait_.begin(name, static_cast<std::uint64_t>(active_->session->counts().version), limit);
    while (!done()) {
        step();
        wait_.set_awaited(missing());
    }
    wait_.end();
}

void Coordinator::handle(const Message& message) {
    if (active_->driver->handle(message)) {
        return;
    }
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kEvaluated:
            active_->evaluations.arrived(decode<EvaluatedPart>(message.body));
            return;
        case MessageKind::kEvaluating: wait_.renew(); return;
        case MessageKind::kSaved:
            active_->checkpoints.saved(decode<SavedPart>(message.body));
            active_->mirrors.saved(decode<SavedPart>(message.body));
            return;
        case MessageKind::kGathered:
            if (const auto snapshot = gathering_.arrived(message)) {
                if (snapshot->id == kModelGather) {
                    end_.model = snapshot;
                } else {
                    active_->evaluations.arrived(*snapshot);
                }
            }
            return;
        case MessageKind::kStopRequested: {
            const auto request = decode<StopRequest>(message.body);
            if (!request.failure.empty() && end_.failure.empty()) {
                end_.failure =
                    fmt::format("{} ({})", request.failure, comm_.map.describe(request.rank));
                log_error("{}; the run ends", end_.failure);
            }
            request_stop(StopReason::kSignal);  // with a checkpoint, after a failure too
            return;
        }
        case MessageKind::kRankEvent: {
            const auto news = decode<RankNews>(message.body);
            return news.returned ? returned(news) : lost(news);
        }
        case MessageKind::kFarewell: roster_.reported(message); return;
        default:
            fail<PeerError>({.where = "coordinator",
                             .what = "a message that it does not know",
                             .got = fmt::format("kind {} from {}", message.kind,
                                                comm_.map.describe(message.from.rank))});
    }
}

void Coordinator::request_stop(StopReason reason) {
    end_.reason = end_.reason.value_or(reason);
    active_->session->stop();
}

/// 1. The others go on without the rank.
/// 2. What it owed comes back: leases, its part of an evaluation, its final report.
/// 3. Whoever chooses the mode may arrange the others anew.
void Coordinator::lost(const RankNews& news) {
    if (roster_.workers_stopped()) {
        lost_at_the_end(news);
        return;
    }
    if (!roster_.lost(news.rank)) {
        return;
    }
    const int worker = comm_.map.worker_of_rank(news.rank);
    active_->session->set_live(worker, false);
    active_->consultation.worker_changed(worker);
    reporter_.report_stragglers();
    report_rank(reporter_, roster_.report(news), comm_.map.workers());
    if (roster_.losses().too_many()) {
        fail<PeerError>(
            {.where = "workers",
             .what = fmt::format("{}, and more are lost than --max-lost allows: {}", news.reason,
                                 comm_.map.describe(roster_.losses().ranks()))});
    }
    active_->evaluations.worker_lost();
    active_->checkpoints.give_up();  // granted rounds may be aborted now
    active_->mirrors.give_up();
    active_->driver->lost(worker);
}

/// Training is over and the rank had nothing more to give.
void Coordinator::lost_at_the_end(const RankNews& news) {
    if (!news.returned && roster_.lost(news.rank)) {
        if (active_) {
            active_->driver->lost_at_the_end(comm_.map.worker_of_rank(news.rank));
        }
        log_warn("{}; nothing was left for it to do", news.reason);
    }
}

void Coordinator::returned(const RankNews& news) {
    if (roster_.workers_stopped() || active_->session->stopping() || !roster_.returned(news.rank)) {
        return;  // it stays away for what is left
    }
    const int worker = comm_.map.worker_of_rank(news.rank);
    active_->session->set_live(worker, true);
    active_->consultation.worker_changed(worker);
    reporter_.report_stragglers();
    report_rank(reporter_, roster_.report(news), comm_.map.workers());
    active_->driver->joined(worker);
}

void Coordinator::finish() {
    keep_folder(Clock::Seconds(0));
    active_->session->leases().open().return_all();
    if (parts_.evaluates()) {
        evaluate_at_end();
    }
    active_->session->end();
    reporter_.report_modes();
    reporter_.report_stragglers();
    reporter_.hooks().ended(end_.reason.value_or(StopReason::kBudget));
    save_at_end();
    if (!end_.failure.empty()) {
        throw Error(end_.failure_code, end_.failure);
    }
    dismiss_roles();
    cancellation_.check();
}

/// Of the final parameters, unless a signal ends the run; split over all workers. When one of them
/// is lost meanwhile, the others do it again.
void Coordinator::evaluate_at_end() {
    RunEvaluations& evaluations = active_->evaluations;
    const auto over = [this, &evaluations] {
        if (environment_.stop_requested()) {
            request_stop(StopReason::kSignal);
        }
        return !evaluations.running() || end_.reason == StopReason::kSignal;
    };
    const auto missing = [this, &evaluations] { return evaluations.missing(*active_->driver); };
    evaluations.training_over();
    // The evaluator's own work, if it is that, takes as long as it takes.
    wait_until("evaluation", evaluations.pausing() ? WaitLimit::kFatal : WaitLimit::kWarn, over,
               missing);
    for (int losses = -1; end_.reason != StopReason::kSignal && evaluations.wanted_at_end() &&
                          losses != roster_.losses().times_lost();) {
        losses = roster_.losses().times_lost();
        const UpdateExtras extras = evaluations.start_last();
        active_->recorder.taken(extras, active_->driver->request(extras));
        wait_until("evaluation", WaitLimit::kFatal, over, missing);
    }
    evaluations.abandon();
}

void Coordinator::save_at_end() {
    CheckpointCoordinator& checkpoints = active_->checkpoints;
    // Part i is rank i's: servers are the ranks 0.., and so is worker 0 of a ring.
    const auto owners_missing = [&] {
        return checkpoints.running() ? checkpoints.missing() : gathering_.missing(kModelGather);
    };
    const auto saved = [&] { return !checkpoints.running(); };
    const std::int64_t samples = reporter_.progress().samples_applied;
    const bool has_model = computes_network(parts_.options);
    if (comm_.map.servers > 0) {
        roster_.stop_workers();  // servers hold all that is still wanted
    }
    wait_until("checkpoint", WaitLimit::kWarn, saved, owners_missing);
    UpdateExtras extras;
    extras.snapshot.gather = has_model ? kModelGather : 0;
    if (checkpoints.wanted_at_end(end_.reason.value_or(StopReason::kBudget), samples)) {
        extras.snapshot.checkpoint = checkpoints.start(samples);
    }
    if (!extras.snapshot.empty()) {
        active_->driver->request(extras);
        active_->recorder.taken(extras, 0);
    }
    wait_until("checkpoint", WaitLimit::kWarn, saved, owners_missing);
    if (has_model) {
        wait_until(
            "model", WaitLimit::kWarn, [this] { return end_.model.has_value(); }, owners_missing);
        // After a signal or a failure the run goes on from its newest checkpoint.
        const bool over = end_.reason != StopReason::kSignal && end_.failure.empty();
        end_.outputs_saved = save_model(parts_, *end_.model, over) && end_.outputs_saved;
    }
}

void Coordinator::dismiss_roles() {
    dismiss(comm_, roster_, gathering_, wait_, cancellation_,
            [this](const RankNews& news) { lost_at_the_end(news); });
}

TrainSummary Coordinator::summarize() {
    reporter_.update_progress(roster_.cpu_seconds());
    TrainSummary summary = reporter_.summary();
    summary.reason = end_.reason.value_or(StopReason::kBudget);
    roster_.summarize(summary);
    summary.losses.takeovers = static_cast<int>(environment_.losses.size());
    active_->recorder.summarize(summary);
    summary.refiner = active_->consultation.use();
    summary.outputs_saved = end_.outputs_saved && reporter_.metrics().failures() == 0;
    return summary;
}

}  // namespace cohort
