#include "train/coordinator/ring/flow_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {

RingFlow::RingFlow(Links links, const JobParts& parts, RunBooks& books)
    : links_(links),
      parts_(parts),
      books_(books),
      seats_(static_cast<std::size_t>(links.map.workers())),
      gradients_(parts.reference_batch),
      unused_(seats_.size()) {
}

int RingFlow::begin(const BeginOrder& order, const UpdateExtras& extras) {
    for (int worker = 0; worker < links_.map.workers(); ++worker) {
        send(worker, MessageKind::kBegin, order);
    }
    place(books_.engine().plan());
    const bool asked = extras.evaluation != 0 || !extras.snapshot.empty();
    const int parts = asked ? request(extras) : 0;
    go_on();
    return parts;
}

bool RingFlow::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kRoundDone: reported(decode<RoundReport>(message.body)); return true;
        case MessageKind::kTicket: take_ticket(decode<Ticket>(message.body)); break;
        case MessageKind::kStaged: take_staged(decode<Staged>(message.body)); break;
        case MessageKind::kSaved: writing_.clear(); return false;  // the books want these two
        case MessageKind::kGathered:
            if (decode<GatheredHeader>(message.body).gather == gathering_.snapshot.gather) {
                gathering_ = {};
            }
            return false;
        default: return handle_ring(message);
    }
    go_on();
    return true;
}

bool RingFlow::handle_ring(const Message& message) {
    switch (static_cast<RingMessageKind>(message.kind)) {
        case RingMessageKind::kRoleTaken: role_taken(decode<RoleTaken>(message.body)); break;
        case RingMessageKind::kRecovered: recovered(decode<Recovered>(message.body)); break;
        default: return false;
    }
    go_on();
    return true;
}

std::vector<int> RingFlow::awaited() const {
    std::vector<int> ranks;  // of rounds the members' own waits say whom they wait for
    if (recovery_) {
        for (const int worker : members_) {
            const bool answered =
                std::any_of(recovery_->answers.begin(), recovery_->answers.end(),
                            [worker](const Recovered& answer) { return answer.worker == worker; });
            const std::uint64_t order = seats_[static_cast<std::size_t>(worker)].order;
            const auto& bringing = recovery_->bringing;
            if (!answered || std::find(bringing.begin(), bringing.end(), order) != bringing.end()) {
                ranks.push_back(links_.map.rank_of_worker(worker));
            }
        }
    }
    return ranks;
}

/// The worker that speaks for the ring: worker 0, which is never lost, if it is a member.
int RingFlow::reporter() const {
    return is_member(0) ? 0 : members_.front();
}

/// 1. A plan that waits is put in force when the fence is reached; until then the ring goes on for
/// as long as others hand in what they work on. 2. Leases. 3. Grants.
void RingFlow::go_on() {
    if (books_.stopping() || recovery_) {
        return;
    }
    if (queued_ && fence_ready()) {
        if (!granted_.empty()) {
            halt();
            return;
        }
        switch_over();
    }
    send_parameters();
    deal();
    while (granted_.size() < kGrantedRounds && grant()) {
    }
}

void RingFlow::deal() {
    for (LeaseDesk::Dealt& dealt : books_.leases().top_up()) {
        dealt.order.halves = seat(dealt.worker).role == RingRole::kRider &&
                             gradients_.halve(books_.engine().plan(), dealt.order.count, wish());
        send(dealt.worker, MessageKind::kLease, dealt.order);
    }
}

/// False when there is nothing to train on: no member has a lease, no rider's gradient is here.
bool RingFlow::grant() {
    Granted next;
    const std::optional<PushId> foreign = foreign_push();
    add_members(next, !foreign);
    if (foreign) {
        add_rider(next, *foreign);
    } else {
        add_riders(next);
    }
    if (next.samples == 0) {
        return false;
    }
    describe(next);
    for (const RoundMember& member : next.order.members) {
        send(member.worker, MessageKind::kRound, next.order);
    }
    granted_.push_back(std::move(next));
    return true;
}

void RingFlow::add_members(Granted& next, bool with_leases) {
    for (const int worker : members_) {
        const LeaseOrder lease = with_leases ? claim(worker).value_or(LeaseOrder()) : LeaseOrder();
        next.order.members.push_back(
            {.worker = worker, .lease = lease.lease, .samples = lease.count, .riders = {}});
        next.epoch = next.samples == 0 ? lease.epoch : next.epoch;
        next.samples += lease.count;
    }
}

/// Number, weights, learning rate, the exchange, and what follows the round.
void RingFlow::describe(Granted& next) {
    const SyncPlan& plan = books_.engine().plan();
    std::int64_t before = books_.samples_applied();
    for (const Granted& earlier : granted_) {
        before += earlier.samples;
    }
    RoundOrder& order = next.order;
    order.epoch = epoch_;
    order.round = ++rounds_;
    order.membership = links_.membership == nullptr ? 0 : links_.membership->epoch();
    order.lr = plan.lr_scale * parts_.schedule.lr(parts_.options.lr, before);
    const bool own = std::any_of(order.members.begin(), order.members.end(),
                                 [](const RoundMember& member) { return member.lease != 0; });
    if (own && plan.work == Work::kDelta) {
        order.work = Work::kDelta;
        order.steps = steps_of(order);
        order.group = plan.group;
        order.group_round = group_rounds_ + 1;
        group_rounds_ += static_cast<std::uint64_t>(order.steps);
    }
    next.noise_scale = noise_scale();
    order.fraction = fraction_of(next);
    order.question = gradients_.ask(fire_of(next), plan, wish());
    const RingIds::Names names = ids_.find(members_, plan.group);
    order.ring = names.ring;
    order.group_ring = names.group;
    order.keep = ids_.kept();
    next.extras = books_.decide(before + next.samples);
    ask(order, next.extras);
}

/// Leases that the end of an epoch cuts short have fewer steps, of the same size.
std::int32_t RingFlow::steps_of(const RoundOrder& order) const {
    std::int32_t steps = 1;
    for (const RoundMember& member : order.members) {
        const auto index = static_cast<std::size_t>(member.worker);
        const std::int64_t batch = batches_.empty() ? parts_.options.batch : batches_[index];
        steps = std::max(steps, local_steps_of(member.samples, batch, books_.engine().plan()));
    }
    return steps;
}

/// What the engine's fire will be worth: the round is over before the engine hears of it.
double RingFlow::fraction_of(const Granted& next) const {
    const SyncPlan& plan = books_.engine().plan();
    const auto batch = static_cast<double>(parts_.reference_batch);
    const auto samples = static_cast<double>(next.samples);
    const double f = samples / batch;
    const double phi = next.noise_scale;
    const bool gradient = next.order.work == Work::kGradient;
    if (gradient && plan.lr_unit == SyncPlan::LrUnit::kPublished) {
        return samples / static_cast<double>(plan.published_unit);
    }
    if (gradient && plan.lr_unit == SyncPlan::LrUnit::kAdaScale && phi > 0) {
        return f * (phi + batch) / (phi + f * batch);
    }
    return f;
}

void RingFlow::reported(const RoundReport& report) {
    if (granted_.empty() || granted_.front().order.round != report.round) {
        check_invariant(report.round <= reported_, "rounds end in the order of their grants");
        return;  // of a round that was settled in a recovery
    }
    const Granted granted = std::move(granted_.front());
    granted_.pop_front();
    settle(granted, report);
    if (!recovery_) {  // else the books have given up what it was to leave behind
        note_asked(granted.order, granted.extras);
        books_.taken(granted.extras,
                     std::max<int>(1, static_cast<int>(granted.order.evaluators.size())));
    }
    go_on();
}

/// The oldest lease of a worker that is in no round.
std::optional<LeaseOrder> RingFlow::claim(int worker) {
    std::deque<LeaseOrder>& unused = unused_[static_cast<std::size_t>(worker)];
    if (unused.empty()) {
        return books_.leases().claim(worker);
    }
    const LeaseOrder lease = unused.front();
    unused.pop_front();
    return lease;
}

std::unique_ptr<UpdateFlow> make_ring_flow(Links links, const JobParts& parts, RunBooks& books) {
    return std::make_unique<RingFlow>(links, parts, books);
}

}  // namespace cohort
