#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>

#include "cohort/data/loader.hpp"
#include "cohort/data/order.hpp"
#include "train/faults/injection.hpp"
#include "train/run/job_context.hpp"
#include "train/worker/coordinator_link.hpp"

namespace cohort {

/// The mini-batches of a worker's leases: prepared in the order in which the leases came, skipped
/// when their leases are taken back.
class LeasedBatches {
public:
    using GiveUp = std::function<bool()>;

    /// What is given outlives this. Errors: UsageError, DeviceError.
    LeasedBatches(const JobContext& job, const LoaderOptions& options, const CommContext& comm,
                  CoordinatorLink& coordinator, Injector& injector);

    /// Lets the lease's batch be loaded.
    void submit(const LeaseOrder& order);
    /// Leases that next() has not handed out.
    [[nodiscard]] std::size_t waiting() const noexcept { return leases_.size(); }
    /// The batch of the oldest lease; sleeps until it is prepared. std::nullopt: there is no lease,
    /// or `give_up`, asked several times a second, said true. Errors: those of Loader::next.
    [[nodiscard]] std::optional<LoadedBatch> next(const GiveUp& give_up);
    /// The batch that next() would hand out, if it is prepared; nullptr: it is not, or its lease
    /// was taken back. Its lease stays as it is, so it may be dropped unused. Valid until the next
    /// call of next(), revoke() or drop().
    [[nodiscard]] const LoadedBatch* peek();
    /// The order for the batch that next() handed out last.
    [[nodiscard]] const LeaseOrder& order() const noexcept { return order_; }

    /// Leases that were taken back: next() skips their batches, revoked() says so.
    void revoke(const RevokeOrder& order);
    [[nodiscard]] bool revoked(std::uint64_t lease) const;
    /// Forgets all leases that next() has not handed out.
    void drop();

private:
    /// The lease of a batch becomes the current one. @return false: it was taken back
    bool begin(std::uint64_t lease);
    [[nodiscard]] std::uint64_t moment_of(const LeaseOrder& order) const;

    const JobContext& job_;
    const CommContext& comm_;
    CoordinatorLink& coordinator_;
    Injector& injector_;
    Loader loader_;
    SliceReader slices_;
    std::deque<LeaseOrder> leases_;  ///< the loader's, oldest first
    LeaseOrder order_;
    std::uint64_t batches_ = 0;
    std::uint64_t revoked_up_to_ = 0;
    std::set<std::uint64_t> revoked_;  ///< above revoked_up_to_
};

}  // namespace cohort
