#include "support/train/flow_rig.hpp"

#include <gtest/gtest.h>

namespace cohort::test {
namespace {

ParametersHeader header_of(int server, const FireOrder& order, const ReleaseOrder& release) {
    const bool again = release.again >= 0;
    return {.version = again ? release.again : order.update.version,
            .server = server,
            .evaluation = release.evaluation,
            .incarnation = release.incarnation,
            .way = again ? ParametersWay::kAgain : ParametersWay::kStraight};
}

}  // namespace

void FlowRig::Inbox::receive(ParametersHeader header) {
    const ShardRange& shard = layout.shards()[static_cast<std::size_t>(header.server)];
    header.begin = shard.begin;
    header.end = shard.end;
    (void)parameters.accept({{header.server, Port::kServer},
                             static_cast<std::uint16_t>(MessageKind::kParameters),
                             encode(header)},
                            static_cast<std::size_t>(shard.floats()) * sizeof(float));
    parameters.arrived(header);
}

void FlowRig::fire(int index, const FireOrder& order) {
    Server& server = servers[static_cast<std::size_t>(index)];
    if (order.update.version != server.version + (order.update.terms.empty() ? 0 : 1)) {
        throw std::logic_error("servers pass through all versions in order");
    }
    server.version = order.update.version;
    for (const UpdateTerm& term : order.update.terms) {
        if (server.staged.erase(term.push) == 0) {
            throw std::logic_error("an update wants a push that is not here");
        }
    }
    for (const ReleaseOrder& release : order.releases) {
        if (!workers.at(static_cast<std::size_t>(release.worker)).excluded) {
            server.down[static_cast<std::size_t>(release.worker)].push_back(
                header_of(index, order, release));
        }
    }
    std::vector<std::vector<int>> ranks;  // by stop
    for (const ParametersStop& stop : order.stops) {
        ranks.push_back(stop.from < 0 ? std::vector<int>()
                                      : ranks[static_cast<std::size_t>(stop.from)]);
        ranks.back().push_back(stop.rank);
        const bool live = std::ranges::none_of(ranks.back(), [&](int rank) {
            return workers.at(static_cast<std::size_t>(network.map().worker_of_rank(rank)))
                .excluded;
        });
        for (const ReleaseOrder& release : stop.releases) {
            ParametersHeader header = header_of(index, order, release);
            header.way = ParametersWay::kPassedOn;
            const auto worker = static_cast<std::size_t>(release.worker);
            if (live && !workers.at(worker).excluded) {
                server.passed_on[worker].emplace_back(header, ranks.back());
            }
        }
    }
    server.fires.push_back(order);
    server.stops += order.stops.size();
}

bool FlowRig::serve(int index) {
    Server& server = servers[static_cast<std::size_t>(index)];
    const auto message = network.messenger(index).mailbox(Port::kServer).receive(Clock::Seconds(0));
    if (!message) {
        return false;
    }
    switch (static_cast<MessageKind>(message->kind)) {
        case MessageKind::kFire: fire(index, decode<FireOrder>(message->body)); break;
        case MessageKind::kDiscard:
            for (const PushId& push : decode<DiscardOrder>(message->body).pushes) {
                if (server.staged.erase(push) == 0) {
                    server.discarded.insert(push);
                }
            }
            break;
        case MessageKind::kReference: {
            const PushId push = decode<ReferenceOrder>(message->body).push;
            if (server.staged.erase(push) == 0) {
                throw std::logic_error("a reference is not here");
            }
            server.reference = push;
            break;
        }
        case MessageKind::kReshard: {
            server.layout = decode<ShardLayout>(message->body).number;
            server.staged.clear();
            server.reference.reset();
            tell(index, Port::kServer, MessageKind::kResharded,
                 encode(ReshardedNote{.layout = server.layout, .server = index}));
            break;
        }
        default: break;
    }
    return true;
}

bool FlowRig::deliver_down(int server, int worker, bool passed_on) {
    Server& sender = servers[static_cast<std::size_t>(server)];
    auto& way = sender.down[static_cast<std::size_t>(worker)];
    auto& other_way = sender.passed_on[static_cast<std::size_t>(worker)];
    Worker& w = workers[static_cast<std::size_t>(worker)];
    if (w.frozen || (passed_on ? other_way.empty() : way.empty())) {
        return false;
    }
    w.inbox->receive(passed_on ? other_way.front().first : way.front());
    passed_on ? other_way.pop_front() : way.pop_front();
    return true;
}

bool FlowRig::deliver_up(int worker, int index) {
    Worker& w = workers[static_cast<std::size_t>(worker)];
    auto& way = w.up[static_cast<std::size_t>(index)];
    if (way.empty() || w.frozen) {
        return false;
    }
    const auto [push, layout] = way.front();
    way.pop_front();
    Server& server = servers[static_cast<std::size_t>(index)];
    if (layout > server.layout) {
        throw std::logic_error("a push is cut by a layout that its server does not know");
    }
    if (server.discarded.erase(push) == 0 && layout == server.layout) {
        server.staged.insert(push);
        const PushReceived staged{.push = push,
                                  .server = index,
                                  .reference_dot = server.reference ? 1.0 : 0.0,
                                  .reference_squares = server.reference ? 1.0 : 0.0};
        tell(index, Port::kServer, MessageKind::kPushReceived, encode(staged));
    }
    return true;
}

bool FlowRig::order(int worker) {
    Worker& w = workers[static_cast<std::size_t>(worker)];
    if (w.frozen) {
        return false;
    }
    const int rank = network.map().rank_of_worker(worker);
    const auto message = network.messenger(rank).mailbox(Port::kWorker).receive(Clock::Seconds(0));
    if (!message) {
        return false;
    }
    switch (static_cast<MessageKind>(message->kind)) {
        case MessageKind::kLease: w.leases.push_back(decode<LeaseOrder>(message->body)); break;
        case MessageKind::kRevoke: {
            const auto order = decode<RevokeOrder>(message->body);
            w.revoked.insert(order.leases.begin(), order.leases.end());
            w.revoked_up_to = std::max(w.revoked_up_to, order.up_to);
            w.leave.revoke(order);
            break;
        }
        case MessageKind::kJoin: {
            const auto order = decode<JoinOrder>(message->body);
            w.incarnation = order.incarnation;
            w.sequence = 0;
            w.revoked_up_to = std::max(w.revoked_up_to, order.leases_up_to);
            w.leases.clear();
            w.layout = order.layout.number;
            w.leave.join();
            w.inbox->parameters.begin_incarnation(order.incarnation);
            break;
        }
        case MessageKind::kReshard: w.layout = decode<ShardLayout>(message->body).number; break;
        default: break;
    }
    return true;
}

/// Complete parameters, the oldest first.
bool FlowRig::take_parameters(Worker& w) {
    auto taken = w.inbox->parameters.take();
    if (!taken) {
        return false;
    }
    if (taken->version < w.leave.version()) {
        throw std::logic_error("parameters are older than those before");
    }
    w.leave.parameters(taken->version);
    w.inbox->parameters.give_back(std::move(*taken));
    return true;
}

/// Where others of a group wait, a worker looks what has come first.
void FlowRig::begin(Worker& w, int worker) {
    if (!w.leases.front().work.group.empty() && order(worker)) {
        return;
    }
    const LeaseOrder lease = w.leases.front();
    w.leases.pop_front();
    if (revoked(w, lease.lease)) {
        return;
    }
    if (!lease.validation) {
        w.leave.begin(lease.lease);
    }
    w.computing =
        Computing{.order = lease,
                  .id = {.worker = worker, .incarnation = w.incarnation, .sequence = ++w.sequence},
                  .version = w.leave.version(),
                  .layout = w.layout};
    if (!lease.work.group.empty()) {
        w.computing->turn = ++w.turns[{lease.work.generation, lease.work.group}];
        w.computing->losses = group_losses(lease.work);
    }
}

/// All of its group are as far as this worker.
bool FlowRig::group_ready(const Computing& computing) {
    const WorkOrder& work = computing.order.work;
    return std::all_of(work.group.begin(), work.group.end(), [&](std::int32_t rank) {
        Worker& other = workers[static_cast<std::size_t>(network.map().worker_of_rank(rank))];
        return other.turns[{work.generation, work.group}] >= computing.turn;
    });
}

int FlowRig::group_losses(const WorkOrder& work) const {
    int losses = 0;
    for (const std::int32_t rank : work.group) {
        losses += workers[static_cast<std::size_t>(network.map().worker_of_rank(rank))].losses;
    }
    return losses;
}

void FlowRig::push(int worker, bool given_up, bool finite) {
    Worker& w = workers[static_cast<std::size_t>(worker)];
    const Computing done = *std::exchange(w.computing, std::nullopt);
    if (w.excluded) {
        return;  // whatever it sends is thrown away
    }
    for (auto& way : w.up) {
        way.push_back({done.id, done.layout});
    }
    const PushReport report{.ticket = {.id = done.id,
                                       .lease = done.order.lease,
                                       .version = done.version,
                                       .samples = done.order.count,
                                       .finite = finite,
                                       .loss_sum = 1,
                                       .correct = 1,
                                       .gradient_norm = 1,
                                       .work = done.order.work.work},
                            .times = {.input_s = 1, .compute_s = 2, .exchange_s = 4},
                            .given_up = given_up,
                            .validation = done.order.validation,
                            .halves = done.order.halves,
                            .first_squares = 9.0 / 5,
                            .second_squares = 1,
                            .layout = done.layout};
    tell(network.map().rank_of_worker(worker), Port::kWorker, MessageKind::kPushReport,
         encode(report));
}

bool FlowRig::work(int worker, bool finite) {
    Worker& w = workers[static_cast<std::size_t>(worker)];
    if (w.frozen) {
        return false;
    }
    if (!w.computing) {
        if (take_parameters(w)) {
            return true;
        }
        if (w.leave.held() && !w.leases.empty()) {
            begin(w, worker);
            return true;
        }
        return false;
    }
    const Computing& computing = *w.computing;
    const bool group = !computing.order.work.group.empty();
    if (computing.id.incarnation != w.incarnation ||
        (group && group_losses(computing.order.work) != computing.losses) ||
        (!group && revoked(w, computing.order.lease))) {
        if (computing.leaving) {
            push(worker, true, true);
        } else {
            w.computing.reset();
        }
        return true;
    }
    if (group && !group_ready(computing)) {
        return false;
    }
    if (!computing.leaving && !group) {
        w.computing->leaving = true;
        return true;
    }
    push(worker, false, finite);
    return true;
}

std::string FlowRig::describe() {
    std::string text = "plan " + run.engine().plan().name + ", version " +
                       std::to_string(run.engine().version()) + ", awaited";
    for (const int worker : run.engine().awaited()) {
        text += " " + std::to_string(worker);
    }
    for (std::size_t i = 0; i < workers.size(); ++i) {
        const Worker& w = workers[i];
        text += "\nworker " + std::to_string(i) + (w.excluded ? " away" : "") +
                (w.leave.held() ? " may start on " : " waits on ") +
                std::to_string(w.leave.version()) + ", leases";
        for (const LeaseOrder& lease : w.leases) {
            text += " " + std::to_string(lease.lease);
        }
        text += ", dealt";
        for (const std::uint64_t lease : run.leases().held_leases(static_cast<int>(i))) {
            text += " " + std::to_string(lease);
        }
        if (w.computing) {
            text += ", computes " + std::to_string(w.computing->order.lease) + " in a group of " +
                    std::to_string(w.computing->order.work.group.size()) + " generation " +
                    std::to_string(w.computing->order.work.generation) + " turn " +
                    std::to_string(w.computing->turn);
        }
    }
    return text;
}

bool FlowRig::sweep() {
    bool done = coordinator();
    for (int server = 0; server < static_cast<int>(servers.size()); ++server) {
        done = serve(server) || done;
        for (int worker = 0; worker < static_cast<int>(workers.size()); ++worker) {
            done = deliver_down(server, worker) || done;
            done = deliver_down(server, worker, true) || done;
            done = deliver_up(worker, server) || done;
        }
    }
    for (int worker = 0; worker < static_cast<int>(workers.size()); ++worker) {
        done = order(worker) || done;
        done = work(worker) || done;
    }
    return done;
}

void expect_true_outcomes(const FlowRig& rig) {
    std::set<PushId> applied;
    for (const auto& update : rig.run.updates) {
        for (const UpdateTerm& term : update.terms) {
            applied.insert(term.push);
        }
    }
    std::set<PushId> told;
    const auto check = [&](const ReleaseOrder& release) {
        const PushOutcomes& outcomes = release.outcomes;
        const std::uint64_t first = outcomes.newest - std::min<std::uint64_t>(outcomes.newest, 63);
        for (std::uint64_t sequence = first; sequence <= outcomes.newest; ++sequence) {
            const PushId push{release.worker, outcomes.incarnation, sequence};
            const auto outcome = outcomes.of(sequence);
            if (sequence > 0 && outcome != PushOutcomes::Outcome::kOpen) {
                ASSERT_EQ(outcome == PushOutcomes::Outcome::kApplied, applied.contains(push));
                told.insert(push);
            }
        }
    };
    for (const FireOrder& order : rig.servers.front().fires) {
        std::ranges::for_each(order.releases, check);
        for (const ParametersStop& stop : order.stops) {
            std::ranges::for_each(stop.releases, check);
        }
    }
    const auto unknown =
        std::ranges::count_if(applied, [&](const PushId& push) { return !told.contains(push); });
    EXPECT_LE(unknown, static_cast<std::ptrdiff_t>(applied.size() / 4 + 2 * rig.workers.size()));
}

}  // namespace cohort::test
