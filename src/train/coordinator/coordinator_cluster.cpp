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
    if (links_.membership != nullptr) {
        Mailbox& mailbox = links_.messenger.mailbox(Port::kCoordinator);
        const Address here{links_.messenger.rank(), Port::kCoordinator};
        links_.membership->watch([&mailbox, here](const RankEvent& event) {
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

ClusterReport Coordinator::cluster() const {
    ClusterReport report{.mode = modes_->in_force(),
                         .pending = engine_->pending(),
                         .workers = workers_.reports(),
                         .loads = {},
                         .gradients = {}};
    for (std::size_t worker = 0; load_ && worker < report.workers.size(); ++worker) {
        report.loads.push_back(load_of(load_->history(), static_cast<int>(worker)));
        report.loads.back().slow = load_->stragglers().open()[worker];
    }
    if (load_) {
        report.gradients = load_->gradients();
    }
    return report;
}

RunCounts Coordinator::counts() const {
    return {.updates = progress_.updates,
            .pushes = workers_.pushes(),
            .samples_applied = progress_.samples_applied,
            .budget_samples = parts_.budget_samples};
}

/// From when a mode first looks at them. A model behind them is refined beside the run.
void Coordinator::keep_forecasts() {
    if (!load_ || !modes_->wants_load()) {
        return;
    }
    if (!load_->predicts()) {
        const int workers = links_.map.workers();
        load_->predict_with(
            make_predictor(chooser_.predictor, workers, options().batch, predictor_model_));
        if (predictor_model_) {
            refiner_ =
                std::make_unique<PredictorRefiner>(*predictor_model_, workers, options().batch);
        }
    }
    if (refiner_) {
        if (const auto network = refiner_->take()) {
            load_->renew(network);
        }
    }
}

/// Until whoever chooses the mode wants to be asked without an update. Workers are at no iteration
/// of theirs while training waits for an evaluation.
std::optional<double> Coordinator::wake_s() const {
    if (!training_ || stopping() || !load_ || evaluations_->pausing()) {
        return std::nullopt;
    }
    const std::optional<double> at_s = modes_->wake_at(load_->running());
    return at_s ? std::optional<double>(*at_s - seconds_of_training()) : std::nullopt;
}

/// Asks whoever chooses the mode, once an update was made, workers came or went, or it is time.
void Coordinator::consult_modes() {
    if (!training_ || stopping()) {
        return;
    }
    const bool time = wake_s().value_or(1) <= 0;
    if (!updated_ && !ask_modes_ && !time) {
        return;
    }
    updated_ = false;
    if (!std::exchange(ask_modes_, false) && !time && !modes_->looks(counts())) {
        report_switches();
        return;
    }
    update_times();
    keep_forecasts();
    const Clock::Seconds before = clock().now();
    auto change = modes_->ask({.seconds = progress_.train_seconds,
                               .samples_applied = progress_.samples_applied,
                               .budget_samples = parts_.budget_samples,
                               .updates = progress_.updates,
                               .workers = workers_.telemetry(clock().now()),
                               .load = load_ ? &load_->view() : nullptr});
    modes_->asked((clock().now() - before).count());
    if (change) {
        flow_->install(std::move(change->plan), std::move(change->batches));
    }
    report_switches();
}

void Coordinator::report_switches() {
    for (const SwitchReport& change : modes_->take_reports()) {
        ++(change.same_mode() ? regroupings_ : switches_);
        const bool often = change.same_mode() && regrouping_said_ &&
                           (clock().now() - *regrouping_said_).count() < options().log_every_s;
        if (!often) {
            log_info("{}", describe(change));
            regrouping_said_ = clock().now();
        }
        for (const auto& hook : hooks_) {
            hook->on_switch(*this, change);
        }
    }
    for (const DecisionRecord& decision : modes_->take_decisions()) {
        if (decision.kept || decision.held_s >= options().log_every_s) {
            log_info("{}", describe(decision));
        }
        for (const auto& hook : hooks_) {
            hook->on_decision(*this, decision);
        }
    }
    for (const RateWindow& window : modes_->take_windows()) {
        for (const auto& hook : hooks_) {
            hook->on_rate(*this, window);
        }
    }
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
    if (workers_stopped_) {
        lost_at_the_end(news);
        return;
    }
    if (!losses_.lost(news.rank)) {
        return;
    }
    links_.membership->exclude(news.rank);
    std::erase(at_work_, news.rank);
    const int worker = links_.map.worker_of_rank(news.rank);
    workers_.lost(worker);
    forget_load(worker);
    report_rank(news);
    if (losses_.too_many()) {
        fail<PeerError>({.where = "workers",
                         .what = fmt::format("{}, and more are lost than --max-lost allows: {}",
                                             news.reason, links_.map.describe(losses_.ranks()))});
    }
    if (evaluations_->pausing()) {
        evaluations_->give_up();
    }
    checkpoints_->give_up();  // rounds that are granted may be void now
    flow_->lost(worker);
    ask_modes_ = true;
}

/// What was recorded of it says nothing about what it will be.
void Coordinator::forget_load(int worker) {
    if (load_) {
        load_->lost(worker);
        if (refiner_) {
            refiner_->forget(worker);
        }
        report_stragglers();
    }
}

/// Training is over and the rank had nothing more to give.
void Coordinator::lost_at_the_end(const RankNews& news) {
    if (!news.returned && losses_.lost(news.rank)) {
        links_.membership->exclude(news.rank);
        std::erase(at_work_, news.rank);
        flow_->lost_at_the_end(links_.map.worker_of_rank(news.rank));
        log_warn("{}; nothing was left for it to do", news.reason);
    }
}

void Coordinator::returned(const RankNews& news) {
    if (workers_stopped_ || stopping() || !losses_.returned(news.rank)) {
        return;  // it stays away for what is left
    }
    links_.membership->admit(news.rank);
    at_work_.push_back(news.rank);
    const int worker = links_.map.worker_of_rank(news.rank);
    workers_.joined(worker);
    forget_load(worker);
    report_rank(news);
    flow_->joined(worker);
    ask_modes_ = true;
}

void Coordinator::report_rank(const RankNews& news) {
    const RankReport report{
        .rank = news.rank,
        .worker = links_.map.worker_of_rank(news.rank),
        .returned = news.returned,
        .reason = news.reason.empty() ? links_.map.describe(news.rank) : news.reason,
        .live = losses_.live()};
    log_warn("{}: {}; {} of {} workers are live",
             news.returned ? "a worker is back" : "a worker is lost", report.reason, report.live,
             links_.map.workers());
    for (const auto& hook : hooks_) {
        hook->on_rank(*this, report);
    }
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
    modes_->request(mode);
    ask_modes_ = true;
    log_info("request: mode {}", mode);
    return fmt::format("{} follows {} at the next fence\n", mode, modes_->mode());
}

std::string Coordinator::status() const {
    const ClusterReport now = cluster();
    std::string text = fmt::format(
        "mode {}\n{} of {} samples applied in {} updates, {:.1f} s of training\n"
        "{} of {} workers live, {} pushes wait for others\n",
        now.mode, progress_.samples_applied, parts_.budget_samples, progress_.updates,
        progress_.train_seconds, now.live(), now.workers.size(), now.pending);
    for (std::size_t worker = 0; worker < now.workers.size(); ++worker) {
        const WorkerReport& one = now.workers[worker];
        fmt::format_to(std::back_inserter(text),
                       "worker {} ({}): {}, lag {:.2f}, own time {:.3f} s, {} samples applied\n",
                       worker,
                       links_.map.describe(links_.map.rank_of_worker(static_cast<int>(worker))),
                       one.live ? "live" : "lost", one.lag, one.own_s, one.samples);
        if (worker < now.loads.size() && one.live) {
            text += "  " + describe(now.loads[worker]) + "\n";
        }
    }
    return text;
}

}  // namespace cohort
