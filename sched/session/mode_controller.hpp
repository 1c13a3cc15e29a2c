#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/mode_options.hpp"
#include "cohort/sched/policy.hpp"
#include "cohort/sched/reports.hpp"

namespace cohort {

/// Where a run stands when a decision is made, or judged.
struct RunMoment {
    double seconds = 0;  ///< of training
    std::int64_t samples = 0;
    double loss = 0;  ///< of training, nats, smoothed; 0: not known
};

/// Decisions of a run: each is complete once the next one, or the end, tells what came of it. Pure.
class DecisionLog {
public:
    /// A decision. @param from, to  what was and what will be in force
    void made(DecisionRecord record, const RunMoment& now, std::string from, std::string to);
    /// How long the newest decision took. Only the first call after made() counts: later questions
    /// decided nothing.
    void took(double seconds);
    /// What follows is no longer its outcome: another one decides, or the run ends.
    void closed(const RunMoment& now);
    /// Complete ones since the last call.
    [[nodiscard]] std::vector<DecisionRecord> take() { return std::exchange(complete_, {}); }

private:
    std::optional<DecisionRecord> open_;
    double loss_ = 0;     ///< then
    bool timed_ = false;  ///< it is known how long it took
    std::vector<DecisionRecord> complete_;
};

/// Changes of a run's plan: each is complete with the first update under its plan, or once the next
/// one overtakes it. Pure.
class SwitchLog {
public:
    /// Another plan was asked for.
    void begun(std::uint64_t plan, SwitchReport report);
    /// A plan is in force. @return its change; null: a newer plan was asked for
    const SwitchReport* installed(std::uint64_t plan, double seconds);
    /// A change waits for the first update under its plan: only then updated() is to be called.
    [[nodiscard]] bool awaits_update() const noexcept { return open_ && open_->report.in_force_s; }
    /// That update was made. @return the change that is complete with it
    const SwitchReport& updated(double seconds, double slowest_own_s);
    /// Nothing more comes of the newest change.
    void close();
    /// Changes that are complete, or have been overtaken, since the last call.
    [[nodiscard]] std::vector<SwitchReport> take() { return std::exchange(closed_, {}); }

private:
    struct Open {
        std::uint64_t plan = 0;
        SwitchReport report;
    };

    std::optional<Open> open_;
    std::vector<SwitchReport> closed_;
};

/// What is to be installed next.
struct PlanChange {
    SyncPlan plan;
    std::vector<std::int64_t> batches;  ///< by worker; empty: as before
};

/// Which mode is in force, and which one comes next: from the policy of the mode in charge, from
/// `--mode-schedule`, on request. Knows a change from the request until the first update under the
/// new plan. Pure.
///
/// The newest word counts: a request holds until the next entry of the schedule is reached.
class ModeController {
public:
    /// The mode in charge is the one that was chosen for `samples` applied.
    ModeController(const ModeChoice& choice, ModeSetting setting, std::int64_t samples);

    /// The first plan, which is in force at once, with --batch samples for every worker.
    [[nodiscard]] SyncPlan start();
    /// Puts another mode in charge with the next ask(). Errors: UsageError for a mode that cannot
    /// be; nothing happens then.
    void request(const std::string& text);
    /// After an update: whether ask() has anything to look at. Constant cost.
    [[nodiscard]] bool looks(const RunCounts& counts) const;
    /// When to ask() although no update was made, seconds of training; none: not before the next
    /// one. Cost: grows with the workers.
    [[nodiscard]] std::optional<double> wake_at(const ActiveIterations& running) const;
    /// Whether ask() looks at forecasts.
    [[nodiscard]] bool wants_load() const {
        return !choice_.deterministic && policy_->wants_load();
    }
    /// What to install now, if anything. To be called after every update that looks() at something,
    /// at wake_at(), and whenever workers were lost or have joined.
    /// Errors: UsageError in a deterministic run for a plan that is not.
    [[nodiscard]] std::optional<PlanChange> ask(const Telemetry& telemetry);

    /// A plan of ask() is in force.
    void installed(const SyncPlan& plan, double seconds);
    /// An update was made: it completes the change that awaits one, if any.
    void updated(double seconds, double slowest_own_s);
    /// The run ends: nothing more comes.
    void end(const RunMoment& now);
    [[nodiscard]] SwitchLog& switches() noexcept { return switches_; }
    /// Of choosers.
    [[nodiscard]] DecisionLog& decisions() noexcept { return decisions_; }
    /// What plans achieved, measured since the last call.
    [[nodiscard]] std::vector<RateWindow> take_windows() { return policy_->take_windows(); }

    /// The mode in charge, as `--mode` writes it.
    [[nodiscard]] const std::string& mode() const noexcept { return mode_.text; }
    /// What is in force: "static:4", or "lb-bsp (ssgd)" when the plan has a name of its own.
    [[nodiscard]] const std::string& in_force() const noexcept { return label_; }
    /// Whether the mode in charge wants gradients to be measured; never in a deterministic run.
    [[nodiscard]] bool wants_gradients() const {
        return !choice_.deterministic && policy_->wants_gradients();
    }

private:
    [[nodiscard]] std::optional<Decision> next(const Telemetry& telemetry);
    [[nodiscard]] std::unique_ptr<ModePolicy> policy_of(const Mode& mode) const;
    [[nodiscard]] std::optional<Decision> take_charge(const Mode& mode, const std::string& why);
    void refresh(const Telemetry& telemetry);
    void note(Decision& decision, const Telemetry& telemetry);

    ModeSetting setting_;
    ModeChoice choice_;
    std::size_t entry_ = 0;  ///< of the schedule that counts
    Mode mode_;
    std::unique_ptr<ModePolicy> policy_;
    std::optional<Mode> requested_;
    SyncPlan plan_;                   ///< in force
    std::string label_;               ///< of it
    std::optional<SyncPlan> coming_;  ///< asked for, not in force
    std::uint64_t last_id_ = 0;
    SwitchLog switches_;
    DecisionLog decisions_;
};

}  // namespace cohort
