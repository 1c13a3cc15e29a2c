#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/data/order.hpp"

namespace cohort {

/// Permission to train on a list of samples once.
struct Lease {
    std::uint64_t id = 0;
    std::uint32_t epoch = 0;
    std::int64_t position = 0;          ///< of the first sample in the epoch's order
    std::vector<std::int64_t> samples;  ///< sample ids, consecutive positions

    [[nodiscard]] std::int64_t size() const noexcept {
        return static_cast<std::int64_t>(samples.size());
    }
};

/// A lease by its place in the order, without its samples (see SliceReader).
struct LeasedSlice {
    std::uint64_t id = 0;
    LeaseSlice slice;
};

/// Counts of leased samples; always leased = applied + returned + outstanding. A sample leased
/// again after its return counts again.
struct LeaseAccount {
    std::int64_t leased = 0;
    std::int64_t applied = 0;
    std::int64_t returned = 0;
    std::int64_t outstanding = 0;
    friend bool operator==(const LeaseAccount&, const LeaseAccount&) = default;
};

/// A run's position in its data; part of checkpoints. `pending` lists slices that were leased or
/// returned but not applied, in the order in which they are leased again, before fresh samples:
/// outstanding leases, oldest first, then waiting ones. So a resumed run continues in the same
/// order.
struct LeaseState {
    std::uint32_t epoch = 0;
    std::int64_t position = 0;  ///< next fresh sample of that epoch
    std::int64_t applied = 0;   ///< samples applied since the start of the run
    std::uint64_t next_id = 1;
    std::vector<LeaseSlice> pending;
};

/// Cuts epochs into leases and keeps the accounts. Pure: no threads, files or clock; not thread
/// safe. Every sample of an epoch is leased fresh exactly once; a returned sample is leased again
/// before fresh ones, first returned first, under a new id.
class LeaseLedger {
public:
    static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

    /// @param limit  samples to apply in the whole run, an epoch's count or a multiple for epochs
    /// @param from  state to continue from. Errors: UsageError when it does not fit the set.
    LeaseLedger(const SampleSetInfo& info, const OrderOptions& order, std::int64_t limit = kNoLimit,
                const LeaseState& from = {});

    /// At most `n` >= 1 samples, never across the end of an epoch. std::nullopt when all samples up
    /// to the limit are applied or outstanding; leases may still be returned later.
    [[nodiscard]] std::optional<Lease> take(std::int64_t n);
    /// As take(), without looking up the samples, for a coordinator that deals leases to others.
    [[nodiscard]] std::optional<LeasedSlice> take_slice(std::int64_t n);

    /// Ends an outstanding lease. False when `id` is not outstanding (already ended, revoked, or
    /// never dealt): then nothing changes and its gradient must not be used.
    [[nodiscard]] bool mark_applied(std::uint64_t id);
    [[nodiscard]] bool mark_returned(std::uint64_t id);
    /// Samples that a lease was applied with return: the update that they were in is lost.
    void mark_undone(const LeaseSlice& slice);
    /// As mark_returned, for a lease that no worker has started: it gets its old place in the queue
    /// back.
    [[nodiscard]] bool mark_unused(std::uint64_t id);

    /// Samples since this book was made, plus those applied before it (from.applied).
    [[nodiscard]] const LeaseAccount& account() const noexcept { return account_; }
    /// True when `limit` samples are applied.
    [[nodiscard]] bool finished() const noexcept { return account_.applied >= limit_; }
    [[nodiscard]] LeaseState state() const;

private:
    using Turn = std::pair<std::uint64_t, std::int64_t>;  // place in line, position (of parts)
    struct Out {
        LeaseSlice slice;
        std::uint64_t turn = 0;
    };

    [[nodiscard]] LeasedSlice issue(const LeaseSlice& slice, std::uint64_t turn);
    [[nodiscard]] LeaseSlice take_waiting(std::int64_t n, std::uint64_t& turn);
    [[nodiscard]] std::optional<LeaseSlice> take_fresh(std::int64_t n);
    [[nodiscard]] std::optional<Out> end(std::uint64_t id);
    void put_in_line(const LeaseSlice& slice, std::uint64_t turn);

    std::int64_t epoch_samples_;
    SliceReader reader_;
    std::int64_t limit_;
    std::uint32_t epoch_;
    std::int64_t position_;
    std::int64_t fresh_ = 0;  // samples that have been leased at least once
    std::uint64_t next_id_;
    LeaseAccount account_;
    std::uint64_t next_turn_ = 0;
    std::map<std::uint64_t, Out> outstanding_;  // by id; their turns are before all waiting ones
    std::map<Turn, LeaseSlice> waiting_;        // returned
};

}  // namespace cohort
