#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// A push, over the whole life of a job.
struct PushId {
    std::int32_t worker = 0;        ///< worker index
    std::uint32_t incarnation = 0;  ///< counts how often the worker was lost and came back
    std::uint64_t sequence = 0;     ///< of the push within the incarnation, from 1
    friend auto operator<=>(const PushId&, const PushId&) = default;

    template <class Io>
    void fields(Io& io) {
        io(worker, incarnation, sequence);
    }
};

/// What a worker computes between two pushes.
enum class Work : std::uint8_t {
    kGradient,  ///< mean gradient of one batch
    kDelta      ///< change of its parameters over some local steps
};

/// What a push's ticket says.
struct PushTicket {
    PushId id;
    std::uint64_t lease = 0;   ///< id of the lease it was computed on
    std::int64_t version = 0;  ///< of the parameters it was computed on
    std::int64_t samples = 0;  ///< b_p > 0
    bool finite = true;        ///< false: loss or gradient hold NaN or infinity
    double loss_sum = 0;       ///< nats, over the samples
    double gradient_norm = 0;  ///< of the mean gradient
    Work work = Work::kGradient;
    double reference_dot = 0;   ///< with the reference gradient of SyncPlan::validate_every
    double reference_norm = 0;  ///< of that gradient; 0: there is none yet
};

/// A push as a firing set sees it.
struct FiredPush {
    PushTicket ticket;
    double lag = 0;                ///< reference batches applied since ticket.version
    std::int64_t lag_updates = 0;  ///< updates since ticket.version
    double weight = 1;             ///< w_p
    bool over_bound = false;       ///< lag passes the bound of the plan's lag rule
};

/// A set that fires, before its weights are known.
struct FiringSet {
    std::int64_t version = 0;                        ///< after this update
    std::int64_t reference_batch = 0;                ///< B
    int workers = 0;                                 ///< live ones, N
    int quorum = 0;                                  ///< of the cohort
    double reference_batches = 0;                    ///< applied before this update
    double fraction = 0;                             ///< f of this update
    const std::vector<FiredPush>* pushes = nullptr;  ///< in order of arrival
};

/// Who waits for whom.
struct CohortSpec {
    enum class Count : std::uint8_t { kWorkers, kPushes };
    std::vector<int> members;  ///< worker indices
    std::vector<int> riders;   ///< theirs join when they arrive, nobody waits for them
    int quorum = 1;
    Count count = Count::kWorkers;  ///< kPushes: a worker's second push counts too
    bool fresh_only = false;  ///< only pushes computed on the version of its last fire or a newer
                              ///< one count
};

/// A mode: data for the UpdateEngine, see docs/modes.md. Every live worker is a member or a rider
/// of exactly one cohort.
struct SyncPlan {
    enum class Late : std::uint8_t {
        kMerge,  ///< it joins the next round
        kDrop,   ///< it is refused
        kAlone   ///< it is an update of its own at once
    };
    enum class Others : std::uint8_t { kContinue, kInterrupt };
    enum class Release : std::uint8_t { kOnFire, kOnArrival };
    enum class LagAction : std::uint8_t { kRefresh, kDrop, kDiscount };
    using Work = cohort::Work;
    enum class LrUnit : std::uint8_t {
        kPerSample,  ///< f = sum of b / B
        kPublished,  ///< f = sum of b / published_unit
        kAdaScale    ///< gain f (phi + B) / (phi + f B) in place of f, phi: see set_noise_scale
    };

    struct LagRule {
        double bound = 0;  ///< D, reference batches; a push with more lag is over the bound
        LagAction action = LagAction::kRefresh;
    };

    std::uint64_t id = 0;
    std::string name;  ///< as `--mode` writes it
    std::vector<CohortSpec> cohorts;

    Late late = Late::kMerge;            ///< a push whose cohort fired since its version
    std::optional<int> late_rounds;      ///< kMerge: later than by this many fires it is dropped
    Others others = Others::kContinue;   ///< what the others of a cohort do when it fires
    Release release = Release::kOnFire;  ///< when a pusher may start again
    int window = 1;                      ///< kOnArrival: pushes a worker may have outstanding
    std::optional<LagRule> lag_rule;
    std::optional<std::int64_t> clock_bound;  ///< gate: a worker at most this far ahead of the last

    /// w_p of a push; none: 1.
    std::function<double(const FiredPush& push, const FiringSet& set)> weight;
    /// The plan's own acceptance test; none: accepted.
    std::function<bool(const PushTicket& ticket)> accept;
    /// Every so many updates a worker computes a gradient on samples that are not applied; the
    /// servers compare pushes with it (PushTicket::reference_dot). 0: never.
    int validate_every = 0;
    double delay_compensation = 0;  ///< lambda of g + lambda g g (theta - theta_released); 0: none

    Work work = Work::kGradient;
    int local_steps = 1;  ///< between two pushes
    int group = 1;        ///< workers that average every step

    LrUnit lr_unit = LrUnit::kPerSample;
    std::int64_t published_unit = 0;  ///< kPublished: samples of one published step
    bool look_ahead = false;          ///< release the parameters of after the worker's lag
    /// When it is installed, leases of another size than workers now get that nobody has begun
    /// come back, as they always do in rings; else they are used up first.
    bool fresh_leases = false;
};

/// Checks the rule of membership and ranges for workers 0..n-1, `live` of them (all when empty).
/// Workers that are not live may be left out. Errors: UsageError naming what is wrong.
void check_plan(const SyncPlan& plan, int workers, const std::vector<bool>& live = {});

}  // namespace cohort
