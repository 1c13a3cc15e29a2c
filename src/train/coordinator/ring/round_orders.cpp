#include "train/coordinator/ring/round_orders.hpp"

#include <algorithm>

#include "sched/engine/fire_sum.hpp"

namespace cohort {

void RoundOrders::send(Round& round) {
    weigh(round);
    RoundOrder order = order_of(round);
    order.ask_norm = gradients_.ask(round);
    requests_.attach(order, context_.observer.decide(context_.session().counts().samples_applied +
                                                     context_.ring.rounds.samples()));
    for (const RoundMember& member : round.members) {
        context_.send(member.worker, MessageKind::kRound, order);
    }
}

/// What the engine's fire will be worth: the round is over before the engine hears of it. And how
/// far the parameters of riders lag behind it.
void RoundOrders::weigh(Round& round) const {
    const UpdateEngine& engine = context_.engine();
    const double reached = context_.ring.rounds.reached(engine.reference_batches());
    round.noise_scale = gradients_.noise_scale();
    round.fraction = update_fraction(engine.plan(), round.work, round.samples,
                                     context_.parts.reference_batch, round.noise_scale);
    for (RoundMember& member : round.members) {
        for (RiderPush& rider : member.riders) {
            if (engine.plan().look_ahead) {
                rider.lag = std::max(reached - roles_.at(rider.push.worker).reference, 0.0);
            }
        }
    }
}

RoundOrder RoundOrders::order_of(const Round& round) {
    const SyncPlan& plan = context_.engine().plan();
    const Membership* const membership = context_.comm.membership;
    const RingIds::Names names = context_.ids.find(context_.ring.roster.members(), plan.group);
    RoundOrder order{.epoch = context_.epoch,
                     .round = round.number,
                     .membership = membership == nullptr ? 0 : membership->epoch(),
                     .ring = names.ring,
                     .keep = context_.ids.kept(),
                     .fraction = round.fraction,
                     .lr = round.lr,
                     .work = round.work,
                     .group_ring = names.group,
                     .members = round.members};
    if (round.work == Work::kDelta) {
        order.steps = round.steps;
        order.group = plan.group;
        order.group_round = group_rounds_ + 1;
        group_rounds_ += static_cast<std::uint64_t>(round.steps);
    }
    return order;
}

void RoundOrders::halt() {
    const HaltOrder order{.epoch = context_.epoch, .round = context_.ring.rounds.newest()};
    const bool said = halted_.epoch == order.epoch && halted_.round == order.round;
    if (context_.parts.options.deterministic || said || context_.ring.rounds.rounds().size() < 2 ||
        !requests_.empty()) {
        return;
    }
    halted_ = order;
    for (const int worker : context_.ring.roster.members()) {
        context_.send(worker, RingMessageKind::kHalt, order);
    }
}

}  // namespace cohort
