#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// Why the samples of a lease came back without having been applied.
enum class ReturnReason : std::uint8_t {
    kDropped,
    kNonFinite,
    kInterrupted,
    kLost,
    kVoidRound,
    kStop
};
inline constexpr std::size_t kReturnReasons = 6;

/// One update: what to sum with which weights, and who gets the result.
struct Fire {
    struct Release {
        int worker = 0;
        double lag = 0;  ///< of its last push, as a sum of f: for the look-ahead; else 0
    };
    std::int64_t version = 0;       ///< V after the update
    std::int64_t samples = 0;       ///< sum of b_p
    double fraction = 0;            ///< f, what the update is worth in reference batches
    double lr_scale = 1;            ///< of the plan that the update is made under
    Work work = Work::kGradient;    ///< of all its pushes
    std::vector<FiredPush> pushes;  ///< in order of arrival
    std::vector<Release> releases;  ///< may start on version V, in order of arrival
};
/// A worker may start on parameters of the current version without a fire: it joined, its push was
/// refused, its plan releases on arrival, its gate opened.
struct ReleaseOne {
    int worker = 0;
    std::int64_t version = 0;
    double lag = 0;  ///< as in Fire::Release
};
/// A push is not used. The worker is told. A ReturnLease for its lease follows, unless the lease
/// had come back before (the push was on its way when its worker was interrupted or lost); when
/// the worker may start again, a ReleaseOne follows too.
struct Refuse {
    PushId push;
    ReturnReason reason = ReturnReason::kDropped;
    double lag = 0;  ///< reference batches, when the plan's tests refused it; else 0
};
/// A worker should give up the mini-batch it computes and start on its next lease; the lease of
/// the one it gives up comes back by the ReturnLease that follows.
struct Interrupt {
    int worker = 0;
    std::int64_t version = 0;  ///< starts again with these parameters
    double lag = 0;            ///< as in Fire::Release
    double behind = 0;         ///< reference batches applied since it was released
};
struct ReturnLease {
    std::uint64_t lease = 0;
    std::int64_t samples = 0;
    int worker = 0;
    ReturnReason reason = ReturnReason::kDropped;
};
using Effect = std::variant<Fire, ReleaseOne, Refuse, Interrupt, ReturnLease>;

/// The lease that comes back for effects[interrupt], an Interrupt; null: its worker had none. It is
/// the next effect then, which is to be carried out, too.
[[nodiscard]] const ReturnLease* lease_given_up(const std::vector<Effect>& effects,
                                                std::size_t interrupt) noexcept;

struct EngineOptions {
    int workers = 1;
    std::int64_t reference_batch = 1;  ///< B, samples
    std::int64_t version = 0;          ///< to go on from
    double reference_batches = 0;      ///< applied so far
};

/// What became of the samples that were leased:
/// leased = applied + sum of returned + outstanding.
struct EngineAccounts {
    std::int64_t leased = 0;
    std::int64_t applied = 0;      ///< with any weight
    std::int64_t discounted = 0;   ///< of those: with a weight below 1
    std::int64_t over_bound = 0;   ///< of those applied: lag beyond the lag rule's bound
    std::int64_t outstanding = 0;  ///< leased and not pushed, or pushed and pending
    std::array<std::int64_t, kReturnReasons> returned{};  ///< by ReturnReason

    [[nodiscard]] std::int64_t returned_for(ReturnReason reason) const noexcept {
        return returned[static_cast<std::size_t>(reason)];
    }
};

/// The only interpreter of plans. Pure: events in, effects out, in the order in which they are to
/// be carried out; no clock, threads or MPI. Not thread safe. Every worker starts live, released
/// with options.version, and idle until leased(). Rules and terms: docs/modes.md.
///
/// A worker that is neither idle nor lost is waited for: whoever calls this gives each worker that
/// is released a lease soon, or says idle().
class UpdateEngine {
public:
    /// Errors: UsageError when the plan does not fit.
    UpdateEngine(const EngineOptions& options, SyncPlan plan);
    ~UpdateEngine();
    UpdateEngine(UpdateEngine&&) noexcept;
    UpdateEngine& operator=(UpdateEngine&&) noexcept;

    /// A worker has been given a lease of `samples` > 0 under a new id: it is not idle. Leases
    /// queue up and are worked on in this order.
    void leased(int worker, std::uint64_t lease, std::int64_t samples);
    /// A push is complete: ticket here, payload staged everywhere. When its lease is not one of
    /// the worker's (it came back), or its incarnation is over, it is refused. Errors:
    /// std::logic_error for a ticket that contradicts itself: a version that the worker never had,
    /// other samples than its lease.
    [[nodiscard]] std::vector<Effect> push(const PushTicket& ticket);
    /// The same, appending to `effects`.
    void push(const PushTicket& ticket, std::vector<Effect>& effects);
    /// A worker gets no lease for now: once it has pushed those it has, nobody waits for it.
    [[nodiscard]] std::vector<Effect> idle(int worker);
    /// It will have one again, and is waited for. It starts on the parameters that it was released
    /// with last, which may be old by now: its push says so.
    [[nodiscard]] std::vector<Effect> resumed(int worker);
    /// Dead, frozen or starved: its unpushed leases return, complete pushes stay. Nothing happens
    /// when it is lost already.
    /// @param gone  pending pushes whose payloads are lost with it: refused before anything fires
    [[nodiscard]] std::vector<Effect> lost(int worker, const std::vector<PushId>& gone = {});
    /// A sign of life of a lost worker: a new incarnation, released with the current version, idle
    /// until leased(). A plan without a place for it makes it a rider of its first cohort.
    [[nodiscard]] std::vector<Effect> joined(int worker);
    /// Installs another plan behind a fence. Errors: UsageError when it does not fit; then the old
    /// one stays.
    [[nodiscard]] std::vector<Effect> install(SyncPlan plan);
    /// Takes a worker's unpushed leases back (stop, void round).
    /// @param begun  false: all but the one that it computes on, or starts on with the parameters
    ///               that it was released with
    [[nodiscard]] std::vector<Effect> take_back(int worker, ReturnReason reason, bool begun = true);
    /// kAdaScale: phi, the noise scale of the gradient in samples. Without one (0, the start) the
    /// gain of an update is its f.
    void set_noise_scale(double phi);
    /// The end: refuses what is pending, takes all leases back, all workers are idle.
    [[nodiscard]] std::vector<Effect> stop();

    [[nodiscard]] std::int64_t version() const noexcept;
    [[nodiscard]] double reference_batches() const noexcept;
    /// Reference batches applied since a version; for one that nobody can compute on any more,
    /// since the oldest that somebody can.
    [[nodiscard]] double lag_of(std::int64_t version) const noexcept;
    [[nodiscard]] const SyncPlan& plan() const noexcept;
    [[nodiscard]] bool live(int worker) const;
    [[nodiscard]] std::uint32_t incarnation(int worker) const;
    /// After two interruptions or refusals in a row for its lag a worker should get a lease that
    /// fits: its next push is admitted, whatever its lag.
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
