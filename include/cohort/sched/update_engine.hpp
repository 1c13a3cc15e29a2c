#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// Why the samples of a lease were returned without having been applied.
enum class ReturnReason : std::uint8_t {
    kDropped,
    kNonFinite,
    kInterrupted,
    kLost,
    kVoidRound,
    kStop
};
inline constexpr std::size_t kReturnReasons = 6;

/// One update: the pushes to sum with their weights, and the workers that get the result.
struct Fire {
    struct Release {
        int worker = 0;
        double lag = 0;  ///< lag of the worker's last push as a sum of f, for the look-ahead; 0
                         ///< without look-ahead
    };
    std::int64_t version = 0;       ///< V after the update
    std::int64_t samples = 0;       ///< sum of b_p
    double fraction = 0;            ///< f, size of the update in reference batches
    double lr_scale = 1;            ///< lr_scale of the plan that the update is made under
    Work work = Work::kGradient;    ///< work of all its pushes
    std::vector<FiredPush> pushes;  ///< in order of arrival
    std::vector<Release> releases;  ///< workers that may start on version V, in order of arrival
};
/// A worker may start on parameters of the current version without a fire: it joined, its push was
/// refused, the plan releases on arrival, or its gate opened.
struct ReleaseOne {
    int worker = 0;
    std::int64_t version = 0;
    double lag = 0;  ///< as in Fire::Release
};
/// A push is not used, and its worker is informed. A ReturnLease for its lease follows, unless the
/// lease was returned before (the push was in flight when its worker was interrupted or lost); when
/// the worker may start again, a ReleaseOne follows too.
struct Refuse {
    PushId push;
    ReturnReason reason = ReturnReason::kDropped;
    double lag = 0;  ///< reference batches, when the plan's tests refused the push; else 0
};
/// A worker should give up its present mini-batch and start on its next lease; the ReturnLease that
/// follows returns the lease of the mini-batch.
struct Interrupt {
    int worker = 0;
    std::int64_t version = 0;  ///< version of the parameters with which the worker starts again
    double lag = 0;            ///< as in Fire::Release
    double behind = 0;         ///< reference batches applied since the worker was released
};
struct ReturnLease {
    std::uint64_t lease = 0;
    std::int64_t samples = 0;
    int worker = 0;
    ReturnReason reason = ReturnReason::kDropped;
};
using Effect = std::variant<Fire, ReleaseOne, Refuse, Interrupt, ReturnLease>;

/// The lease that is returned for effects[interrupt], an Interrupt; null: its worker had no lease.
/// That ReturnLease is the next effect and must be carried out, too.
[[nodiscard]] const ReturnLease* lease_given_up(const std::vector<Effect>& effects,
                                                std::size_t interrupt) noexcept;

struct EngineOptions {
    int workers = 1;
    std::int64_t reference_batch = 1;  ///< B, samples
    std::int64_t version = 0;          ///< version to continue from
    double reference_batches = 0;      ///< applied so far
};

/// Accounts of the leased samples: leased = applied + sum of returned + outstanding.
struct EngineAccounts {
    std::int64_t leased = 0;
    std::int64_t applied = 0;      ///< with any weight
    std::int64_t discounted = 0;   ///< applied with a weight below 1
    std::int64_t over_bound = 0;   ///< applied with a lag over the lag rule's bound
    std::int64_t outstanding = 0;  ///< leased and not pushed, or pushed and pending
    std::array<std::int64_t, kReturnReasons> returned{};  ///< by ReturnReason

    [[nodiscard]] std::int64_t returned_for(ReturnReason reason) const noexcept {
        return returned[static_cast<std::size_t>(reason)];
    }
};

/// The only interpreter of plans. Pure: takes events and returns effects, in the order in which
/// they must be carried out; no clock, threads or MPI. Not thread safe. Every worker starts live,
/// released with options.version, and idle until leased(). Rules and terms: docs/modes.md.
///
/// Cohorts wait for every worker that is neither idle nor lost, so the caller must soon give each
/// released worker a lease, or call idle().
class UpdateEngine {
public:
    /// Errors: UsageError when the plan does not fit.
    UpdateEngine(const EngineOptions& options, SyncPlan plan);
    ~UpdateEngine();
    UpdateEngine(UpdateEngine&&) noexcept;
    UpdateEngine& operator=(UpdateEngine&&) noexcept;

    /// A worker has been given a lease of `samples` > 0 under a new id, so it is not idle. A worker
    /// computes its leases in this order.
    void leased(int worker, std::uint64_t lease, std::int64_t samples);
    /// A push is complete: its ticket has been received and its payload is staged on all servers.
    /// It is refused when its lease is no lease of the worker (it was returned), or when its
    /// incarnation is over. Errors: std::logic_error for an inconsistent ticket: a version that the
    /// worker never had, or a number of samples that differs from its lease.
    [[nodiscard]] std::vector<Effect> push(const PushTicket& ticket);
    /// The same, appending to `effects`.
    void push(const PushTicket& ticket, std::vector<Effect>& effects);
    /// A worker gets no further lease for now: once it has pushed the leases it has, nobody waits
    /// for it.
    [[nodiscard]] std::vector<Effect> idle(int worker);
    /// An idle worker will get leases again, and cohorts wait for it. It starts on the parameters
    /// that it was released with last; they may be old by now, and its push then has a lag.
    [[nodiscard]] std::vector<Effect> resumed(int worker);
    /// A worker is dead, frozen or starved: its leases without a push are returned, its complete
    /// pushes stay. Nothing happens when the worker is lost already. @param gone  pending pushes
    /// whose payloads are lost with the worker: refused before anything fires
    [[nodiscard]] std::vector<Effect> lost(int worker, const std::vector<PushId>& gone = {});
    /// A sign of life of a lost worker: a new incarnation, released with the current version, idle
    /// until leased(). A plan without a place for it makes it a rider of its first cohort.
    [[nodiscard]] std::vector<Effect> joined(int worker);
    /// Installs another plan behind a fence. Errors: UsageError when the plan does not fit; the old
    /// plan then stays in force.
    [[nodiscard]] std::vector<Effect> install(SyncPlan plan);
    /// Returns a worker's leases without a push (stop, aborted round). @param begun  false: keeps
    /// the lease that the worker computes on, or starts on with the parameters that it was released
    /// with
    [[nodiscard]] std::vector<Effect> take_back(int worker, ReturnReason reason, bool begun = true);
    /// kAdaScale: sets phi, the noise scale of the gradient in samples. While phi is 0, as at the
    /// start, the gain of an update is its f.
    void set_noise_scale(double phi);
    /// The end of a run: refuses pending pushes, returns all leases, all workers are idle.
    [[nodiscard]] std::vector<Effect> stop();

    [[nodiscard]] std::int64_t version() const noexcept;
    [[nodiscard]] double reference_batches() const noexcept;
    /// Reference batches applied since a version; for a version that no worker can compute on any
    /// more, since the oldest version that a worker can compute on.
    [[nodiscard]] double lag_of(std::int64_t version) const noexcept;
    [[nodiscard]] const SyncPlan& plan() const noexcept;
    [[nodiscard]] bool live(int worker) const;
    [[nodiscard]] std::uint32_t incarnation(int worker) const;
    /// After two interruptions or refusals in a row for its lag a worker should get a shorter
    /// lease: its next push is admitted, whatever its lag.
    [[nodiscard]] bool needs_short_lease(int worker) const;
    [[nodiscard]] EngineAccounts accounts() const noexcept;
    /// Pushes that wait for their cohort to fire.
    [[nodiscard]] std::int64_t pending() const noexcept;
    /// Workers whose pushes the cohorts with pending pushes wait for.
    [[nodiscard]] std::vector<int> awaited() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
