#include "train/coordinator/ring/ring_leases.hpp"

#include <algorithm>
#include <utility>

#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

/// Leases that a worker holds: two in rounds that are under way, two on their way through its
/// loader.
constexpr int kLeasesAhead = 4;

bool contains(const auto& list, const auto& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

RingLeases::RingLeases(RingContext& context, RingGradients& gradients)
    : context_(context),
      gradients_(gradients),
      unused_(static_cast<std::size_t>(context.comm.map.workers())),
      sizes_(unused_.size(), context.parts.options.batch) {
}

void RingLeases::deal() {
    for (DealtLease& dealt : context_.leases().top_up()) {
        dealt.order.halves = context_.ring.roster.seat(dealt.worker).role == RingRole::kRider &&
                             gradients_.halve(dealt.order.count);
        context_.send(dealt.worker, MessageKind::kLease, dealt.order);
    }
}

std::optional<LeaseOrder> RingLeases::claim(int worker) {
    std::deque<LeaseOrder>& unused = unused_[static_cast<std::size_t>(worker)];
    if (unused.empty()) {
        return context_.leases().open().claim(worker);
    }
    const LeaseOrder lease = unused.front();
    unused.pop_front();
    return lease;
}

RoundLease RingLeases::claim_for_round(int worker) {
    const std::optional<LeaseOrder> lease = claim(worker);
    if (!lease) {
        return {};
    }
    return {.lease = lease->lease,
            .epoch = lease->epoch,
            .samples = lease->count,
            .steps = local_steps_of(lease->count, batch_of(worker), context_.engine().plan())};
}

void RingLeases::unclaim(const Round& round, const RoundMember& member) {
    if (member.lease != 0 && context_.ring.roster.seat(member.worker).live) {
        unused_[static_cast<std::size_t>(member.worker)].push_front(
            {.lease = member.lease, .epoch = round.epoch, .count = member.samples});
    } else if (member.lease != 0) {
        give_back(member.worker, member.lease, ReturnReason::kLost);
    }
}

void RingLeases::give_back(int worker, std::uint64_t lease, ReturnReason reason) {
    const LeaseOrder* const held = context_.leases().open().find(lease);
    if (held == nullptr) {
        return;
    }
    context_.session().settled(
        {.worker = worker, .samples = held->count, .weight = 0, .returned = reason});
    context_.leases().open().returned(lease, reason);
}

void RingLeases::lost(int worker) {
    const std::vector<std::uint64_t> kept = granted();
    for (const std::uint64_t lease : context_.leases().open().held_leases(worker)) {
        if (!contains(kept, lease)) {
            give_back(worker, lease, ReturnReason::kLost);
        }
    }
    const auto index = static_cast<std::size_t>(worker);
    unused_[index].clear();
    sizes_[index] = batch_of(worker);  // a worker that comes back is a rider
    context_.leases().set_batches(sizes_);
}

/// The leases of all rounds, riders' included.
std::vector<std::uint64_t> RingLeases::granted() const {
    std::vector<std::uint64_t> leases;
    for (const Round& round : context_.ring.rounds.rounds()) {
        for (const RoundMember& member : round.members) {
            leases.push_back(member.lease);
        }
        for (const PushId& rider : round.riders) {
            leases.push_back(context_.ring.riders.at(rider).ticket->lease);
        }
    }
    return leases;
}

std::int64_t RingLeases::batch_of(int worker) const {
    return batches_.empty() ? context_.parts.options.batch
                            : batches_[static_cast<std::size_t>(worker)];
}

void RingLeases::resize(const std::vector<int>& members, bool other_work,
                        std::vector<std::int64_t> batches) {
    std::vector<bool> several_steps;
    for (std::size_t index = 0; index < sizes_.size(); ++index) {
        several_steps.push_back(sizes_[index] > batch_of(static_cast<int>(index)));
    }
    if (!batches.empty()) {
        batches_ = std::move(batches);
    }
    const SyncPlan& plan = context_.engine().plan();
    const std::vector<std::int64_t> before = sizes_;
    for (std::size_t index = 0; index < sizes_.size(); ++index) {
        const auto worker = static_cast<int>(index);
        const bool delta = plan.work == Work::kDelta && contains(members, worker);
        sizes_[index] = batch_of(worker) * (delta ? plan.local_steps : 1);
    }
    context_.leases().set_batches(sizes_);
    context_.leases().set_ahead(kLeasesAhead, !plan.cohorts.front().riders.empty());
    for (std::size_t index = 0; index < sizes_.size(); ++index) {
        const auto worker = static_cast<int>(index);
        const RingSeat& seat = context_.ring.roster.seat(worker);
        const bool riding = seat.role == RingRole::kRider && !contains(members, worker);
        const bool other =
            riding ? several_steps[index] : other_work || before[index] != sizes_[index];
        if (seat.live && other) {
            replace(worker);
        }
    }
}

void RingLeases::replace(int worker) {
    RevokeOrder order{.leases = context_.leases().open().held_leases(worker), .version = 0};
    for (const std::uint64_t lease : order.leases) {
        give_back(worker, lease, ReturnReason::kInterrupted);
    }
    unused_[static_cast<std::size_t>(worker)].clear();
    context_.send(worker, MessageKind::kRevoke, order);
}

}  // namespace cohort
