#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "session/open_leases.hpp"

namespace cohort {

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
    void shorten_next(int worker, std::int64_t samples);
    /// deal_one() forgets the sizes of leases to come that were fixed before.
    void resize_next(int worker) { sizes_.at(index(worker)).clear(); }
    /// Leases ahead of their use, and whether fewer at the end, from now on (see Options).
    void set_ahead(int ahead, bool share_tail);
    /// A worker that is not live gets none.
    void set_live(int worker, bool live);

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
