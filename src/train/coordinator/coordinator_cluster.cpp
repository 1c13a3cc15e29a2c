// Modes, workers that come and go, and requests while a run goes on.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "formats/predictor_file.hpp"
#include "train/coordinator/coordinator.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {

/// From now on the run hears of ranks and takes requests.
void Coordinator::listen() {
    if (comm_.membership != nullptr) {
        Mailbox& mailbox = comm_.messenger.mailbox(Port::kCoordinator);
        const Address here{comm_.messenger.rank(), Port::kCoordinator};
        comm_.membership->watch([&mailbox, here](const RankEvent& event) {
            mailbox.put(
                {.from = here,
                 .kind = static_cast<std::uint16_t>(MessageKind::kRankEvent),
                 .body = encode(RankNews{.rank = event.rank,
                                         .returned = event.kind == RankEvent::Kind::kReturned,
                                         .dead = event.dead,
                                         .reason = event.reason})});
        });
    }
    try {
        control_.emplace(RunFolder(options().out).control,
                         [this](const std::string& words) { return requested(words); });
    } catch (const FileError& error) {
        log_warn("no requests (cohort ctl) are taken: {}", error.what());
    }
}

/// Until whoever chooses the mode wants to be asked without an update. Workers are at no iteration
/// of theirs while training waits for an evaluation.
std::optional<double> Coordinator::wake_s() const {
    if (!training_ || stopping() || evaluations_->pausing()) {
        return std::nullopt;
    }
    return consultation_->wake_s();
}

/// Asks whoever chooses the mode, once an update was made, workers came or went, or it is time.
void Coordinator::consult_modes() {
    if (!training_ || stopping()) {
        return;
    }
    const bool due = wake_s().value_or(1) <= 0;
    if (!session_->has_news() && !due) {
        return;
    }
    reporter_.update_progress();
    if (auto change = consultation_->consult(due)) {
        flow_->install(*std::move(change));
    }
    reporter_.report_modes();
}

void Coordinator::rank_news(const RankNews& news) {
    if (news.returned) {
        returned(news);
    } else {
        lost(news);
    }
}

/// 1. The others go on without the rank.
/// 2. What it owed comes back: leases, its part of an evaluation, its last words.
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
    session_->worker_lost(worker);
    consultation_->forget(worker);
    reporter_.report_stragglers();
    report_rank(news);
    if (roster_.losses().too_many()) {
        fail<PeerError>(
            {.where = "workers",
             .what = fmt::format("{}, and more are lost than --max-lost allows: {}", news.reason,
                                 comm_.map.describe(roster_.losses().ranks()))});
    }
    if (evaluations_->pausing()) {
        evaluations_->give_up();
    }
    checkpoints_->give_up();  // rounds that are granted may be void now
    flow_->lost(worker);
}

/// Training is over and the rank had nothing more to give.
void Coordinator::lost_at_the_end(const RankNews& news) {
    if (!news.returned && roster_.lost(news.rank)) {
        if (flow_) {
            flow_->lost_at_the_end(comm_.map.worker_of_rank(news.rank));
        }
        log_warn("{}; nothing was left for it to do", news.reason);
    }
}

void Coordinator::returned(const RankNews& news) {
    if (roster_.workers_stopped() || stopping() || !roster_.returned(news.rank)) {
        return;  // it stays away for what is left
    }
    const int worker = comm_.map.worker_of_rank(news.rank);
    session_->worker_joined(worker);
    consultation_->forget(worker);
    reporter_.report_stragglers();
    report_rank(news);
    flow_->joined(worker);
}

void Coordinator::report_rank(const RankNews& news) {
    const RankReport report{
        .rank = news.rank,
        .worker = comm_.map.worker_of_rank(news.rank),
        .returned = news.returned,
        .reason = news.reason.empty() ? comm_.map.describe(news.rank) : news.reason,
        .live = roster_.losses().live()};
    log_warn("{}: {}; {} of {} workers are live",
             news.returned ? "a worker is back" : "a worker is lost", report.reason, report.live,
             comm_.map.workers());
    reporter_.tell([&](TrainHook& hook) { hook.on_rank(reporter_, report); });
}

/// What a request leads to. Errors: UsageError.
std::string Coordinator::requested(const std::string& words) {
    constexpr std::string_view kMode = "mode ";
    if (words == "status") {
        return status();
    }
    if (words == "stop") {
        log_info("request: stop");
        request_stop(StopReason::kSignal);
        return "the run ends after a checkpoint, with status 75\n";
    }
    if (!words.starts_with(kMode)) {
        fail<UsageError>({.where = "request",
                          .what = "it is unknown",
                          .expected = "mode MODE, status or stop",
                          .got = "'" + words + "'"});
    }
    if (!training_ || stopping()) {
        fail<UsageError>({.where = "request", .what = "training is over"});
    }
    const std::string mode = words.substr(kMode.size());
    session_->modes().request(mode);
    session_->request_consultation();
    log_info("request: mode {}", mode);
    return fmt::format("{} follows {} at the next fence\n", mode, session_->modes().mode());
}

std::string Coordinator::status() const {
    const ClusterReport now = reporter_.cluster();
    const TrainProgress& progress = reporter_.progress();
    std::string text = fmt::format(
        "mode {}\n{} of {} samples applied in {} updates, {:.1f} s of training\n"
        "{} of {} workers live, {} pushes wait for others\n",
        now.mode, progress.samples_applied, parts_.budget_samples, progress.updates,
        progress.train_seconds, now.live(), now.workers.size(), now.pending);
    for (std::size_t worker = 0; worker < now.workers.size(); ++worker) {
        const WorkerReport& one = now.workers[worker];
        fmt::format_to(std::back_inserter(text),
                       "worker {} ({}): {}, lag {:.2f}, own time {:.3f} s, {} samples applied\n",
                       worker,
                       comm_.map.describe(comm_.map.rank_of_worker(static_cast<int>(worker))),
                       one.live ? "live" : "lost", one.lag, one.own_s, one.samples);
        if (worker < now.loads.size() && one.live) {
            text += "  " + describe(now.loads[worker]) + "\n";
        }
    }
    return text;
}

}  // namespace cohort
