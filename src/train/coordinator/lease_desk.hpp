#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "cohort/data/lease.hpp"
#include "cohort/sched/update_engine.hpp"
#include "cohort/train/events.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Deals the leases of a run to its workers, some ahead of their use, and keeps the accounts.
/// Leases are dealt in turns by worker index, so that with equal progress (synchronous modes) the
/// k-th lease goes to worker k mod N whatever the timing. Pure.
class LeaseDesk {
public:
    struct Dealt {
        int worker = 0;
        LeaseOrder order;
    };

    struct Options {
        int workers = 1;
        std::int64_t batch = 1;   ///< samples of a lease
        int ahead = 1;            ///< leases that a worker holds at a time, >= 1
        bool share_tail = false;  ///< fewer at the end, so that no slow worker keeps the last ones
    };
    /// @param limit of the book, samples  @param earlier accounts of the parts before this one
    LeaseDesk(LeaseBook book, std::int64_t limit, const Options& options,
              const SampleAccounts& earlier);

    /// Deals until every worker holds `ahead` leases (or its share of what is left) or the book has
    /// none to give.
    [[nodiscard]] std::vector<Dealt> top_up();
    /// The oldest lease of a worker that no round has claimed yet; claims it.
    [[nodiscard]] std::optional<LeaseOrder> claim(int worker);

    /// Samples of a worker's leases from now on, by worker; multiples of nothing in particular.
    void set_batches(const std::vector<std::int64_t>& batches);
    /// The next lease of a worker has this many samples (it was interrupted too often), once.
    void shorten_next(int worker, std::int64_t samples);
    /// Leases ahead of their use, and whether fewer at the end, from now on (see Options).
    void set_ahead(int ahead, bool share_tail);
    /// A worker that is not live gets none.
    void set_live(int worker, bool live);
    /// Leases that a worker holds, oldest first; how many samples one covers.
    [[nodiscard]] std::vector<std::uint64_t> held_leases(int worker) const;
    [[nodiscard]] std::int64_t samples_of(std::uint64_t lease) const;
    /// The highest number given out.
    [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }

    void applied(std::uint64_t lease);
    void returned(std::uint64_t lease, ReturnReason reason);
    /// Everything outstanding comes back to its old place: the run ends.
    void return_all();

    /// Leases a worker holds.
    [[nodiscard]] std::size_t held(int worker) const { return held_.at(index(worker)).size(); }
    [[nodiscard]] bool finished() const noexcept { return book_.finished(); }
    [[nodiscard]] std::uint32_t epoch_of(std::uint64_t lease) const;
    [[nodiscard]] LeaseState state() const { return book_.state(); }
    /// Of the whole run.
    [[nodiscard]] SampleAccounts accounts() const;
    /// Of this part of it.
    [[nodiscard]] SampleAccounts part_accounts() const;

private:
    struct Held {
        LeaseOrder order;
        bool claimed = false;
    };
    [[nodiscard]] std::size_t ahead_now() const;
    [[nodiscard]] static std::size_t index(int worker) { return static_cast<std::size_t>(worker); }
    Held drop(std::uint64_t lease);

    LeaseBook book_;
    std::int64_t applied_before_;  ///< in earlier parts
    std::int64_t limit_;
    Options options_;
    std::vector<std::deque<Held>> held_;      ///< by worker, oldest first
    std::map<std::uint64_t, int> worker_of_;  ///< outstanding leases
    std::vector<std::int64_t> batches_;       ///< by worker
    std::vector<std::int64_t> next_;          ///< by worker; 0: as batches_
    std::vector<bool> live_;                  ///< by worker
    std::uint64_t newest_ = 0;
    SampleAccounts earlier_;
    SampleAccounts now_;  ///< returned in this part, by reason
};

}  // namespace cohort
