#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace cohort {

/// A push, over the whole life of a job.
struct PushId {
    std::int32_t worker = 0;        ///< worker index
    std::uint32_t incarnation = 0;  ///< how often the worker was lost and joined again
    std::uint64_t sequence = 0;     ///< number of the push within the incarnation, from 1
    friend auto operator<=>(const PushId&, const PushId&) = default;

    auto fields() { return std::tie(worker, incarnation, sequence); }
};

/// What a worker computes between two pushes.
enum class Work : std::uint8_t {
    kGradient,  ///< mean gradient of one batch
    kDelta      ///< change of its parameters over some local steps
};

/// What a worker tells the coordinator of a push, sent beside it.
struct PushTicket {
    PushId id;
    std::uint64_t lease = 0;   ///< id of the lease that the push was computed on
    std::int64_t version = 0;  ///< version of the parameters that it was computed on
    std::int64_t samples = 0;  ///< b_p > 0
    bool finite = true;        ///< false: loss or gradient hold NaN or infinity
    double loss_sum = 0;       ///< nats, over the samples
    double correct = 0;        ///< samples that were classified correctly
    double gradient_norm = 0;  ///< norm of the mean gradient
    Work work = Work::kGradient;
    double reference_dot = 0;   ///< product with the reference gradient of SyncPlan::validate_every
    double reference_norm = 0;  ///< norm of the reference gradient; 0: there is none yet

    auto fields() {
        return std::tie(id, lease, version, samples, finite, loss_sum, correct, gradient_norm, work,
                        reference_dot, reference_norm);
    }
};

/// A push that is part of an update.
struct FiredPush {
    PushTicket ticket;
    double lag = 0;                ///< reference batches applied since ticket.version
    std::int64_t lag_updates = 0;  ///< updates since ticket.version
    double weight = 1;             ///< w_p
    bool over_bound = false;       ///< its lag exceeds the bound of the plan's lag rule
};

/// The pushes of an update, before their weights are known.
struct FiringSet {
    std::int64_t version = 0;                        ///< after this update
    std::int64_t reference_batch = 0;                ///< B
    int workers = 0;                                 ///< live workers, N
    int quorum = 0;                                  ///< quorum of the cohort
    double reference_batches = 0;                    ///< applied before this update
    double fraction = 0;                             ///< f of this update
    const std::vector<FiredPush>* pushes = nullptr;  ///< in order of arrival
};

/// Workers whose pushes are applied together, and the rule by which their pushes fire.
struct CohortSpec {
    enum class Count : std::uint8_t { kWorkers, kPushes };
    std::vector<int> members;  ///< worker indices
    std::vector<int> riders;   ///< their pushes join the next fire, nobody waits for them
    int quorum = 1;
    Count count = Count::kWorkers;  ///< kPushes: a worker's second push counts too
    bool fresh_only = false;  ///< only pushes computed on the version of the cohort's last fire, or
                              ///< on a newer version, count
};

/// A mode: data for the UpdateEngine, see docs/modes.md. Every live worker is a member or a rider
/// of exactly one cohort.
struct SyncPlan {
    enum class Late : std::uint8_t {
        kMerge,  ///< a late push joins the next fire
        kDrop,   ///< a late push is refused
        kAlone   ///< a late push is an update of its own at once
    };
    enum class Others : std::uint8_t { kContinue, kInterrupt };
    enum class Release : std::uint8_t { kOnFire, kOnArrival };
    enum class LagAction : std::uint8_t { kRefresh, kDrop, kDiscount };
    enum class LrUnit : std::uint8_t {
        kPerSample,  ///< f = sum of b / B
        kPublished,  ///< f = sum of b / published_unit
        kAdaScale    ///< gain f (phi + B) / (phi + f B) instead of f; phi: see set_noise_scale
    };

    struct LagRule {
        double bound = 0;  ///< D, reference batches; a push with more lag is over the bound
        LagAction action = LagAction::kRefresh;
    };

    std::uint64_t id = 0;
    std::string name;  ///< as `--mode` writes it
    std::vector<CohortSpec> cohorts;

    Late late = Late::kMerge;        ///< treatment of a push whose cohort fired since its version
    std::optional<int> late_rounds;  ///< kMerge: a push late by more fires is dropped
    Others others = Others::kContinue;   ///< what members without a push in the fire do
    Release release = Release::kOnFire;  ///< when a worker may start again after its push
    int window = 1;                      ///< kOnArrival: pushes that a worker may have pending
    std::optional<LagRule> lag_rule;
    std::optional<std::int64_t>
        clock_bound;  ///< gate: pushes that a worker may be ahead of the slowest

    /// w_p of a push; none: 1.
    std::function<double(const FiredPush& push, const FiringSet& set)> weight;
    /// The plan's own acceptance test; none: accepted.
    std::function<bool(const PushTicket& ticket)> accept;
    /// Number of updates between reference gradients, which a worker computes on samples that are
    /// not applied and with which the servers compare pushes (PushTicket::reference_dot). 0: none.
    int validate_every = 0;
    double delay_compensation = 0;  ///< lambda of g + lambda g g (theta - theta_released); 0: none

    Work work = Work::kGradient;
    int local_steps = 1;  ///< between two pushes
    int group = 1;        ///< workers that average every step

    double lr_scale = 1;  ///< of the run's learning rate, in kLrScaleLimits
    LrUnit lr_unit = LrUnit::kPerSample;
    std::int64_t published_unit = 0;  ///< kPublished: samples of one published step
    bool look_ahead = false;          ///< release parameters extrapolated by the worker's lag
    /// True: when the plan is installed, leases of another size that have not been started are
    /// returned, as always in rings. False: workers use them up first.
    bool fresh_leases = false;
};

/// Checks memberships and ranges for workers 0..n-1, of which those in `live` are live (empty:
/// all). Workers that are not live may be left out of the plan. Errors: UsageError naming what is
/// wrong.
void check_plan(const SyncPlan& plan, int workers, const std::vector<bool>& live = {});

}  // namespace cohort
