#include "worker_ring_rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "train_parts.hpp"

namespace cohort {

MemberRounds::MemberRounds(WorkerContext& context, RoundExchangeFactory make)
    : context_(context),
      replica_(context.replica()),
      make_(std::move(make)),
      floats_(static_cast<std::int64_t>(replica_.parameters().size() + replica_.state().size())) {
}

/// 1. The exchange over these members, made by all of them together when it is new. 2. Its buffer
/// gets the weighted gradient while backward runs. 3. The tail ends this member's part.
std::optional<MemberRounds::Sum> MemberRounds::run(const RoundOrder& order, const RoundMember& mine,
                                                   const std::vector<AddedPush>& added) {
    keep_only(order.keep);
    std::vector<int> ranks;
    for (const RoundMember& member : order.members) {
        ranks.push_back(context_.links().map.rank_of_worker(member.worker));
    }
    if (ranks.size() == 1 && added.empty() && mine.lease != 0) {
        return alone(mine);
    }
    try {
        RoundExchange& sum = exchange(order.ring, ranks);
        const std::optional<LoadedBatch> batch = batch_of(mine);
        const std::span<float> buffer = sum.begin(order.round);
        if (batch) {
            RingObserver observer(replica_, context_.injector(), sum, buffer,
                                  static_cast<float>(share(order, mine.samples)), added);
            sum.finish(train(*batch, observer));
        } else {
            pass_on(buffer, added);
            sum.finish({});
        }
        auto tails = sum.wait();
        if (tails) {
            return Sum{std::move(*tails), buffer, sum.times()};
        }
    } catch (const RingBroken&) {  // a member was lost while the exchange was being made
    }
    exchanges_.erase(order.ring);
    return std::nullopt;
}

RoundExchange& MemberRounds::exchange(std::uint64_t ring, const std::vector<int>& ranks) {
    if (ranks.size() == 1) {
        lone_ = lone_ ? std::move(lone_) : make_lone_exchange(floats_);
        return *lone_;
    }
    auto& held = exchanges_[ring];
    if (!held) {
        held = make_(ranks, floats_);
    }
    return *held;
}

void MemberRounds::keep_only(const std::vector<std::uint64_t>& rings) {
    std::erase_if(exchanges_, [&](const auto& held) {
        return std::find(rings.begin(), rings.end(), held.first) == rings.end();
    });
}

MemberRounds::Sum MemberRounds::alone(const RoundMember& mine) {
    AloneObserver observer(replica_, context_.injector());
    return {{train(*batch_of(mine), observer)}, {}, {}};
}

/// What a member without samples of its own hands in.
void MemberRounds::pass_on(std::span<float> buffer, const std::vector<AddedPush>& added) {
    std::fill(buffer.begin(), buffer.end(), 0.0F);
    for (const AddedPush& push : added) {
        add_scaled(buffer, {push.values.get(), buffer.size()}, push.weight);
    }
}

/// The batch of this member's lease; nothing when it has none.
std::optional<LoadedBatch> MemberRounds::batch_of(const RoundMember& mine) {
    if (mine.lease == 0) {
        return std::nullopt;
    }
    auto batch = context_.next_batch(false);
    if (!batch || batch->lease().id != mine.lease || batch->size() != mine.samples) {
        fail<PeerError>({.where = "round grant",
                         .what = "leases do not come in the order of the grants",
                         .expected = batch ? fmt::format("lease {} of {} samples",
                                                         batch->lease().id, batch->size())
                                           : std::string("none"),
                         .got = fmt::format("lease {} of {} samples", mine.lease, mine.samples),
                         .hint = "the same program on all ranks"});
    }
    return batch;
}

RingTail MemberRounds::train(const LoadedBatch& batch, GradientObserver& observer) {
    const Clock::Seconds start = context_.clock().now();
    const auto result = context_.train_step(view_of(batch), observer);
    observer.finish();
    const double squares = observer.sum_of_squares();
    RingTail tail;
    tail.samples = batch.size();
    tail.loss_sum = result->loss_sum;
    tail.correct = result->correct;
    tail.finite = std::isfinite(result->loss_sum) && std::isfinite(squares) ? 1 : 0;
    tail.compute_s = (context_.clock().now() - start).count();
    tail.gradient_norm = std::sqrt(squares);
    return tail;
}

double share(const RoundOrder& order, std::int64_t samples) noexcept {
    std::int64_t all = 0;
    for (const RoundMember& member : order.members) {
        all += member.all_samples();
    }
    return static_cast<double>(samples) / static_cast<double>(all);
}

}  // namespace cohort
