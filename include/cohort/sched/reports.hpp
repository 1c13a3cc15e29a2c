#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cohort/sched/update_engine.hpp"

namespace cohort {

/// Outcome of a push, or of an interrupted mini-batch.
struct PushOutcome {
    int worker = 0;
    std::int64_t samples = 0;
    double lag = 0;                        ///< reference batches; 0: no lag, or not known
    std::int64_t lag_updates = 0;          ///< updates
    double weight = 1;                     ///< weight in the update; 0: not applied
    bool over_bound = false;               ///< applied although its lag exceeded the bound
    std::optional<ReturnReason> returned;  ///< reason why it was not applied
};

/// Outcome of a push that is part of an update.
[[nodiscard]] PushOutcome outcome_of(const FiredPush& push);

/// How files and records name a ReturnReason, in its order.
inline constexpr std::array<const char*, kReturnReasons> kReturnReasonNames{
    "dropped", "non_finite", "interrupted", "lost", "void_round", "stop"};

/// Counts of one worker since the start, or since the last resume, of a run.
struct WorkerReport {
    bool live = true;             ///< never lost, or joined again
    std::int64_t samples = 0;     ///< applied
    std::int64_t pushes = 0;      ///< applied, with any weight
    std::int64_t discounted = 0;  ///< applied pushes with a weight below 1
    std::int64_t over_bound = 0;  ///< applied pushes with a lag over the bound
    std::array<std::int64_t, kReturnReasons> refused{};  ///< pushes, by ReturnReason
    double own_s = 0;                  ///< own time per --batch samples, recent mean; 0: not known
    double last_own_s = 0;             ///< newest own time
    double lag = 0;                    ///< lag of the last push, reference batches
    double lag_sum = 0;                ///< sum of lags over the applied pushes
    double lag_max = 0;                ///< largest lag of an applied push
    std::int64_t lag_updates_sum = 0;  ///< sum of lags over the applied pushes, in updates
    std::int64_t lost = 0;             ///< number of losses
};

/// A change of plan, from its request until the first update under the new plan.
struct SwitchReport {
    std::string from;
    std::string to;
    std::string why;
    std::int64_t samples = 0;  ///< applied at the request
    double train_seconds = 0;  ///< at the request
    std::optional<double>
        in_force_s;  ///< time from the request until in force; none: replaced by a newer request
    std::optional<double> first_update_s;  ///< until the first update under the new plan
    double slowest_own_s = 0;              ///< longest own time of the live workers at that time
    /// The mode stays, and regroups its workers or batches.
    [[nodiscard]] bool same_mode() const noexcept { return from == to; }
};

/// A sentence for logs: why, what, when.
[[nodiscard]] std::string describe(const SwitchReport& change);

}  // namespace cohort
