#include "train/worker/leased_batches.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

LeasedBatches::LeasedBatches(const JobContext& job, const LoaderOptions& options,
                             const CommContext& comm, CoordinatorLink& coordinator,
                             Injector& injector)
    : job_(job),
      comm_(comm),
      coordinator_(coordinator),
      injector_(injector),
      loader_(job.train_set, options),
      slices_(job.train_set->info(), job.order) {
}

void LeasedBatches::submit(const LeaseOrder& order) {
    Lease lease{.id = order.lease, .epoch = order.epoch, .position = order.position, .samples = {}};
    lease.samples =
        slices_.samples({.epoch = order.epoch, .position = order.position, .count = order.count});
    loader_.submit(std::move(lease));
    leases_.push_back(order);
}

std::optional<LoadedBatch> LeasedBatches::next(const GiveUp& give_up) {
    const auto wait = comm_.operations.begin("batch", ++batches_);
    for (;;) {
        std::optional<LoadedBatch> batch = loader_.next([&] {
            coordinator_.take_orders();
            return give_up();
        });
        if (!batch || begin(batch->lease().id)) {
            return batch;
        }
    }
}

const LoadedBatch* LeasedBatches::peek() {
    const LoadedBatch* batch = loader_.peek();
    return batch == nullptr || revoked(batch->lease().id) ? nullptr : batch;
}

bool LeasedBatches::begin(std::uint64_t lease) {
    while (!leases_.empty() && leases_.front().lease != lease) {
        leases_.pop_front();  // taken back from the loader meanwhile
    }
    if (leases_.empty()) {
        return false;
    }
    order_ = std::move(leases_.front());
    leases_.pop_front();
    if (!order_.validation) {  // a validation's samples are from anywhere
        injector_.replay_at(moment_of(order_));
        // Leases ascend: nobody asks for those before this one.
        revoked_.erase(revoked_.begin(), revoked_.lower_bound(lease));
    }
    return !revoked(lease);
}

/// Reference batches that the job was dealt before: the same for all of a round, whatever came
/// before it, and a run that is resumed continues where it was. Under plans that do not wait it is
/// as old as the lease, up to four of the worker's mini-batches.
std::uint64_t LeasedBatches::moment_of(const LeaseOrder& order) const {
    const std::int64_t samples = order.epoch * job_.train_set->info().samples + order.position;
    return static_cast<std::uint64_t>(samples / job_.reference_batch);
}

void LeasedBatches::revoke(const RevokeOrder& order) {
    revoked_up_to_ = std::max(revoked_up_to_, order.up_to);
    revoked_.insert(order.leases.begin(), order.leases.end());
    revoked_.erase(revoked_.begin(), revoked_.upper_bound(revoked_up_to_));
    const bool all = std::all_of(leases_.begin(), leases_.end(),
                                 [this](const LeaseOrder& lease) { return revoked(lease.lease); });
    if (all) {
        drop();  // none of them needs to be loaded
    }
}

bool LeasedBatches::revoked(std::uint64_t lease) const {
    return lease <= revoked_up_to_ || revoked_.contains(lease);
}

void LeasedBatches::drop() {
    (void)loader_.discard_submitted();
    leases_.clear();
}

}  // namespace cohort
