#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

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

/// Accounts of leased samples: leased = applied + returned + outstanding.
struct SampleAccounts {
    std::int64_t leased = 0;
    std::int64_t applied = 0;
    std::int64_t returned_non_finite = 0;   ///< dropped by the NaN guard
    std::int64_t returned_void_round = 0;   ///< round aborted: another member was not finite
    std::int64_t returned_stop = 0;         ///< leased ahead, not needed when the run ended
    std::int64_t returned_dropped = 0;      ///< late, over the lag bound, or refused by the plan
    std::int64_t returned_interrupted = 0;  ///< given up, or revoked before the start
    std::int64_t returned_lost = 0;         ///< lost with their worker
    std::int64_t outstanding = 0;
    [[nodiscard]] std::int64_t returned() const noexcept {
        return returned_non_finite + returned_void_round + returned_stop + returned_dropped +
               returned_interrupted + returned_lost;
    }
    auto fields() {
        return std::tie(leased, applied, returned_non_finite, returned_void_round, returned_stop,
                        returned_dropped, returned_interrupted, returned_lost, outstanding);
    }
};

/// Counts of one worker since the start, or since the last resume, of a run.
struct WorkerReport {
    bool live = true;             ///< never lost, or joined again
    std::int64_t samples = 0;     ///< applied
    std::int64_t pushes = 0;      ///< applied, with any weight
    std::int64_t discounted = 0;  ///< applied pushes with a weight below 1
    std::int64_t over_bound = 0;  ///< applied pushes with a lag over the bound
    std::array<std::int64_t, kReturnReasons> refused{};  ///< pushes, by ReturnReason
    /// Own time (input, compute, sending, without waiting for others) per --batch samples: recent
    /// mean by OwnTime; 0: not known.
    double own_s = 0;
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
