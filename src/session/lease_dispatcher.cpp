#include "session/lease_dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {

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

void LeaseDispatcher::shorten_next(int worker, std::int64_t samples) {
    sizes_.at(index(worker)).assign(1, samples);
}

void LeaseDispatcher::set_ahead(int ahead, bool share_tail) {
    options_.ahead = ahead;
    options_.share_tail = share_tail;
}

void LeaseDispatcher::set_live(int worker, bool live) {
    live_.at(index(worker)) = live;
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
