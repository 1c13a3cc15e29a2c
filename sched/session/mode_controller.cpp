#include "sched/session/mode_controller.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "sched/modes/mode_table.hpp"

namespace cohort {
namespace {

/// "static:4"; "lb-bsp (ssgd)" for a mode whose plan has another name.
std::string label(const std::string& mode, const std::string& plan) {
    return mode == plan ? mode : fmt::format("{} ({})", mode, plan);
}

/// The last entry that `samples` have reached.
std::size_t entry_at(const std::vector<ScheduledMode>& schedule, std::int64_t samples) {
    std::size_t entry = 0;
    while (entry + 1 < schedule.size() && schedule[entry + 1].samples <= samples) {
        ++entry;
    }
    return entry;
}

RunMoment moment_of(const Telemetry& telemetry) {
    return {.seconds = telemetry.seconds,
            .samples = telemetry.samples_applied,
            .loss = telemetry.load == nullptr ? 0 : telemetry.load->gradients.loss};
}

}  // namespace

ModeController::ModeController(const ModeChoice& choice, ModeSetting setting, std::int64_t samples)
    : setting_(std::move(setting)),
      choice_(choice),
      entry_(entry_at(choice_.modes, samples)),
      mode_(choice_.modes.at(entry_).mode) {
    setting_.samples_before = choice_.modes[entry_].samples;
    setting_.measured = !choice_.deterministic;
    policy_ = policy_of(mode_);
}

/// One worker leaves a chooser nothing to choose: the mode of its first plan is in charge.
std::unique_ptr<ModePolicy> ModeController::policy_of(const Mode& mode) const {
    if (setting_.live.size() > 1 || !mode.entry->chooses) {
        return make_policy(mode, setting_);
    }
    const std::string plain = make_plan(mode, setting_).name;
    log_info("mode {}: with one worker there is nothing to choose, {} stays", mode.text, plain);
    return make_policy(plain, setting_);
}

SyncPlan ModeController::start() {
    Decision decision = policy_->start();
    check_invariant(decision.plan &&
                        std::all_of(decision.batches.begin(), decision.batches.end(),
                                    [this](std::int64_t batch) { return batch == setting_.batch; }),
                    "a policy starts with a plan and the run's batches");
    label_ = label(mode_.text, decision.plan->name);
    plan_ = std::move(*decision.plan);
    plan_.id = ++last_id_;
    return plan_;
}

void ModeController::request(const std::string& text) {
    Mode mode = parse_mode(text, setting_);
    const SyncPlan plan = make_policy(mode, setting_)->start().plan.value();
    if (choice_.deterministic && !is_synchronous(plan)) {
        fail<UsageError>({.where = "--deterministic",
                          .what = "the run could not be repeated",
                          .expected = "a mode in which every update waits for all workers",
                          .got = text});
    }
    requested_ = std::move(mode);
}

/// Times differ from run to run: a deterministic one does not know them.
void ModeController::refresh(const Telemetry& telemetry) {
    setting_.own_seconds.assign(telemetry.workers.size(), 0);
    setting_.live.resize(telemetry.workers.size());
    setting_.samples_before = telemetry.samples_applied;
    for (std::size_t i = 0; i < telemetry.workers.size(); ++i) {
        setting_.live[i] = telemetry.workers[i].live;
        setting_.own_seconds[i] = choice_.deterministic ? 0 : telemetry.workers[i].own_s;
    }
}

std::optional<Decision> ModeController::take_charge(const Mode& mode, const std::string& why) {
    try {
        auto policy = policy_of(mode);
        Decision decision = policy->start();
        decision.reason = why;
        if (decision.batches.empty()) {  // those of the mode before may be uneven
            decision.batches.assign(setting_.live.size(), setting_.batch);
        }
        policy_ = std::move(policy);
        mode_ = mode;
        return decision;
    } catch (const UsageError& error) {  // workers that it needs are gone
        log_warn("mode {} goes on, {} cannot take over: {}", mode_.text, mode.text, error.what());
        return std::nullopt;
    }
}

std::optional<Decision> ModeController::next(const Telemetry& telemetry) {
    std::optional<Decision> decision;
    const std::size_t entry = entry_at(choice_.modes, telemetry.samples_applied);
    if (entry > entry_) {
        entry_ = entry;
        requested_.reset();
        decision = take_charge(choice_.modes[entry].mode, "schedule");
    }
    if (requested_) {
        decision = take_charge(*std::exchange(requested_, std::nullopt), "request");
    }
    return decision ? std::move(decision) : policy_->decide(telemetry);
}

bool ModeController::looks(const RunCounts& counts) const {
    return requested_ || entry_at(choice_.modes, counts.samples_applied) > entry_ ||
           policy_->looks(counts);
}

/// Times differ from run to run: a deterministic one does not know them.
std::optional<double> ModeController::wake_at(const ActiveIterations& running) const {
    return choice_.deterministic ? std::nullopt : policy_->wake_at(running);
}

std::optional<PlanChange> ModeController::ask(const Telemetry& telemetry) {
    refresh(telemetry);
    Telemetry known = telemetry;
    if (choice_.deterministic) {
        known.load = nullptr;
        for (WorkerReport& worker : known.workers) {
            worker = {.live = worker.live, .samples = worker.samples, .pushes = worker.pushes};
        }
    }
    std::optional<Decision> decision = next(known);
    if (decision) {
        note(*decision, telemetry);
    }
    if (!decision || (!decision->plan && decision->batches.empty())) {
        return std::nullopt;
    }
    SyncPlan plan = coming_ ? *coming_ : plan_;
    if (decision->plan) {
        plan = std::move(*decision->plan);
    }
    if (choice_.deterministic && !is_synchronous(plan)) {
        fail<UsageError>({.where = "--deterministic",
                          .what = fmt::format("mode {} goes over to {}", mode_.text, plan.name),
                          .expected = "a mode in which every update waits for all workers"});
    }
    plan.id = ++last_id_;
    switches_.begun(plan.id, {.from = label_,
                              .to = label(mode_.text, plan.name),
                              .why = decision->reason,
                              .samples = telemetry.samples_applied,
                              .train_seconds = telemetry.seconds,
                              .in_force_s = {},
                              .first_update_s = {}});
    coming_ = plan;
    return PlanChange{std::move(plan), std::move(decision->batches)};
}

/// What a chooser has to tell; any other change ends what came of its last word.
void ModeController::note(Decision& decision, const Telemetry& telemetry) {
    const RunMoment now = moment_of(telemetry);
    const std::string to = decision.plan ? label(mode_.text, decision.plan->name)
                           : coming_     ? label(mode_.text, coming_->name)
                                         : label_;
    if (decision.record) {
        decision.record->kept = !decision.plan && decision.batches.empty();
        decisions_.made(*std::move(decision.record), now, label_, to);
    } else if (decision.plan) {
        decisions_.closed(now);
    }
}

void ModeController::installed(const SyncPlan& plan, double seconds) {
    plan_ = plan;
    if (coming_ && coming_->id == plan.id) {
        coming_.reset();
    }
    if (const SwitchReport* const change = switches_.installed(plan.id, seconds)) {
        label_ = change->to;
    }
}

void ModeController::updated(double seconds, double slowest_own_s) {
    if (switches_.awaits_update()) {
        policy_->switched(switches_.updated(seconds, slowest_own_s));
    }
}

void ModeController::end(const RunMoment& now) {
    switches_.close();
    decisions_.closed(now);
}

void DecisionLog::made(DecisionRecord record, const RunMoment& now, std::string from,
                       std::string to) {
    closed(now);
    record.seconds = now.seconds;
    record.samples = now.samples;
    record.from = std::move(from);
    record.to = std::move(to);
    loss_ = now.loss;
    timed_ = false;
    open_ = std::move(record);
}

void DecisionLog::took(double seconds) {
    if (open_ && !std::exchange(timed_, true)) {
        open_->decide_s = seconds;
    }
}

void DecisionLog::closed(const RunMoment& now) {
    if (!open_) {
        return;
    }
    open_->held_s = now.seconds - open_->seconds;
    if (open_->held_s > 0) {
        const auto samples = static_cast<double>(now.samples - open_->samples);
        open_->measured_samples_s = samples / open_->held_s;
        const bool known = now.loss > 0 && loss_ > 0;
        open_->measured_loss_fall_s = known ? (loss_ - now.loss) / open_->held_s : 0;
    }
    complete_.push_back(*std::exchange(open_, std::nullopt));
}

void SwitchLog::begun(std::uint64_t plan, SwitchReport report) {
    close();
    open_ = {.plan = plan, .report = std::move(report)};
}

const SwitchReport* SwitchLog::installed(std::uint64_t plan, double seconds) {
    if (!open_ || open_->plan != plan) {
        return nullptr;
    }
    open_->report.in_force_s = seconds - open_->report.train_seconds;
    return &open_->report;
}

const SwitchReport& SwitchLog::updated(double seconds, double slowest_own_s) {
    check_invariant(awaits_update(), "an update completes a change that is in force");
    open_->report.first_update_s = seconds - open_->report.train_seconds;
    open_->report.slowest_own_s = slowest_own_s;
    close();
    return closed_.back();
}

void SwitchLog::close() {
    if (open_) {
        closed_.push_back(std::move(open_->report));
        open_.reset();
    }
}

}  // namespace cohort
