#include "train/worker/ring/worker_ring_rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cohort/core/error.hpp"
#include "data/file/file_io.hpp"
#include "layers/optim/vector_math.hpp"
#include "train/run/job_context.hpp"

namespace cohort {

MemberRounds::MemberRounds(WorkerContext& context, AllReduceFactory make)
    : context_(context),
      replica_(context.replica()),
      make_(std::move(make)),
      floats_(static_cast<std::int64_t>(replica_.parameters().size() + replica_.state().size())) {
}

/// 1. The exchange over these members, made by all of them together when it is new. 2. Its buffer
/// gets the weighted gradient while backward runs, or the weighted delta. 3. The summary ends this
/// member's part.
std::optional<MemberRounds::Sum> MemberRounds::run(const RoundOrder& order, const RoundMember& mine,
                                                   const std::vector<AddedPush>& added) {
    keep_only(order.keep);
    const std::vector<int> ranks = ranks_of(order.members);
    const bool gradient = order.work == Work::kGradient;
    if (gradient) {
        local_.reset();
    }
    if (gradient && ranks.size() == 1 && added.empty() && mine.lease != 0) {
        return alone(mine, order.round);
    }
    try {
        AllReduce& sum = exchange(order.ring, ranks, {.watched = {}, .epoch = order.membership});
        if (const auto held = exchanges_.find(order.ring);
            held != exchanges_.end() &&
            std::exchange(held->second.work, order.work) != order.work) {
            sum.set_rest(RoundRest::kForgotten);
        }
        const std::optional<LoadedBatch> batch = batch_of(mine);
        std::optional<RoundSummary> stepped;
        if (!gradient) {
            stepped = step_locally(order, mine, batch ? &*batch : nullptr);
        }
        if (gradient || stepped) {
            const std::span<float> buffer = sum.begin(order.round);
            const auto weight = static_cast<float>(share(order, mine.samples));
            const RoundSummary summary = stepped ? scaled_delta(*stepped, weight, sum, buffer)
                                         : batch ? train_into(*batch, weight, sum, buffer, added)
                                                 : pass_on(sum, buffer, added);
            sum.finish(pack_summary(complete(summary, order.round)));
            if (auto summaries = unpack_summaries<RoundSummary>(sum.wait())) {
                const AllReduceTimes times = sum.times();
                load_ = {.waited_s = times.exposed_s, .exchange_s = times.exchange_s};
                return Sum{std::move(*summaries), buffer, times, sum.on_device()};
            }
        }
    } catch (const RingBroken&) {  // a member was lost while an exchange was being made
    }
    exchanges_.erase(order.ring);
    return std::nullopt;
}

std::vector<int> MemberRounds::ranks_of(std::span<const RoundMember> members) const {
    std::vector<int> ranks;
    for (const RoundMember& member : members) {
        ranks.push_back(context_.comm().map.rank_of_worker(member.worker));
    }
    return ranks;
}

AllReduce& MemberRounds::exchange(std::uint64_t ring, const std::vector<int>& ranks,
                                  const AllReduceScope& scope) {
    if (ranks.size() == 1) {
        lone_ = lone_ ? std::move(lone_) : make_solo_all_reduce(floats_);
        return *lone_;
    }
    std::unique_ptr<AllReduce>& held = exchanges_[ring].sum;
    if (!held) {
        held = make_(ranks, floats_, context_.compute().on_this_device(scope));
    }
    return *held;
}

void MemberRounds::aborted(const RoundOrder& order) {
    if (const auto held = exchanges_.find(order.ring); held != exchanges_.end()) {
        held->second.sum->set_rest(RoundRest::kReturned);
    }
}

void MemberRounds::keep_only(const std::vector<std::uint64_t>& rings) {
    std::erase_if(exchanges_, [&](const auto& held) {
        return std::find(rings.begin(), rings.end(), held.first) == rings.end();
    });
}

/// Of the part of parameters and state that is this round's turn: the members' must not differ,
/// whatever the reason, and as many rounds as there are parts look through all.
/// Cost: of each round, 1/64 of the parameters is read.
std::uint32_t MemberRounds::checksum(std::uint64_t round) {
    constexpr std::size_t kParts = 64;
    const std::size_t part = round % kParts;
    std::vector<float> copied;
    for (const std::span<const float> all : {std::span<const float>(replica_.parameters()),
                                             std::span<const float>(replica_.state())}) {
        const std::size_t begin = all.size() * part / kParts;
        const std::size_t floats = all.size() * (part + 1) / kParts - begin;
        copied.resize(copied.size() + floats);
        context_.compute().copy(std::span(copied).last(floats), all.subspan(begin, floats));
    }
    return crc32_of(std::as_bytes(std::span(copied)));
}

MemberRounds::Sum MemberRounds::alone(const RoundMember& mine, std::uint64_t round) {
    AloneObserver observer(context_.compute().step_context());
    const RoundSummary summary = train(*batch_of(mine), observer);
    return {{complete(summary, round)}, {}, {}};
}

/// With what this member waited for. Orders that came meanwhile may say that no other round begins.
RoundSummary MemberRounds::complete(RoundSummary summary, std::uint64_t round) {
    context_.coordinator().take_orders();
    summary.checksum = checksum(round);
    summary.skip = skip_ > round ? skip_ : 0;
    summary.input_s = input_s_;
    summary.load = std::exchange(load_, {});
    summary.load.use = context_.meter().use();
    summary.load.telemetry_s = context_.meter().take_cost_s();
    return summary;
}

RoundSummary MemberRounds::train_into(const LoadedBatch& batch, float weight, AllReduce& sum,
                                      std::span<float> buffer, std::span<const AddedPush> added) {
    RingObserver observer(context_.compute().step_context(), sum, buffer, weight, added);
    return train(batch, observer);
}

/// The contribution of a member without samples of its own.
RoundSummary MemberRounds::pass_on(const AllReduce& sum, std::span<float> buffer,
                                   std::span<const AddedPush> added) {
    context_.compute().fill_zero(sum, buffer);
    for (const AddedPush& push : added) {
        const std::span<const float> values(push.values.get(), buffer.size());
        if (sum.on_device()) {
            WorkerDevice& device = context_.compute().worker_device();
            device.math->add_scaled(buffer, device.upload(values), push.weight);
        } else {
            add_scaled(buffer, values, push.weight);
        }
    }
    return {};
}

RoundSummary MemberRounds::scaled_delta(const RoundSummary& stepped, float weight,
                                        const AllReduce& sum, std::span<float> buffer) {
    if (sum.on_device()) {
        replica_.stream().copy(buffer.data(), delta_.data(), buffer.size_bytes());
        context_.compute().worker_device().math->scale_into(buffer, buffer, weight);
    } else {
        scale_into(buffer, delta_, weight);
    }
    return stepped;
}

/// The batch of this member's lease; nothing when it has none.
std::optional<LoadedBatch> MemberRounds::batch_of(const RoundMember& mine) {
    input_s_ = 0;
    if (mine.lease == 0) {
        return std::nullopt;
    }
    const Clock::Seconds start = context_.clock().now();
    auto batch = context_.batches().next([] { return false; });
    input_s_ = (context_.clock().now() - start).count();
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

RoundSummary MemberRounds::train(const LoadedBatch& batch, GradientObserver& observer) {
    const Clock::Seconds start = context_.clock().now();
    const auto result = context_.compute().train_step(view_of(batch), observer);
    observer.finish();
    RoundSummary summary;
    note_result(summary, *result, observer.sum_of_squares());
    summary.compute_s = context_.compute().own_seconds((context_.clock().now() - start).count());
    return summary;
}

/// The delta of this member's local steps; nothing when its group broke.
std::optional<RoundSummary> MemberRounds::step_locally(const RoundOrder& order,
                                                       const RoundMember& mine,
                                                       const LoadedBatch* batch) {
    delta_.assign(static_cast<std::size_t>(floats_), 0.0F);
    AllReduce* group = group_of(order, mine);
    if (batch == nullptr) {
        return group == nullptr || pass_on_steps(order, *group) ? std::optional(RoundSummary())
                                                                : std::nullopt;
    }
    if (!local_) {
        local_ = std::make_unique<LocalSteps>(context_, floats_);
    }
    const WorkOrder work{.work = order.work, .steps = order.steps, .lr = order.lr, .group = {}};
    const auto done = local_->run(*batch, work, group, order.group_round, delta_, {});
    if (!done) {
        return std::nullopt;
    }
    // The lease's, also when numbers that are not finite have ended the steps early; the round is
    // aborted by the member whose own they are.
    return RoundSummary{.samples = mine.samples,
                        .loss_sum = done->result.loss_sum,
                        .correct = done->result.correct,
                        .finite = done->own_finite,
                        .compute_s = done->compute_s,
                        .gradient_norm = std::sqrt(done->squares)};
}

/// A member without samples in the steps of its group; they end early when a member's numbers are
/// not finite. False when the group broke.
bool MemberRounds::pass_on_steps(const RoundOrder& order, AllReduce& group) const {
    for (std::int32_t step = 0; step < order.steps; ++step) {
        const std::span<float> buffer =
            group.begin(order.group_round + static_cast<std::uint64_t>(step));
        context_.compute().fill_zero(group, buffer);
        group.finish(pack_summary(RoundSummary{}));
        const auto summaries = unpack_summaries<RoundSummary>(group.wait());
        if (!summaries) {
            return false;
        }
        if (std::any_of(summaries->begin(), summaries->end(),
                        [](const RoundSummary& summary) { return !summary.finite; })) {
            break;
        }
    }
    return true;
}

/// The exchange of this member's group of consecutive members; null when it is alone, or nobody in
/// it has samples. It breaks with any member of the round: the others of the group may never come,
/// since theirs is not begun any more.
AllReduce* MemberRounds::group_of(const RoundOrder& order, const RoundMember& mine) {
    const auto wide = static_cast<std::size_t>(std::max(order.group, 1));
    const auto self = static_cast<std::size_t>(&mine - order.members.data());
    const std::size_t begin = self / wide * wide;
    const std::size_t end = std::min(begin + wide, order.members.size());
    const auto group = std::span(order.members).subspan(begin, end - begin);
    const bool samples = std::any_of(group.begin(), group.end(),
                                     [](const RoundMember& one) { return one.samples > 0; });
    if (group.size() < 2 || !samples) {
        return nullptr;
    }
    const AllReduceScope scope{.watched = ranks_of(order.members), .epoch = order.membership};
    return &exchange(order.group_ring + begin / wide, ranks_of(group), scope);
}

double share(const RoundOrder& order, std::int64_t samples) noexcept {
    std::int64_t all = 0;
    for (const RoundMember& member : order.members) {
        all += member.all_samples();
    }
    return static_cast<double>(samples) / static_cast<double>(all);
}

}  // namespace cohort
