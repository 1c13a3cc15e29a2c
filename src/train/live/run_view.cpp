#include "train/live/run_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/train/events.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

/// "loss 0.4366  accuracy 84.27 %", "loss 4.6052  perplexity 100.00  accuracy 25.00 %",
/// "loss 0.2412  R2 0.7588": of a window or an evaluation.
template <class Scores>
std::string scores_text(const Scores& scores) {
    std::string text = fmt::format("loss {:.4f}", scores.loss);
    if (!std::isnan(scores.perplexity)) {
        text += fmt::format("  perplexity {:.2f}", scores.perplexity);
    }
    if (!std::isnan(scores.accuracy)) {
        text += fmt::format("  accuracy {:.2f} %", 100 * scores.accuracy);
    }
    if (!std::isnan(scores.r2)) {
        text += fmt::format("  R2 {:.4f}", scores.r2);
    }
    return text;
}

/// Seconds that speeds are compared by: measured ones where there are some.
double pace_of(const WorkerWindow& worker) {
    return worker.tau_s > 0 ? worker.tau_s : worker.own_s;
}

bool is_live(const WorkerWindow& worker) {
    return !std::isnan(worker.lag);
}

std::vector<WorkerView> workers_of(const TrainLine& window) {
    double fastest_s = kUnknown;
    for (const WorkerWindow& worker : window.workers) {
        if (is_live(worker)) {
            fastest_s = std::fmin(fastest_s, pace_of(worker));  // which leaves NaN out
        }
    }
    std::vector<WorkerView> views;
    for (const WorkerWindow& worker : window.workers) {
        WorkerView& view = views.emplace_back();
        view.worker = static_cast<int>(views.size()) - 1;
        if (!is_live(worker)) {
            view.state = WorkerView::State::kLost;
            view.speed = 0;
            continue;
        }
        view.own_s = pace_of(worker);
        view.speed = fastest_s / view.own_s;
        view.waits = worker.wait_s / (worker.wait_s + worker.tau_s);
        view.lag = worker.lag;
        view.batch = worker.batch;
        if (worker.slow) {
            view.state = WorkerView::State::kSlow;
            view.cause = word_of(*worker.slow);
        } else if (view.waits > 0.5) {
            view.state = WorkerView::State::kWaiting;
        }
    }
    return views;
}

std::string number_or_dash(bool known, const std::string& text) {
    return known ? text : "-";
}

}  // namespace

double RunView::share_done() const noexcept {
    return budget > 0 ? std::min(1.0, static_cast<double>(samples) / static_cast<double>(budget))
                      : 0;
}

std::string RunView::eta() const {
    return samples_per_s > 0 ? format_duration(Clock::Seconds(
                                   static_cast<double>(budget - samples) / samples_per_s))
                             : "-";
}

std::vector<WorkerView> shown_workers(const RunView& view, std::size_t rows) {
    std::vector<WorkerView> shown = view.workers;
    if (shown.size() <= rows) {
        return shown;
    }
    // A worker whose speed is not known counts as the slowest.
    std::ranges::stable_sort(shown, {}, [](const WorkerView& worker) {
        return std::isnan(worker.speed) ? 0.0 : worker.speed;
    });
    shown.resize(rows > 0 ? rows - 1 : 0);
    return shown;
}

std::string others_text(const RunView& view, const std::vector<WorkerView>& shown) {
    const std::size_t others = view.workers.size() - shown.size();
    return others == 0 ? ""
                       : fmt::format("and {}, none slower than these",
                                     counted(static_cast<std::int64_t>(others), "more worker"));
}

std::string share_text(double share) {
    return number_or_dash(!std::isnan(share), fmt::format("{:.0f} %", 100 * share));
}

std::string own_time_text(double seconds) {
    return number_or_dash(seconds > 0, seconds < 1 ? fmt::format("{:.3g} ms", 1000 * seconds)
                                                   : fmt::format("{:.3g} s", seconds));
}

std::string lag_text(double lag) {
    return number_or_dash(!std::isnan(lag), fmt::format("{:.2f}", lag));
}

void RunViewer::set_life(std::string life, std::string note, bool over) {
    view_.life = std::move(life);
    view_.note = std::move(note);
    view_.over = over;
}

void RunViewer::on_start(const RunHeader& start) {
    // The part that is continued has told what came before.
    view_.model = start.model;
    arch_ = start.arch;
    set_mode(start.mode);
    view_.samples = start.samples_applied;
    view_.budget = start.budget_samples;
    view_.live = start.workers;
    view_.workers.clear();
    set_life("running", "", false);
    const auto compute =
        std::ranges::find(start.fields, "compute", &std::pair<std::string, std::string>::first);
    if (compute != start.fields.end() && compute->second.starts_with("sleep")) {
        view_.note = "nothing is learned: --compute " + compute->second;
    }
    if (start.resumed) {
        add_change(view_.train_s,
                   fmt::format("resumed at {} samples{}{}", start.samples_applied,
                               start.after_loss.empty() ? "" : ": ", start.after_loss));
    }
}

void RunViewer::on_train(const TrainLine& window) {
    set_mode(window.mode);
    view_.samples = window.samples_applied;
    view_.budget = window.budget_samples > 0 ? window.budget_samples : view_.budget;
    view_.train_s = window.train_s;
    view_.samples_per_s = window.samples_per_s;
    view_.scores = scores_text(window);
    view_.lr = window.lr;
    view_.live = window.live;
    view_.pending = window.pending;
    view_.workers = workers_of(window);
}

void RunViewer::on_evaluation(const RunEvaluation& evaluation) {
    view_.test = fmt::format("{}  after {} samples", scores_text(evaluation),
                             format_count(static_cast<std::uint64_t>(evaluation.samples_applied)));
}

void RunViewer::on_change(const SwitchReport& change) {
    if (!change.same_mode()) {
        set_mode(change.to);
        add_change(change.train_seconds,
                   fmt::format("{} -> {}: {}", change.from, change.to, change.why));
        return;
    }
    const int earlier = std::exchange(regroupings_, 0);
    if (earlier > 0) {
        view_.changes.erase(view_.changes.begin());
    }
    add_change(change.train_seconds,
               fmt::format("{} regrouped{}: {}", change.to,
                           earlier > 0 ? fmt::format(" {} times", earlier + 1) : "", change.why));
    regroupings_ = earlier + 1;
}

void RunViewer::on_straggler(const StragglerEpisode& slow, bool over) {
    add_change(over ? slow.end_s : slow.begin_s,
               over ? fmt::format("worker {} is no longer slow, after {:.0f} s", slow.worker,
                                  slow.duration_s())
                    : fmt::format("worker {} is slow: {}", slow.worker, describe(slow)));
}

void RunViewer::on_rank(const RankChange& change) {
    add_change(change.train_s,
               change.joined ? fmt::format("worker {} is back", change.worker)
                             : fmt::format("worker {} is lost: {}", change.worker, change.reason));
    view_.live = change.live;
}

void RunViewer::on_dropped(const DroppedBatch& batch) {
    add_change(view_.train_s,
               fmt::format("{} dropped: {}", counted(batch.samples, "sample"), batch.reason));
}

void RunViewer::on_failure(const RunFailure& failure) {
    set_life("failed", fmt::format("exit code {}: {}", failure.exit_code, failure.message), true);
}

void RunViewer::on_summary(const RunSummary& summary) {
    view_.samples = summary.samples_applied;
    view_.train_s = summary.train_s;
    if (summary.stop_reason == "signal") {
        set_life("stopped", "stopped after a checkpoint; --resume continues the run", true);
    } else {
        set_life("done",
                 summary.tta_s ? fmt::format("the target was reached after {:.1f} s of training",
                                             *summary.tta_s)
                               : "",
                 true);
    }
}

void RunViewer::add_change(double train_s, std::string text) {
    regroupings_ = 0;
    view_.changes.insert(view_.changes.begin(), {.train_s = train_s, .text = std::move(text)});
    if (view_.changes.size() > kMostChanges) {
        view_.changes.pop_back();
    }
}

void RunViewer::set_mode(const std::string& mode) {
    view_.setting = fmt::format("{}, mode {}", arch_, mode);
}

}  // namespace cohort
