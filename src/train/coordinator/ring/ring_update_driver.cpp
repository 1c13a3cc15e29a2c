#include "train/coordinator/ring/ring_update_driver.hpp"

#include <utility>
#include <variant>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

std::vector<int> nodes_of(const RankMap& map) {
    std::vector<int> nodes;
    for (int worker = 0; worker < map.workers(); ++worker) {
        nodes.push_back(map.ranks[static_cast<std::size_t>(map.rank_of_worker(worker))].node);
    }
    return nodes;
}

}  // namespace

RingUpdateDriver::RingUpdateDriver(CommContext comm, const JobContext& parts,
                                   UpdateObserver& observer)
    : ring_(*this, nodes_of(comm.map)),
      context_{.comm = comm, .parts = parts, .observer = observer, .ring = ring_},
      gradients_(context_),
      leases_(context_, gradients_),
      roles_(context_),
      riders_(context_, leases_, gradients_, roles_),
      requests_(context_),
      orders_(context_, gradients_, roles_, requests_),
      results_(context_, leases_, gradients_, riders_, requests_),
      losses_(context_, leases_, roles_, riders_, requests_, results_) {
}

int RingUpdateDriver::begin(const BeginOrder& order, const UpdateExtras& extras) {
    for (int worker = 0; worker < ring_.roster.workers(); ++worker) {
        context_.send(worker, MessageKind::kBegin, order);
    }
    ring_.plans.place(context_.engine().plan());
    leases_.resize(ring_.roster.members(), false, {});
    const bool asked = extras.evaluation != 0 || !extras.snapshot.empty();
    const int parts = asked ? request(extras) : 0;
    go_on();
    return parts;
}

bool RingUpdateDriver::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kRoundDone:
            // One that was lost and is back may have gone on alone with what it was granted.
            if (ring_.roster.is_member(context_.comm.map.worker_of_rank(message.from.rank))) {
                reported(decode<RoundReport>(message.body));
            }
            return true;
        case MessageKind::kPushReport: riders_.take_report(decode<PushReport>(message.body)); break;
        case MessageKind::kPushReceived:
            riders_.take_staged(decode<PushReceived>(message.body));
            break;
        case MessageKind::kSaved:
            requests_.saved(decode<SavedPart>(message.body));
            return false;  // others want these two
        case MessageKind::kGathered:
            requests_.gathered(decode<GatheredHeader>(message.body));
            return false;
        default:
            if (!handle_ring(message)) {
                return false;
            }
    }
    go_on();
    return true;
}

bool RingUpdateDriver::handle_ring(const Message& message) {
    switch (static_cast<RingMessageKind>(message.kind)) {
        case RingMessageKind::kRoleTaken:
            losses_.role_taken(decode<RoleTaken>(message.body));
            return true;
        case RingMessageKind::kRecovered:
            losses_.recovered(decode<Recovered>(message.body));
            return true;
        default: return false;
    }
}

/// While a member is being brought up its parameters may be old.
int RingUpdateDriver::request(const UpdateExtras& extras) {
    return requests_.request(extras, !losses_.recovering());
}

void RingUpdateDriver::install(PlanChange change) {
    ring_.plans.install(std::move(change), !losses_.recovering());
    go_on();
}

void RingUpdateDriver::lost(int worker) {
    losses_.lost(worker);
    go_on();
}

void RingUpdateDriver::joined(int worker) {
    losses_.joined(worker);
    go_on();
}

void RingUpdateDriver::give_role(int worker, RingRole role, int parent) {
    roles_.move(worker, role, parent);
}

void RingUpdateDriver::enter(int worker, int giver) {
    roles_.bring(worker, giver);
}

/// 1. A plan that waits is put in force when the fence is reached; until then the ring goes on for
/// as long as others hand in what they work on. 2. Leases. 3. Grants.
void RingUpdateDriver::go_on() {
    if (context_.session().stopping() || losses_.recovering()) {
        return;
    }
    if (ring_.plans.ready()) {
        if (!ring_.rounds.empty()) {
            orders_.halt();
            return;
        }
        switch_over();
    }
    roles_.send_parameters();
    leases_.deal();
    while (Round* const next = ring_.rounds.grant(context_.engine().plan(),
                                                  context_.session().counts().samples_applied)) {
        orders_.send(*next);
    }
}

void RingUpdateDriver::reported(const RoundReport& report) {
    if (ring_.rounds.empty() || ring_.rounds.rounds().front().number != report.round) {
        check_invariant(report.round <= results_.last(), "rounds end in the order of their grants");
        return;  // of a round that was settled in a recovery
    }
    results_.report(report, !losses_.recovering());
    losses_.note_departures();
    go_on();
}

void RingUpdateDriver::switch_over() {
    PlanChange next = ring_.plans.take();
    losses_.note_departures();
    UpdateEngine& engine = context_.engine();
    const Work work = engine.plan().work;
    for (const Effect& effect : engine.install(std::move(next.plan))) {
        check_invariant(std::holds_alternative<ReleaseOne>(effect), "a fence has nothing pending");
    }
    const SyncPlan& plan = engine.plan();
    leases_.resize(ring_.roster.members_of(plan), work != plan.work, std::move(next.batches));
    ring_.plans.switch_members(plan);
    riders_.adopt();
    context_.session().installed();
}

std::unique_ptr<UpdateDriver> make_ring_driver(CommContext comm, const JobContext& parts,
                                               UpdateObserver& observer) {
    return std::make_unique<RingUpdateDriver>(comm, parts, observer);
}

}  // namespace cohort
