#include "session/open_leases.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Where the accounts count samples that return for this reason.
std::int64_t& returned_for(SampleAccounts& accounts, ReturnReason reason) {
    switch (reason) {
        case ReturnReason::kDropped: return accounts.returned_dropped;
        case ReturnReason::kNonFinite: return accounts.returned_non_finite;
        case ReturnReason::kInterrupted: return accounts.returned_interrupted;
        case ReturnReason::kLost: return accounts.returned_lost;
        case ReturnReason::kVoidRound: return accounts.returned_void_round;
        case ReturnReason::kStop: break;
    }
    return accounts.returned_stop;
}

}  // namespace

OpenLeases::OpenLeases(LeaseLedger ledger, int workers, const SampleAccounts& earlier)
    : ledger_(std::move(ledger)),
      applied_before_(ledger_.account().applied),
      held_(index(workers)),
      unpushed_(index(workers), 0),
      earlier_(earlier) {
}

std::optional<LeaseOrder> OpenLeases::take(int worker, std::int64_t samples) {
    const std::optional<LeasedSlice> lease = ledger_.take_slice(samples);
    if (!lease) {
        return std::nullopt;
    }
    newest_ = lease->id;
    const LeaseOrder order{.lease = lease->id,
                           .epoch = lease->slice.epoch,
                           .position = lease->slice.position,
                           .count = lease->slice.count,
                           .work = {}};
    held_.at(index(worker)).push_back({order});
    worker_of_[lease->id] = worker;
    ++unpushed_[index(worker)];
    ++all_unpushed_;
    return order;
}

std::optional<LeaseOrder> OpenLeases::claim(int worker) {
    for (Held& held : held_.at(index(worker))) {
        if (!std::exchange(held.claimed, true)) {
            return held.order;
        }
    }
    return std::nullopt;
}

OpenLeases::Held* OpenLeases::held_lease(std::uint64_t lease) {
    const auto found = worker_of_.find(lease);
    if (found == worker_of_.end()) {
        return nullptr;
    }
    std::deque<Held>& held = held_[index(found->second)];
    return &*std::find_if(held.begin(), held.end(),
                          [lease](const Held& one) { return one.order.lease == lease; });
}

LeaseOrder* OpenLeases::find(std::uint64_t lease) {
    Held* const held = held_lease(lease);
    return held == nullptr ? nullptr : &held->order;
}

const LeaseOrder* OpenLeases::find(std::uint64_t lease) const {
    return const_cast<OpenLeases*>(this)->find(lease);  // NOLINT: the result is const again
}

const LeaseOrder* OpenLeases::oldest_unpushed(int worker) const {
    for (const Held& held : held_.at(index(worker))) {
        if (!held.pushed) {
            return &held.order;
        }
    }
    return nullptr;
}

void OpenLeases::pushed(std::uint64_t lease) {
    Held* const held = held_lease(lease);
    if (held != nullptr && !std::exchange(held->pushed, true)) {
        --unpushed_[index(worker_of_.at(lease))];
        --all_unpushed_;
    }
}

OpenLeases::Held OpenLeases::drop(std::uint64_t lease) {
    pushed(lease);
    const auto found = worker_of_.find(lease);
    check_invariant(found != worker_of_.end(), "a settled lease is outstanding");
    std::deque<Held>& held = held_[index(found->second)];
    const auto at = std::find_if(held.begin(), held.end(),
                                 [&](const Held& one) { return one.order.lease == lease; });
    Held dropped = std::move(*at);
    held.erase(at);
    worker_of_.erase(found);
    return dropped;
}

void OpenLeases::applied(std::uint64_t lease) {
    drop(lease);
    check_invariant(ledger_.mark_applied(lease), "an applied lease is outstanding");
}

void OpenLeases::returned(std::uint64_t lease, ReturnReason reason) {
    returned_for(now_, reason) += drop(lease).order.count;
    check_invariant(
        reason == ReturnReason::kStop ? ledger_.mark_unused(lease) : ledger_.mark_returned(lease),
        "a returned lease is outstanding");
}

void OpenLeases::return_all() {
    while (!worker_of_.empty()) {
        returned(worker_of_.begin()->first, ReturnReason::kStop);
    }
}

std::vector<std::uint64_t> OpenLeases::held_leases(int worker) const {
    std::vector<std::uint64_t> leases;
    for (const Held& held : held_.at(index(worker))) {
        leases.push_back(held.order.lease);
    }
    return leases;
}

SampleAccounts OpenLeases::part_accounts() const {
    const LeaseAccount& ledger = ledger_.account();
    SampleAccounts part = now_;
    part.leased = ledger.leased - applied_before_;
    part.applied = ledger.applied - applied_before_;
    part.outstanding = ledger.outstanding;
    return part;
}

SampleAccounts OpenLeases::accounts() const {
    const LeaseAccount& ledger = ledger_.account();
    SampleAccounts all;
    for (std::size_t i = 0; i < kReturnReasons; ++i) {
        const auto reason = static_cast<ReturnReason>(i);
        SampleAccounts parts[] = {earlier_, now_};
        returned_for(all, reason) = returned_for(parts[0], reason) + returned_for(parts[1], reason);
    }
    all.leased = ledger.leased + earlier_.returned();
    all.applied = ledger.applied;
    all.outstanding = ledger.outstanding;
    check_invariant(all.leased == all.applied + all.returned() + all.outstanding,
                    "every leased sample is accounted for");
    return all;
}

}  // namespace cohort
