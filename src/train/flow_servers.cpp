#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <variant>

#include "cohort/core/error.hpp"
#include "update_flow.hpp"

namespace cohort {
namespace {

/// The coordinator's side of parameter servers:
///  1. leases are dealt, servers release the first parameters
///  2. a push counts once its ticket is here and every server holds its payload; the engine
///     says what becomes of it
///  3. a fire goes to all servers in the same order, with what it carries; so all shards pass
///     through the same versions, and no message of one needs to wait for another
///  4. settled leases are replaced; workers without one are idle and nobody waits for them
class ServersFlow final : public UpdateFlow {
public:
    ServersFlow(Links links, const JobParts& parts, RunBooks& books)
        : links_(links),
          parts_(parts),
          books_(books),
          idle_(static_cast<std::size_t>(links.map.workers()), false) {}

    void begin(const BeginOrder& order, const UpdateExtras& extras) override {
        for (int server = 0; server < links_.map.servers; ++server) {
            send_server(server, MessageKind::kBegin, order);
        }
        for (int worker = 0; worker < links_.map.workers(); ++worker) {
            send_worker(worker, MessageKind::kBegin, order);
        }
        send_servers(MessageKind::kFire, releases_to_all(extras));
        deal();
    }

    bool handle(const Message& message) override {
        switch (static_cast<MessageKind>(message.kind)) {
            case MessageKind::kTicket: {
                const auto ticket = decode<Ticket>(message.body);
                books_.spent(ticket.times.compute_s, ticket.times.exchange_s, 0);
                arriving_[ticket.push].ticket = ticket;
                look_at(ticket.push);
                return true;
            }
            case MessageKind::kStaged: {
                const auto staged = decode<Staged>(message.body);
                ++arriving_[staged.push].staged;
                look_at(staged.push);
                return true;
            }
            default: return false;
        }
    }

    int request(const UpdateExtras& extras) override {
        FireOrder order = releases_to_all(extras);
        if (extras.evaluation == 0) {
            order.releases.clear();  // nobody shall start again
        }
        send_servers(MessageKind::kFire, order);
        return links_.map.workers();
    }

    void install(SyncPlan /*plan*/, std::vector<std::int64_t> /*batches*/) override {
        check_invariant(false, "not built yet");
    }
    void lost(int /*worker*/) override { check_invariant(false, "not built yet"); }
    void joined(int /*worker*/) override { check_invariant(false, "not built yet"); }

    [[nodiscard]] bool quiet() const override { return true; }

    [[nodiscard]] std::vector<int> awaited() const override {
        std::vector<int> ranks;
        for (const int worker : books_.engine().awaited()) {
            ranks.push_back(links_.map.rank_of_worker(worker));
        }
        return ranks;
    }

private:
    struct Arriving {
        std::optional<Ticket> ticket;
        int staged = 0;  ///< servers that hold all of it
    };

    template <class Body>
    void send_worker(int worker, MessageKind kind, const Body& body) {
        send_order(links_, {links_.map.rank_of_worker(worker), Port::kWorker}, kind, body);
    }
    template <class Body>
    void send_server(int server, MessageKind kind, const Body& body) {
        send_order(links_, {links_.map.rank_of_server(server), Port::kServer}, kind, body);
    }
    template <class Body>
    void send_servers(MessageKind kind, const Body& body) {
        for (int server = 0; server < links_.map.servers; ++server) {
            send_server(server, kind, body);
        }
    }

    [[nodiscard]] FireOrder releases_to_all(const UpdateExtras& extras) {
        const int workers = links_.map.workers();
        FireOrder order;
        order.version = books_.engine().version();
        order.snapshot = extras.snapshot;
        for (int worker = 0; worker < workers; ++worker) {
            order.releases.push_back(
                {.worker = worker, .lag = 0, .evaluation = part(extras, worker, workers)});
        }
        return order;
    }

    static EvaluationOrder part(const UpdateExtras& extras, int part, int parts) {
        return extras.evaluation == 0
                   ? EvaluationOrder()
                   : EvaluationOrder{.id = extras.evaluation, .part = part, .parts = parts};
    }

    /// A push with ticket and payload is an event for the engine.
    void look_at(const PushId& push) {
        const auto found = arriving_.find(push);
        const Arriving& arriving = found->second;
        if (!arriving.ticket || arriving.staged < links_.map.servers) {
            return;
        }
        const Ticket ticket = *arriving.ticket;
        arriving_.erase(found);
        if (books_.stopping()) {  // its lease has come back already
            send_servers(MessageKind::kDiscard, DiscardOrder{{push}});
            return;
        }
        held_[push] = ticket;
        const std::vector<Effect> effects =
            books_.engine().push({.id = push,
                                  .lease = ticket.lease,
                                  .version = ticket.version,
                                  .samples = ticket.samples,
                                  .finite = ticket.finite,
                                  .loss_sum = ticket.loss_sum,
                                  .gradient_norm = ticket.gradient_norm});
        carry_out(effects);
        deal();
    }

    /// Leases for those who need some; who gets none is idle.
    void deal() {
        if (books_.stopping()) {
            return;
        }
        UpdateEngine& engine = books_.engine();
        for (const LeaseDesk::Dealt& dealt : books_.leases().top_up()) {
            if (set_idle(dealt.worker, false)) {
                carry_out(engine.resumed(dealt.worker));
            }
            engine.leased(dealt.worker, dealt.order.lease, dealt.order.count);
            send_worker(dealt.worker, MessageKind::kLease, dealt.order);
        }
        for (int worker = 0; worker < links_.map.workers(); ++worker) {
            if (books_.leases().held(worker) == 0 && !set_idle(worker, true)) {
                carry_out(engine.idle(worker));
            }
        }
    }

    /// Notes whether a worker is idle; returns what it was.
    bool set_idle(int worker, bool idle) {
        const auto index = static_cast<std::size_t>(worker);
        const bool was = idle_[index];
        idle_[index] = idle;
        return was;
    }

    void carry_out(const std::vector<Effect>& effects) {
        for (const Effect& effect : effects) {
            std::visit([this](const auto& one) { carry_out(one); }, effect);
        }
    }

    void carry_out(const Fire& fire) {
        // Summed in the order of leases, not of arrival: the same bits whatever the timing.
        std::vector<FiredPush> pushes = fire.pushes;
        std::sort(pushes.begin(), pushes.end(), [](const FiredPush& a, const FiredPush& b) {
            return a.ticket.lease < b.ticket.lease;
        });
        UpdateRecord update{
            .version = fire.version,
            .fraction = fire.fraction,
            .learning_rate = parts_.schedule.lr(parts_.options.lr, books_.samples_applied())};
        update.epoch = books_.leases().epoch_of(pushes.front().ticket.lease);
        FireOrder order{
            .version = fire.version, .fraction = fire.fraction, .lr = update.learning_rate};
        for (const FiredPush& push : pushes) {
            const auto held = held_.extract(push.ticket.id);
            check_invariant(!held.empty(), "a fired push is staged");
            order.pushes.push_back(
                {push.ticket.id, static_cast<double>(push.ticket.samples) * push.weight /
                                     static_cast<double>(fire.samples)});
            update.leases.push_back(push.ticket.lease);
            update.result.samples += push.ticket.samples;
            update.result.loss_sum += push.ticket.loss_sum;
            update.result.correct += held.mapped().correct;
            update.gradient_norm += push.ticket.gradient_norm / static_cast<double>(pushes.size());
        }
        const UpdateExtras extras = books_.decide(books_.samples_applied() + fire.samples);
        order.snapshot = extras.snapshot;
        // With snapshots gathered for evaluation nobody else evaluates.
        const bool split = extras.evaluation != 0 && extras.snapshot.gather == 0;
        const int parts = split ? static_cast<int>(fire.releases.size()) : 1;
        for (const Fire::Release& release : fire.releases) {
            const auto index = static_cast<int>(order.releases.size());
            order.releases.push_back(
                {.worker = release.worker,
                 .lag = release.lag,
                 .evaluation = split ? part(extras, index, parts) : EvaluationOrder()});
        }
        send_servers(MessageKind::kFire, order);
        books_.commit(update);
        books_.taken(extras, parts);
    }

    void carry_out(const ReleaseOne& release) {
        FireOrder order;
        order.version = release.version;
        order.lr = parts_.schedule.lr(parts_.options.lr, books_.samples_applied());
        order.releases.push_back({.worker = release.worker, .lag = release.lag});
        send_servers(MessageKind::kFire, order);
    }

    void carry_out(const Refuse& refusal) {
        send_servers(MessageKind::kDiscard, DiscardOrder{{refusal.push}});
        const auto held = held_.extract(refusal.push);
        if (refusal.reason == ReturnReason::kNonFinite && !held.empty()) {
            const Ticket& ticket = held.mapped();
            books_.drop(
                {.loss_sum = ticket.loss_sum, .correct = ticket.correct, .samples = ticket.samples},
                fmt::format("worker {}: {}", ticket.push.worker,
                            non_finite_reason(ticket.loss_sum, ticket.finite)));
        }
    }

    void carry_out(const Interrupt& /*interrupt*/) {
        check_invariant(false, "no mode on servers interrupts a mini-batch");
    }

    void carry_out(const ReturnLease& lease) {
        books_.leases().returned(lease.lease, lease.reason);
    }

    Links links_;
    const JobParts& parts_;
    RunBooks& books_;
    std::map<PushId, Arriving> arriving_;  ///< ticket or payload still on the way
    std::map<PushId, Ticket> held_;        ///< given to the engine, neither fired nor refused
    std::vector<bool> idle_;               ///< by worker
};

}  // namespace

std::unique_ptr<UpdateFlow> make_servers_flow(Links links, const JobParts& parts, RunBooks& books) {
    return std::make_unique<ServersFlow>(links, parts, books);
}

}  // namespace cohort
