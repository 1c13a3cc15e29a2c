#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/load_view.hpp"
#include "cohort/sched/modes.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "cohort/sched/reports.hpp"

namespace cohort {

/// State of the run, as given to a policy that decides on the next plan.
struct Telemetry {
    double seconds = 0;  ///< of training
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;
    std::int64_t updates = 0;
    std::vector<WorkerReport> workers;
    const LoadView* load = nullptr;  ///< null in a deterministic run
};

/// The part of Telemetry that costs nothing to collect.
struct RunCounts {
    std::int64_t updates = 0;
    std::int64_t pushes = 0;  ///< accepted, of all workers
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;
};

/// What a policy changes; usually nothing.
struct Decision {
    std::optional<SyncPlan> plan;
    std::vector<std::int64_t> batches;          ///< samples of a lease, by worker; empty: as before
    std::string reason;                         ///< one line for the log, when something changes
    std::optional<DecisionRecord> record = {};  ///< of choosers, when there is a decision to record
};

/// Turns telemetry into "next plan and batch sizes". Pure: no clock, no threads. One object per
/// `--mode`; a plain mode is a policy that only reacts to workers that are lost or join.
class ModePolicy {
public:
    ModePolicy() = default;
    ModePolicy(const ModePolicy&) = delete;
    ModePolicy& operator=(const ModePolicy&) = delete;
    virtual ~ModePolicy() = default;

    /// The first plan, with batches of ModeSetting::batch. To be called once, before decide().
    [[nodiscard]] virtual Decision start() = 0;
    /// Called after every update for which looks() is true, at wake_at(), and whenever a worker was
    /// lost or has joined; must be cheap.
    [[nodiscard]] virtual Decision decide(const Telemetry& telemetry) = 0;
    /// False: decide() would change nothing now and needs no telemetry, unless workers were lost or
    /// joined. Constant cost.
    [[nodiscard]] virtual bool looks(const RunCounts& /*counts*/) const { return true; }
    /// When decide() is to be asked although no update is made, seconds of training; none: not
    /// before the next one. What it answers holds until a worker begins an iteration or ends one,
    /// and once decide() was asked at that time it lies later.
    [[nodiscard]] virtual std::optional<double> wake_at(const ActiveIterations& /*running*/) const {
        return std::nullopt;
    }
    /// Whether decide() uses forecasts (Telemetry::load): only then forecasts are made.
    [[nodiscard]] virtual bool wants_load() const { return false; }
    /// Whether the policy needs LoadView::gradients to be measured.
    [[nodiscard]] virtual bool wants_gradients() const { return false; }
    /// A change made by this policy is complete; the report has its cost.
    virtual void switched(const SwitchReport& /*report*/) {}
    /// Rates that plans achieved, measured since the last call; only of policies that measure them.
    [[nodiscard]] virtual std::vector<RateWindow> take_windows() { return {}; }
};

/// The policy of a mode: every one of make_plan, and "lb-bsp", "sync-switch:SHARE", "flexrr",
/// "cutoff", "dynamic", "ring:x", which change plans or batches as times change.
/// With ChooserOptions::record_rates any of them measures what its plans achieve.
/// @param setting  own_seconds may be empty. Errors: FileError for weights that are none.
[[nodiscard]] std::unique_ptr<ModePolicy> make_policy(const Mode& mode, const ModeSetting& setting);
/// The same of a mode's text. Errors: UsageError too, as parse_mode.
[[nodiscard]] std::unique_ptr<ModePolicy> make_policy(std::string_view mode,
                                                      const ModeSetting& setting);

/// Plans that a mode begins with and, as far as progress decides, ends with: for checks before a
/// run.
[[nodiscard]] std::vector<SyncPlan> plans_of_mode(const Mode& mode, const ModeSetting& setting);

/// Exponentially weighted mean of a worker's own times: each new time counts a fifth, the first
/// fully; after three jumps in a row by more than half in one direction the mean restarts.
class OwnTime {
public:
    void add(double seconds);
    [[nodiscard]] double seconds() const noexcept { return mean_; }
    [[nodiscard]] double last() const noexcept { return last_; }

private:
    double mean_ = 0;
    double last_ = 0;
    int jumps_ = 0;
};

}  // namespace cohort
