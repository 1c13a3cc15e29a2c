#include "train/worker/ring/ring_member.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cohort/core/error.hpp"
#include "layers/optim/vector_math.hpp"

namespace cohort {

bool RingMember::carry_out(const RoundOrder& order) {
    check_invariant(model_.begun(), "kBegin comes before the first round");
    if (!order.members.empty() && skips(order)) {
        return true;
    }
    if (!order.members.empty() && !round(order)) {
        return false;
    }
    ++done_;
    if (context_.worker() == order.reporter) {
        model_.snapshot(order.snapshot);
    }
    if (order.evaluation != 0) {
        evaluate(order);
    }
    return true;
}

bool RingMember::round(const RoundOrder& order) {
    const auto mine = std::find_if(
        order.members.begin(), order.members.end(),
        [this](const RoundMember& member) { return member.worker == context_.worker(); });
    if (mine == order.members.end()) {
        fail<PeerError>({.where = fmt::format("round {}", order.round),
                         .what = "it leaves this worker out",
                         .hint = "the same program on all ranks"});
    }
    const std::optional<MemberRounds::Sum> sum = rounds_.run(order, *mine, pushes_of(order, *mine));
    if (!sum) {
        return false;
    }
    model_.round_over(order.round);
    const bool finite = std::all_of(sum->summaries.begin(), sum->summaries.end(),
                                    [](const RoundSummary& summary) { return summary.finite; });
    double squares = std::numeric_limits<double>::quiet_NaN();
    if (finite) {
        if (order.work == Work::kGradient) {
            model_.clip(*sum);
        }
        if (order.ask_norm && context_.worker() == order.reporter) {
            squares = squares_of(*sum);
        }
        const Clock::Seconds start = context_.clock().now();
        model_.apply(order, *sum);
        rounds_.applied((context_.clock().now() - start).count());
    } else {
        rounds_.aborted(order);
    }
    model_.add_report(report_of(order, *sum, squares));
    if (finite) {
        release_riders(order, *mine);
    }
    if (context_.worker() == order.reporter) {
        context_.coordinator().tell(MessageKind::kRoundDone, model_.reports().back());
    }
    return true;
}

std::vector<AddedPush> RingMember::pushes_of(const RoundOrder& order,
                                             const RoundMember& mine) const {
    std::vector<AddedPush> added;
    for (const RiderPush& rider : mine.riders) {
        const auto staged = staged_.find(rider.push);
        check_invariant(staged != staged_.end(), "a granted push is received");
        added.push_back({staged->second, static_cast<float>(share(order, rider.samples))});
    }
    return added;
}

/// The riders whose gradients were in the update go on with its parameters.
void RingMember::release_riders(const RoundOrder& order, const RoundMember& mine) {
    for (const RiderPush& rider : mine.riders) {
        model_.send({.epoch = order.epoch,
                     .after = rider.push.sequence,
                     .incarnation = rider.push.incarnation,
                     .scalars = {},
                     .applied = true},
                    rider.push.worker, order.lr, rider.lag);
        staged_.erase(rider.push);
    }
}

/// Squared norm of the round's mean gradient.
double RingMember::squares_of(const MemberRounds::Sum& sum) const {
    const std::size_t parameters = context_.replica().parameters().size();
    std::vector<float> copied;
    if (sum.floats.empty() || sum.on_device) {
        copied.resize(parameters);
        context_.compute().copy(copied, sum.floats.empty() ? context_.replica().gradients()
                                                           : sum.floats.first(parameters));
    }
    return sum_of_squares(copied.empty() ? std::span<const float>(sum.floats.first(parameters))
                                         : std::span<const float>(copied));
}

RoundReport RingMember::report_of(const RoundOrder& order, const MemberRounds::Sum& sum,
                                  double squares) {
    for (const RoundSummary& summary : sum.summaries) {
        skip_ = std::max(skip_, summary.skip);
    }
    return {.round = order.round,
            .version = model_.version(),
            .members = sum.summaries,
            .exchange_s = sum.times.exchange_s,
            .exposed_s = sum.times.exposed_s,
            .skip = skip_ > order.round ? skip_ : 0,
            .squares = squares};
}

/// The i-th of n evaluators does part i of n.
void RingMember::evaluate(const RoundOrder& order) {
    const auto mine =
        std::find(order.evaluators.begin(), order.evaluators.end(), context_.worker());
    if (mine != order.evaluators.end()) {
        context_.evaluate({.id = order.evaluation,
                           .part = static_cast<std::int32_t>(mine - order.evaluators.begin()),
                           .parts = static_cast<std::int32_t>(order.evaluators.size())});
    }
}

void RingMember::restart() {
    rounds_.keep_only({});
    staged_.clear();
    leave();
}

}  // namespace cohort
