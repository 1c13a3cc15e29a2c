#include <algorithm>
#include <utility>

#include "cohort/core/clock.hpp"
#include "sim/job/virtual_job.hpp"

// After each event: work is dealt, whoever chooses the mode is asked.
namespace cohort {

/// Leases first: who gets one is waited for under the plan that follows.
void VirtualJob::happened() {
    if (!stopping()) {
        deal();
    }
    while (!stopping() && (updated_ || woken_)) {
        consult_modes();
    }
    if (stopping() && !over_) {
        finish();
    }
    set_alarm();
}

/// Whoever chooses the mode may want to be asked before the next update.
void VirtualJob::set_alarm() {
    const std::optional<double> at_s =
        over_ || !load_ ? std::nullopt : modes_.wake_at(load_->running());
    if (at_s == alarm_s_) {
        return;
    }
    queue().cancel(alarm_);
    alarm_s_ = at_s;
    alarm_ = !at_s ? 0 : queue().at(std::max(*at_s, now()), [this] {
        alarm_s_.reset();
        woken_ = true;
        happened();
    });
}

/// Asks whoever chooses the mode, once an update was made, or it is time.
void VirtualJob::consult_modes() {
    updated_ = false;
    const bool time = std::exchange(woken_, false);
    if (time || modes_.looks({.updates = updates_,
                              .pushes = books_.pushes(),
                              .samples_applied = samples_applied_,
                              .budget_samples = spec_.budget_samples})) {
        if (load_ && spec_.predictor && modes_.wants_load() && !load_->predicts()) {
            load_->predict_with(spec_.predictor());
        }
        auto change = modes_.ask({.seconds = now(),
                                  .samples_applied = samples_applied_,
                                  .budget_samples = spec_.budget_samples,
                                  .updates = updates_,
                                  .workers = books_.telemetry(Clock::Seconds(now())),
                                  .load = load_ ? &load_->view() : nullptr});
        if (change) {
            install(*std::move(change));
            deal();
        }
    }
    collect_switches();
    collect_stragglers();
}

void VirtualJob::collect_stragglers() {
    if (!load_) {
        return;
    }
    for (const StragglerNews::Item& news : load_->straggler_news().take()) {
        const bool over = news.kind != StragglerNews::Kind::kBegun;
        if (over && stragglers_.size() < SimulationResult::kStragglers) {
            stragglers_.push_back(news.episode);
        }
    }
}

void VirtualJob::collect_switches() {
    for (SwitchReport& change : modes_.take_reports()) {
        switches_.push_back(std::move(change));
    }
    for (DecisionRecord& decision : modes_.take_decisions()) {
        if (decisions_.size() < SimulationResult::kDecisions) {
            decisions_.push_back(std::move(decision));
        }
    }
    for (RateWindow& window : modes_.take_windows()) {
        if (windows_.size() < SimulationResult::kWindows) {
            windows_.push_back(std::move(window));
        }
    }
}

}  // namespace cohort
