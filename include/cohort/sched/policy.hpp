#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/chooser.hpp"
#include "cohort/sched/load_desk.hpp"
#include "cohort/sched/modes.hpp"
#include "cohort/sched/plan.hpp"
#include "cohort/sched/rate_regressor.hpp"
#include "cohort/sched/reports.hpp"

namespace cohort {

/// What is known of one worker.
struct WorkerTelemetry {
    bool live = true;
    double own_seconds = 0;  ///< EWMA of its own time (input, compute, sending) per `batch` samples
                             ///< of the run, without waiting for others; 0: not known
    double last_seconds = 0;   ///< the newest of these
    std::int64_t pushes = 0;   ///< accepted
    std::int64_t samples = 0;  ///< applied
    double lag = 0;            ///< of its last push, reference batches
    double since_push_s = 0;   ///< time since its last push arrived
};

/// What the coordinator knows when it asks for the next plan.
struct Telemetry {
    double seconds = 0;  ///< of training
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;
    std::int64_t updates = 0;
    std::vector<WorkerTelemetry> workers;
    const LoadView* load = nullptr;  ///< null in a deterministic run
};

/// The same in numbers that cost nothing to know.
struct RunCounts {
    std::int64_t updates = 0;
    std::int64_t pushes = 0;  ///< accepted, of all workers
    std::int64_t samples_applied = 0;
    std::int64_t budget_samples = 0;
};

/// What to change; nothing, mostly.
struct Decision {
    std::optional<SyncPlan> plan;
    std::vector<std::int64_t> batches;          ///< samples of a lease, by worker; empty: as before
    std::string reason;                         ///< one line for the log, when something changes
    std::optional<DecisionRecord> record = {};  ///< of choosers, when there is something to tell
};

/// Turns telemetry into "next plan and batch sizes". Pure: no clock, no threads. One object per
/// `--mode`; a plain mode is a policy that only reacts to workers that leave or come.
class ModePolicy {
public:
    ModePolicy() = default;
    ModePolicy(const ModePolicy&) = delete;
    ModePolicy& operator=(const ModePolicy&) = delete;
    virtual ~ModePolicy() = default;

    /// The first plan, with batches of ModeSetting::batch. To be called once, before decide().
    [[nodiscard]] virtual Decision start() = 0;
    /// Asked after every update that looks() at something, at wake_at(), and whenever a worker was
    /// lost or has joined; must be cheap.
    [[nodiscard]] virtual Decision decide(const Telemetry& telemetry) = 0;
    /// False: decide() would change nothing now and needs no telemetry, unless workers left or
    /// came. Constant cost.
    [[nodiscard]] virtual bool looks(const RunCounts& /*counts*/) const { return true; }
    /// When decide() is to be asked although no update is made, seconds of training; none: not
    /// before the next one. What it answers holds until a worker begins an iteration or ends one,
    /// and once decide() was asked at that time it lies later.
    [[nodiscard]] virtual std::optional<double> wake_at(
        const RunningIterations& /*running*/) const {
        return std::nullopt;
    }
    /// Whether decide() looks at forecasts (Telemetry::load): only then are some made.
    [[nodiscard]] virtual bool wants_load() const { return false; }
    /// Whether LoadView::gradients are to be measured for it.
    [[nodiscard]] virtual bool wants_gradients() const { return false; }
    /// A change of this policy is complete: what it cost.
    virtual void switched(const SwitchReport& /*report*/) {}
    /// What plans achieved, measured since the last call; of policies that measure it.
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

/// Exponentially weighted mean of a worker's own times: each new one counts a fifth, the first as
/// it is; after a jump by more than half in either direction three times in a row it starts anew.
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
