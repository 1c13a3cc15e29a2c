#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cohort/sched/update_engine.hpp"

namespace cohort {

/// What became of a push, or of a mini-batch that was interrupted.
struct PushOutcome {
    int worker = 0;
    std::int64_t samples = 0;
    double lag = 0;                        ///< reference batches; 0: none, or not known
    std::int64_t lag_updates = 0;          ///< updates
    double weight = 1;                     ///< applied with; 0 when it was not
    bool over_bound = false;               ///< applied although its lag passed the bound
    std::optional<ReturnReason> returned;  ///< why it was not applied
};

/// Of a push that is part of an update.
[[nodiscard]] PushOutcome outcome_of(const FiredPush& push);

/// How files and records name a ReturnReason, in its order.
inline constexpr std::array<const char*, kReturnReasons> kReturnReasonNames{
    "dropped", "non_finite", "interrupted", "lost", "void_round", "stop"};

/// Where every leased sample went: leased = applied + returned + outstanding.
struct SampleAccounts {
    std::int64_t leased = 0;
    std::int64_t applied = 0;
    std::int64_t returned_non_finite = 0;   ///< dropped by the NaN guard
    std::int64_t returned_void_round = 0;   ///< another member of the round was not finite
    std::int64_t returned_stop = 0;         ///< leased ahead, not needed when the run ended
    std::int64_t returned_dropped = 0;      ///< late, over the lag bound, or refused by the plan
    std::int64_t returned_interrupted = 0;  ///< given up, or revoked before it was begun
    std::int64_t returned_lost = 0;         ///< with their worker
    std::int64_t outstanding = 0;
    [[nodiscard]] std::int64_t returned() const noexcept {
        return returned_non_finite + returned_void_round + returned_stop + returned_dropped +
               returned_interrupted + returned_lost;
    }
};

/// One worker's part in this part of a run.
struct WorkerReport {
    bool live = true;             ///< not lost, or back again
    std::int64_t samples = 0;     ///< applied
    std::int64_t pushes = 0;      ///< applied, with any weight
    std::int64_t discounted = 0;  ///< of those: with a weight below 1
    std::int64_t over_bound = 0;  ///< of those: although their lag passed the bound
    std::array<std::int64_t, kReturnReasons> refused{};  ///< pushes, by ReturnReason
    double own_s = 0;  ///< its own time per --batch samples, mean of the last ones; 0: not known
    double last_own_s = 0;             ///< the newest
    double lag = 0;                    ///< of its last push, reference batches
    double lag_sum = 0;                ///< over the applied pushes
    double lag_max = 0;                ///< of them
    std::int64_t lag_updates_sum = 0;  ///< over them, in updates
    std::int64_t lost = 0;             ///< how often
};

/// A change of plan, from the moment it was asked for until the first update under the new one.
struct SwitchReport {
    std::string from;
    std::string to;
    std::string why;
    std::int64_t samples = 0;              ///< applied when it was asked for
    double train_seconds = 0;              ///< then
    std::optional<double> in_force_s;      ///< after that; none: it was overtaken by another one
    std::optional<double> first_update_s;  ///< until the first update under the new plan
    double slowest_own_s = 0;              ///< longest own time of the live workers then
    /// The same mode arranges its workers anew.
    [[nodiscard]] bool same_mode() const noexcept { return from == to; }
};

/// A sentence for logs: why, what, when.
[[nodiscard]] std::string describe(const SwitchReport& change);

}  // namespace cohort
