#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cohort/data/lease.hpp"
#include "cohort/sched/reports.hpp"
#include "sched/session/lease_order.hpp"

namespace cohort {

[[nodiscard]] inline LeaseSlice slice_of(const LeaseOrder& lease) noexcept {
    return {lease.epoch, lease.position, lease.count};
}

/// Where the accounts count samples that return for this reason.
[[nodiscard]] std::int64_t& returned_for(SampleAccounts& accounts, ReturnReason reason);

[[nodiscard]] constexpr std::size_t place_of(int worker) noexcept {
    return static_cast<std::size_t>(worker);
}

/// The leases that workers hold, and what became of all others. Pure.
class OpenLeases {
public:
    /// @param earlier  accounts of the parts of the run before this one
    OpenLeases(LeaseLedger ledger, int workers, const SampleAccounts& earlier);

    /// Gives the worker a new lease of at most so many samples; none when the ledger has no
    /// samples left to give.
    [[nodiscard]] std::optional<LeaseOrder> take(int worker, std::int64_t samples);
    /// The oldest lease of a worker that no round has claimed yet; claims it.
    [[nodiscard]] std::optional<LeaseOrder> claim(int worker);
    /// A lease that some worker holds; null for any other number.
    [[nodiscard]] LeaseOrder* find(std::uint64_t lease);
    [[nodiscard]] const LeaseOrder* find(std::uint64_t lease) const;
    /// The first lease that a worker has not pushed; null: it has pushed all of them.
    [[nodiscard]] const LeaseOrder* oldest_unpushed(int worker) const;

    /// The gradient of a lease has been received. Nothing happens when nobody holds the lease.
    void pushed(std::uint64_t lease);
    void applied(std::uint64_t lease);
    /// A lease that returns because the run stops gets its old place in the order back.
    void returned(std::uint64_t lease, ReturnReason reason);
    /// Samples of an applied lease return as lost: the update that they were in is no more.
    void undone(const LeaseSlice& slice);
    /// All leases return: the run ends.
    void return_all();

    /// Leases that a worker holds, oldest first.
    [[nodiscard]] std::vector<std::uint64_t> held_leases(int worker) const;
    [[nodiscard]] std::size_t held(int worker) const { return held_.at(place_of(worker)).size(); }
    /// Leases that a worker, or all workers together, hold and have not pushed.
    [[nodiscard]] std::size_t unpushed(int worker) const { return unpushed_.at(place_of(worker)); }
    [[nodiscard]] std::size_t unpushed() const noexcept { return all_unpushed_; }
    /// The highest number given out.
    [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }
    [[nodiscard]] const LeaseLedger& ledger() const noexcept { return ledger_; }
    /// Accounts of the whole run, and of this part of it.
    [[nodiscard]] SampleAccounts accounts() const;
    [[nodiscard]] SampleAccounts part_accounts() const;

private:
    struct Held {
        LeaseOrder order;
        bool claimed = false;
        bool pushed = false;
    };
    [[nodiscard]] Held* held_lease(std::uint64_t lease);
    Held drop(std::uint64_t lease);

    LeaseLedger ledger_;
    std::int64_t applied_before_;         ///< in earlier parts
    std::vector<std::deque<Held>> held_;  ///< by worker, oldest first
    std::vector<std::size_t> unpushed_;   ///< by worker
    std::size_t all_unpushed_ = 0;
    std::map<std::uint64_t, int> worker_of_;  ///< holder of each lease
    std::uint64_t newest_ = 0;
    SampleAccounts earlier_;
    SampleAccounts now_;  ///< returned in this part, by reason
};

/// Deals validation leases: samples whose gradient others are compared with, and which are not
/// accounted for. Workers take turns. Pure.
class ValidationSampler {
public:
    struct Dealt {
        int worker = 0;
        std::uint64_t lease = 0;
        std::uint32_t epoch = 0;
        std::int64_t position = 0;  ///< in the epoch's order
        std::int64_t count = 0;     ///< samples
    };
    /// Their numbers have this bit, which those of the lease book never reach.
    static constexpr std::uint64_t kBit = std::uint64_t{1} << 63U;

    /// @param samples of an epoch  @param batch of a lease; less when the epoch has fewer
    ValidationSampler(std::uint64_t seed, std::int64_t samples, std::int64_t batch);

    /// Another plan: a lease is due at once when it validates.
    /// @param every so many updates (SyncPlan::validate_every); 0: never
    void set_every(int every) noexcept;
    /// An update was made, or a push was refused: were only updates counted, a reference that has
    /// everything refused would stay for ever.
    void decided() noexcept { ++decisions_; }
    [[nodiscard]] bool due() const noexcept { return every_ > 0 && decisions_ >= every_; }
    /// A lease, when one is due and somebody may do it.
    /// @param may by worker  @param epoch whose order the samples are drawn from
    [[nodiscard]] std::optional<Dealt> deal(const std::vector<bool>& may, std::uint32_t epoch);

private:
    std::uint64_t seed_;
    std::int64_t samples_;
    std::int64_t batch_;
    int every_ = 0;
    std::int64_t decisions_ = 0;  ///< since the last one was due
    std::uint64_t dealt_ = 0;
    std::size_t turn_ = 0;  ///< worker
};

/// Decides how many samples a worker's next lease has, and how many leases it holds. Leases are
/// dealt in turns by worker index, so that with equal progress (synchronous modes) the k-th lease
/// goes to worker k mod N whatever the timing. Pure.
class LeaseDispatcher {
public:
    struct Options {
        int workers = 1;
        std::int64_t batch = 1;   ///< samples of a lease
        int ahead = 1;            ///< leases that a worker holds at a time, >= 1
        bool share_tail = false;  ///< fewer at the end, so that no slow worker keeps the last ones
    };
    /// @param limit of the ledger, samples  @param earlier accounts of the parts before this one
    LeaseDispatcher(LeaseLedger ledger, std::int64_t limit, const Options& options,
                    const SampleAccounts& earlier);

    /// Deals until every worker holds `ahead` leases (or its share of what is left) or the ledger
    /// has none to give.
    [[nodiscard]] std::vector<DealtLease> top_up();
    /// One lease for one worker. It has the size that leases had when a worker which holds `ahead`
    /// leases would have received it. None: the ledger has none to give.
    [[nodiscard]] std::optional<LeaseOrder> deal_one(int worker);

    /// Samples of a worker's leases from now on, by worker; multiples of nothing in particular.
    void set_batches(const std::vector<std::int64_t>& batches);
    /// The next lease of a worker has this many samples (it was interrupted too often), once.
    void shorten_next(int worker, std::int64_t samples) {
        sizes_.at(index(worker)).assign(1, samples);
    }
    /// deal_one() forgets the sizes of leases to come that were fixed before.
    void resize_next(int worker) { sizes_.at(index(worker)).clear(); }
    /// Leases ahead of their use, and whether fewer at the end, from now on (see Options).
    void set_ahead(int ahead, bool share_tail);
    /// A worker that is not live gets none.
    void set_live(int worker, bool live) { live_.at(index(worker)) = live; }

    [[nodiscard]] OpenLeases& open() noexcept { return open_; }
    [[nodiscard]] const OpenLeases& open() const noexcept { return open_; }

private:
    [[nodiscard]] std::size_t ahead_now() const;
    [[nodiscard]] static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }

    OpenLeases open_;
    std::int64_t limit_;
    Options options_;
    std::vector<std::int64_t> batches_;            ///< by worker
    std::vector<std::deque<std::int64_t>> sizes_;  ///< by worker: of the next leases, where fixed
    std::vector<bool> live_;                       ///< by worker
};

}  // namespace cohort
