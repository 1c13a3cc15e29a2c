#include "train/coordinator/lease_desk.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

LeaseDesk::LeaseDesk(LeaseBook book, std::int64_t limit, const Options& options,
                     const SampleAccounts& earlier)
    : book_(std::move(book)),
      applied_before_(book_.account().applied),
      limit_(limit),
      options_(options),
      held_(index(options.workers)),
      batches_(index(options.workers), options.batch),
      next_(index(options.workers), 0),
      live_(index(options.workers), true),
      earlier_(earlier) {
}

void LeaseDesk::set_batches(const std::vector<std::int64_t>& batches) {
    check_invariant(batches.size() == batches_.size(), "a batch size for every worker");
    batches_ = batches;
}

void LeaseDesk::shorten_next(int worker, std::int64_t samples) {
    next_.at(index(worker)) = samples;
}

void LeaseDesk::set_ahead(int ahead, bool share_tail) {
    options_.ahead = ahead;
    options_.share_tail = share_tail;
}

void LeaseDesk::set_live(int worker, bool live) {
    live_.at(index(worker)) = live;
}

std::vector<std::uint64_t> LeaseDesk::held_leases(int worker) const {
    std::vector<std::uint64_t> leases;
    for (const Held& held : held_.at(index(worker))) {
        leases.push_back(held.order.lease);
    }
    return leases;
}

std::int64_t LeaseDesk::samples_of(std::uint64_t lease) const {
    const std::optional<LeaseSlice> slice = book_.slice_of(lease);
    return slice ? slice->count : 0;
}

std::size_t LeaseDesk::ahead_now() const {
    if (!options_.share_tail) {
        return static_cast<std::size_t>(options_.ahead);
    }
    const LeaseAccount& account = book_.account();
    const std::int64_t left = limit_ - account.applied - account.outstanding;
    std::int64_t round = 0;
    for (std::size_t worker = 0; worker < live_.size(); ++worker) {
        round += live_[worker] ? batches_[worker] : 0;
    }
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(left / std::max<std::int64_t>(round, 1), 1, options_.ahead));
}

std::vector<LeaseDesk::Dealt> LeaseDesk::top_up() {
    std::vector<Dealt> dealt;
    for (std::size_t holding = 0; holding < ahead_now(); ++holding) {
        for (std::size_t worker = 0; worker < held_.size(); ++worker) {
            if (!live_[worker] || held_[worker].size() > holding) {
                continue;
            }
            const std::int64_t wanted = next_[worker] > 0 ? next_[worker] : batches_[worker];
            const std::optional<LeasedSlice> lease = book_.take_slice(wanted);
            if (!lease) {
                return dealt;
            }
            next_[worker] = 0;
            newest_ = lease->id;
            const LeaseOrder order{.lease = lease->id,
                                   .epoch = lease->slice.epoch,
                                   .position = lease->slice.position,
                                   .count = lease->slice.count,
                                   .work = {}};
            held_[worker].push_back({order, false});
            worker_of_[lease->id] = static_cast<int>(worker);
            dealt.push_back({static_cast<int>(worker), order});
        }
    }
    return dealt;
}

std::optional<LeaseOrder> LeaseDesk::claim(int worker) {
    for (Held& held : held_.at(index(worker))) {
        if (!std::exchange(held.claimed, true)) {
            return held.order;
        }
    }
    return std::nullopt;
}

LeaseDesk::Held LeaseDesk::drop(std::uint64_t lease) {
    const auto found = worker_of_.find(lease);
    check_invariant(found != worker_of_.end(), "a settled lease is outstanding");
    std::deque<Held>& held = held_.at(index(found->second));
    const auto at = std::find_if(held.begin(), held.end(),
                                 [&](const Held& one) { return one.order.lease == lease; });
    Held dropped = *at;
    held.erase(at);
    worker_of_.erase(found);
    return dropped;
}

void LeaseDesk::applied(std::uint64_t lease) {
    drop(lease);
    check_invariant(book_.mark_applied(lease), "an applied lease is outstanding");
}

void LeaseDesk::returned(std::uint64_t lease, ReturnReason reason) {
    const std::int64_t samples = drop(lease).order.count;
    check_invariant(book_.mark_returned(lease), "a returned lease is outstanding");
    switch (reason) {
        case ReturnReason::kDropped: now_.returned_dropped += samples; break;
        case ReturnReason::kNonFinite: now_.returned_non_finite += samples; break;
        case ReturnReason::kInterrupted: now_.returned_interrupted += samples; break;
        case ReturnReason::kLost: now_.returned_lost += samples; break;
        case ReturnReason::kVoidRound: now_.returned_void_round += samples; break;
        case ReturnReason::kStop: now_.returned_stop += samples; break;
    }
}

void LeaseDesk::return_all() {
    for (const auto& [lease, worker] : worker_of_) {
        const auto& held = held_.at(index(worker));
        const auto at = std::find_if(held.begin(), held.end(), [id = lease](const Held& one) {
            return one.order.lease == id;
        });
        now_.returned_stop += at->order.count;
        check_invariant(book_.mark_unused(lease), "a held lease is outstanding");
    }
    worker_of_.clear();
    for (auto& held : held_) {
        held.clear();
    }
}

std::uint32_t LeaseDesk::epoch_of(std::uint64_t lease) const {
    for (const Held& held : held_.at(index(worker_of_.at(lease)))) {
        if (held.order.lease == lease) {
            return held.order.epoch;
        }
    }
    return 0;
}

SampleAccounts LeaseDesk::part_accounts() const {
    const LeaseAccount& book = book_.account();
    SampleAccounts part = now_;
    part.leased = book.leased - applied_before_;
    part.applied = book.applied - applied_before_;
    part.outstanding = book.outstanding;
    return part;
}

SampleAccounts LeaseDesk::accounts() const {
    const LeaseAccount& book = book_.account();
    SampleAccounts all;
    all.returned_non_finite = earlier_.returned_non_finite + now_.returned_non_finite;
    all.returned_void_round = earlier_.returned_void_round + now_.returned_void_round;
    all.returned_stop = earlier_.returned_stop + now_.returned_stop;
    all.returned_dropped = earlier_.returned_dropped + now_.returned_dropped;
    all.returned_interrupted = earlier_.returned_interrupted + now_.returned_interrupted;
    all.returned_lost = earlier_.returned_lost + now_.returned_lost;
    all.leased = book.leased + earlier_.returned();
    all.applied = book.applied;
    all.outstanding = book.outstanding;
    check_invariant(all.leased == all.applied + all.returned() + all.outstanding,
                    "every leased sample is accounted for");
    return all;
}

}  // namespace cohort
