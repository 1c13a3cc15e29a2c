#include "sched/session/lease_dispatcher.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"

namespace cohort {

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

OpenLeases::OpenLeases(LeaseLedger ledger, int workers, const SampleAccounts& earlier)
    : ledger_(std::move(ledger)),
      applied_before_(ledger_.account().applied),
      held_(place_of(workers)),
      unpushed_(place_of(workers), 0),
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
    held_.at(place_of(worker)).push_back({order});
    worker_of_[lease->id] = worker;
    ++unpushed_[place_of(worker)];
    ++all_unpushed_;
    return order;
}

std::optional<LeaseOrder> OpenLeases::claim(int worker) {
    for (Held& held : held_.at(place_of(worker))) {
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
    std::deque<Held>& held = held_[place_of(found->second)];
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
    for (const Held& held : held_.at(place_of(worker))) {
        if (!held.pushed) {
            return &held.order;
        }
    }
    return nullptr;
}

void OpenLeases::pushed(std::uint64_t lease) {
    Held* const held = held_lease(lease);
    if (held != nullptr && !std::exchange(held->pushed, true)) {
        --unpushed_[place_of(worker_of_.at(lease))];
        --all_unpushed_;
    }
}

OpenLeases::Held OpenLeases::drop(std::uint64_t lease) {
    pushed(lease);
    const auto found = worker_of_.find(lease);
    check_invariant(found != worker_of_.end(), "a settled lease is outstanding");
    std::deque<Held>& held = held_[place_of(found->second)];
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

void OpenLeases::undone(const LeaseSlice& slice) {
    ledger_.mark_undone(slice);
    now_.returned_lost += slice.count;
}

void OpenLeases::return_all() {
    while (!worker_of_.empty()) {
        returned(worker_of_.begin()->first, ReturnReason::kStop);
    }
}

std::vector<std::uint64_t> OpenLeases::held_leases(int worker) const {
    std::vector<std::uint64_t> leases;
    for (const Held& held : held_.at(place_of(worker))) {
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

ValidationSampler::ValidationSampler(std::uint64_t seed, std::int64_t samples, std::int64_t batch)
    : seed_(seed), samples_(samples), batch_(std::min(samples, batch)) {
}

void ValidationSampler::set_every(int every) noexcept {
    every_ = every;
    decisions_ = every;
}

std::optional<ValidationSampler::Dealt> ValidationSampler::deal(const std::vector<bool>& may,
                                                                std::uint32_t epoch) {
    if (!due() || std::find(may.begin(), may.end(), true) == may.end()) {
        return std::nullopt;
    }
    decisions_ = 0;
    do {
        turn_ = (turn_ + 1) % may.size();
    } while (!may[turn_]);
    ++dealt_;
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    const auto places =
        static_cast<std::uint32_t>(std::min<std::int64_t>(samples_ - batch_ + 1, kMost));
    Rng rng(seed_, RngPurpose::kValidation, dealt_);
    return Dealt{.worker = static_cast<int>(turn_),
                 .lease = kBit | dealt_,
                 .epoch = epoch,
                 .position = static_cast<std::int64_t>(rng.next_below(places)),
                 .count = batch_};
}

LeaseDispatcher::LeaseDispatcher(LeaseLedger ledger, std::int64_t limit, const Options& options,
                                 const SampleAccounts& earlier)
    : open_(std::move(ledger), options.workers, earlier),
      limit_(limit),
      options_(options),
      batches_(index(options.workers), options.batch),
      sizes_(index(options.workers)),
      live_(index(options.workers), true) {
}

void LeaseDispatcher::set_batches(const std::vector<std::int64_t>& batches) {
    check_invariant(batches.size() == batches_.size(), "a batch size for every worker");
    batches_ = batches;
}

void LeaseDispatcher::set_ahead(int ahead, bool share_tail) {
    options_.ahead = ahead;
    options_.share_tail = share_tail;
}

std::size_t LeaseDispatcher::ahead_now() const {
    if (!options_.share_tail) {
        return static_cast<std::size_t>(options_.ahead);
    }
    const LeaseAccount& account = open_.ledger().account();
    const std::int64_t left = limit_ - account.applied - account.outstanding;
    std::int64_t round = 0;
    for (std::size_t worker = 0; worker < live_.size(); ++worker) {
        round += live_[worker] ? batches_[worker] : 0;
    }
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(left / std::max<std::int64_t>(round, 1), 1, options_.ahead));
}

std::vector<DealtLease> LeaseDispatcher::top_up() {
    std::vector<DealtLease> dealt;
    for (std::size_t holding = 0; holding < ahead_now(); ++holding) {
        for (std::size_t i = 0; i < live_.size(); ++i) {
            const auto worker = static_cast<int>(i);
            if (!live_[i] || open_.held(worker) > holding) {
                continue;
            }
            const std::int64_t wanted = sizes_[i].empty() ? batches_[i] : sizes_[i].front();
            std::optional<LeaseOrder> order = open_.take(worker, wanted);
            if (!order) {
                return dealt;
            }
            sizes_[i].clear();
            dealt.push_back({worker, *std::move(order)});
        }
    }
    return dealt;
}

std::optional<LeaseOrder> LeaseDispatcher::deal_one(int worker) {
    std::deque<std::int64_t>& sizes = sizes_.at(index(worker));
    const auto most = options_.ahead - static_cast<std::int64_t>(open_.held(worker));
    while (sizes.empty() || static_cast<std::int64_t>(sizes.size()) < most) {
        sizes.push_back(batches_[index(worker)]);
    }
    std::optional<LeaseOrder> order = open_.take(worker, sizes.front());
    if (order) {
        sizes.pop_front();
    }
    return order;
}

}  // namespace cohort
