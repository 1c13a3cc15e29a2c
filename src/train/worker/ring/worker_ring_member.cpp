// What a member of a ring does with a grant.
#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"
#include "optim/vector_math.hpp"
#include "train/worker/ring/worker_ring_executor.hpp"

namespace cohort {

void RingExecutor::carry_out(const RoundOrder& order) {
    check_invariant(begun_, "kBegin comes before the first round");
    if (!order.members.empty() && order.round <= skip_) {
        return;  // all members skip it
    }
    if (!order.members.empty() && !round(order)) {
        broken_ = true;
        return;
    }
    ++done_;
    if (context_.worker() == order.reporter) {
        snapshot(order.snapshot);
    }
    if (order.evaluation != 0) {
        evaluate(order);
    }
}

/// False when a member was lost before the round was over here.
bool RingExecutor::round(const RoundOrder& order) {
    const auto mine = std::find_if(
        order.members.begin(), order.members.end(),
        [this](const RoundMember& member) { return member.worker == context_.worker(); });
    if (mine == order.members.end()) {
        fail<PeerError>({.where = fmt::format("round {}", order.round),
                         .what = "it leaves this worker out",
                         .hint = "the same program on all ranks"});
    }
    role_ = RingRole::kMember;
    const std::optional<MemberRounds::Sum> sum = rounds_.run(order, *mine, pushes_of(order, *mine));
    if (!sum) {
        return false;
    }
    last_round_ = order.round;
    GradientAnswer answer = RoundReport::kNoAnswer;
    if (std::all_of(sum->tails.begin(), sum->tails.end(),
                    [](const RingTail& tail) { return tail.finite != 0; })) {
        answer = answer_to(order, *sum);
        const Clock::Seconds start = context_.clock().now();
        apply(order, *sum);
        rounds_.applied((context_.clock().now() - start).count());
        release_riders(order, *mine);
    } else if (order.question.keep) {
        kept_.clear();
    }
    for (const RingTail& tail : sum->tails) {
        skip_ = std::max(skip_, tail.skip);
    }
    report(order, *sum, answer);
    return true;
}

/// Who reports the round says what was asked of its mean gradient; with any other member what was
/// kept there would be of another time when it is its turn again.
GradientAnswer RingExecutor::answer_to(const RoundOrder& order, const MemberRounds::Sum& sum) {
    GradientAnswer answer = RoundReport::kNoAnswer;
    const GradientQuestion& asked = order.question;
    if (!asked.any()) {
        return answer;
    }
    if (context_.worker() != order.reporter) {
        kept_.clear();
        return answer;
    }
    const std::size_t parameters = replica_.parameters().size();
    std::vector<float> copied;
    if (sum.floats.empty() || sum.on_device) {
        copied.resize(parameters);
        context_.compute().copy(
            copied, sum.floats.empty() ? replica_.gradients() : sum.floats.first(parameters));
    }
    const std::span<const float> gradient =
        copied.empty() ? std::span<const float>(sum.floats.first(parameters)) : copied;
    if (asked.norm) {
        answer.squares = sum_of_squares(gradient);
    }
    if (asked.compare && !kept_.empty()) {
        answer.product = dot(gradient, kept_);
        kept_.clear();
    }
    if (asked.keep) {
        kept_.assign(gradient.begin(), gradient.end());
    }
    return answer;
}

std::vector<AddedPush> RingExecutor::pushes_of(const RoundOrder& order,
                                               const RoundMember& mine) const {
    std::vector<AddedPush> added;
    for (const RiderPush& rider : mine.riders) {
        const auto staged = staged_.find(rider.push);
        check_invariant(staged != staged_.end(), "a granted push is here");
        added.push_back({staged->second, static_cast<float>(share(order, rider.samples))});
    }
    return added;
}

void RingExecutor::apply(const RoundOrder& order, const MemberRounds::Sum& sum) {
    const bool here = sum.on_device || replica_.device().kind() == DeviceKind::kCpu;
    std::span<const float> gradient = replica_.gradients();
    if (!sum.floats.empty()) {
        const std::span<float> summed = sum.floats.first(replica_.parameters().size());
        context_.compute().copy(replica_.batch_state(), sum.floats.subspan(summed.size()));
        if (here) {
            gradient = summed;
        } else {
            context_.compute().copy(replica_.gradients(), summed);
        }
    }
    if (order.work == Work::kDelta) {
        add_delta(gradient);
    } else {
        optimizer_->update(replica_.parameters(), gradient, order.fraction, order.lr);
    }
    replica_.fold_batch_statistics(kBatchNormMomentum, order.fraction);
    ++version_;
}

/// The mean change that the members' local steps made; the optimizer's state stays as it is.
void RingExecutor::add_delta(std::span<const float> delta) {
    if (const StepParts parts = context_.compute().step_parts(); parts.device != nullptr) {
        parts.device->math->add_scaled(replica_.parameters(), delta, 1);
    } else {
        add_scaled(replica_.parameters(), delta, 1);
    }
}

/// The riders whose gradients were in the update go on with its parameters.
void RingExecutor::release_riders(const RoundOrder& order, const RoundMember& mine) {
    for (const RiderPush& rider : mine.riders) {
        send_state({.epoch = order.epoch,
                    .after = rider.push.sequence,
                    .incarnation = rider.push.incarnation,
                    .scalars = {}},
                   rider.push.worker, order.lr, rider.lag);
        staged_.erase(rider.push);
    }
}

void RingExecutor::report(const RoundOrder& order, const MemberRounds::Sum& sum,
                          const GradientAnswer& answer) {
    RoundReport report{.round = order.round, .version = version_, .members = {}};
    for (const RingTail& tail : sum.tails) {
        report.members.push_back({.samples = tail.samples,
                                  .loss_sum = tail.loss_sum,
                                  .correct = tail.correct,
                                  .finite = tail.finite != 0,
                                  .input_s = tail.input_s,
                                  .compute_s = tail.compute_s,
                                  .gradient_norm = tail.gradient_norm,
                                  .load = tail.load});
    }
    report.skip = skip_ > order.round ? skip_ : 0;
    report.answer = answer;
    report.exchange_s = sum.times.exchange_s;
    report.exposed_s = sum.times.exposed_s;
    if (context_.worker() == order.reporter) {
        context_.coordinator().tell(MessageKind::kRoundDone, report);
    }
    last_report_ = std::move(report);
}

void RingExecutor::snapshot(const SnapshotOrder& order) {
    if (order.gather != 0) {
        const PackedState packed = pack_state(replica_, *optimizer_, false);
        const GatheredHeader header{.gather = order.gather, .version = version_, .part = 0};
        const std::span<const float> all = packed.all();
        context_.links()
            .messenger
            .start_transfer(CoordinatorLink::address(), Port::kWorker,
                            static_cast<std::uint16_t>(MessageKind::kGathered), encode(header),
                            std::as_bytes(all), ChunkOrder::kForward, packed.values)
            ->release(all.size_bytes());
    }
    if (!order.checkpoint.empty()) {
        const Clock::Seconds start = context_.clock().now();
        ShardSnapshot copied = copy_replica(replica_, *optimizer_, version_);
        const double pause_s = (context_.clock().now() - start).count();
        writer_.write(order.checkpoint, std::move(copied), pause_s);
    }
}

/// The i-th of n evaluators does part i of n.
void RingExecutor::evaluate(const RoundOrder& order) {
    const auto mine =
        std::find(order.evaluators.begin(), order.evaluators.end(), context_.worker());
    if (mine != order.evaluators.end()) {
        context_.evaluate({.id = order.evaluation,
                           .part = static_cast<std::int32_t>(mine - order.evaluators.begin()),
                           .parts = static_cast<std::int32_t>(order.evaluators.size())});
    }
}

}  // namespace cohort
