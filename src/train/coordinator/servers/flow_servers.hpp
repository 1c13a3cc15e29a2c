#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cohort/core/clock.hpp"
#include "sched/engine/fire_sum.hpp"
#include "sched/plan/lease_work.hpp"
#include "sched/run/gradient_desk.hpp"
#include "sched/run/validation_desk.hpp"
#include "train/coordinator/servers/node_desk.hpp"
#include "train/coordinator/servers/push_arrivals.hpp"
#include "train/coordinator/update_flow.hpp"

namespace cohort {

/// The coordinator's side of parameter servers:
///  1. leases are dealt, servers release the first parameters
///  2. a push counts once its ticket is here and every server holds its payload; the engine
///     says what becomes of it
///  3. a fire goes to all servers in the same order, with what it carries; so all shards pass
///     through the same versions, and no message of one needs to wait for another
///  4. settled leases are replaced; workers without one are idle and nobody waits for them
/// Interrupts, losses and other plans take leases back: the worker is told which (kRevoke), and
/// gets others. A plan that is installed while effects are being carried out follows them.
///
/// Workers of a group wait for each other at every step, so the members of a group have the same
/// leases in the same order, and begin the same ones. Whatever would part them is a fence: leases
/// that nobody has begun come back, those begun are worked off, then all get new ones at once.
class ServersFlow final : public UpdateFlow {
public:
    ServersFlow(Links links, const JobParts& parts, RunBooks& books);

    int begin(const BeginOrder& order, const UpdateExtras& extras) override;
    bool handle(const Message& message) override;
    int request(const UpdateExtras& extras) override;
    [[nodiscard]] bool quiet() const override;
    void install(SyncPlan plan, std::vector<std::int64_t> batches) override;
    void lost(int worker) override;
    void joined(int worker) override;
    void lost_at_the_end(int worker) override;
    [[nodiscard]] std::vector<int> awaited() const override;
    [[nodiscard]] std::vector<int> evaluators() const override { return evaluators_; }

private:
    struct NextPlan {
        SyncPlan plan;
        std::vector<std::int64_t> batches;
    };
    /// What the shards that have answered say of an update's gradient.
    struct Measured {
        GradientAnswer answer;
        int parts = 0;
    };
    using Effects = std::vector<Effect>;

    // Messages (flow_servers.cpp).
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
    void discard(const PushId& push);
    void send_fire(FireOrder& order);
    [[nodiscard]] double learning_rate(double scale) const;
    void send_node_orders(const NodeDesk::Orders& orders);
    /// Does what an event asks for; a plan that was asked for meanwhile follows.
    template <class Event>
    void carry_out_event(const Event& event) {
        busy_ = true;
        event();
        busy_ = false;
        install_next();
        note_begun();
    }
    [[nodiscard]] bool current(const PushId& push) const;
    void arrived(const Ticket& ticket);
    void arrived(const Staged& staged);
    void arrived(const Summed& summed);
    void complete(const PushArrivals::Complete& push);
    void learn_from(const PushArrivals::Complete& push);
    [[nodiscard]] FireOrder releases_to_all(const UpdateExtras& extras);
    void note_evaluators(const FireOrder& order);
    void close();

    // Effects (flow_servers_effects.cpp).
    void carry_out(const Effects& effects);
    void carry_out(const Fire& fire);
    void sum_up(const Fire& fire, FireOrder& order, UpdateRecord& update);
    void carry_out(const ReleaseOne& release);
    void carry_out(const Refuse& refusal);
    void carry_out(const ReturnLease& lease);
    void interrupt(const Interrupt& interrupt, const ReturnLease* lease);
    [[nodiscard]] ReleaseOrder release(int worker, double lag,
                                       const EvaluationOrder& evaluation = {});
    [[nodiscard]] std::vector<double> coefficients(const Fire& fire) const;
    [[nodiscard]] GradientWish wish() const;
    void learned_of_gradients();
    void settle_books(const Fire& fire);

    // Leases (flow_servers_leases.cpp).
    void deal();
    bool deal_once();
    void deal_validation();
    void give_work(std::vector<LeaseDesk::Dealt>& dealt);
    void form_groups(std::vector<LeaseDesk::Dealt>& dealt);
    [[nodiscard]] LeaseShape lease_shape() const;
    void shape_leases();
    void shorten();
    void begin_fence();
    [[nodiscard]] bool worked_off() const;
    void take_back(int worker, ReturnReason reason, bool begun);
    /// Leases that a worker has not pushed.
    [[nodiscard]] std::size_t unpushed(int worker) const;
    [[nodiscard]] const WorkOrder* work_of(std::uint64_t lease) const;
    /// Tells the books who has begun an iteration since the last call.
    void note_begun();
    /// Notes whether a worker is idle; returns what it was.
    bool set_idle(int worker, bool idle);

    // Plans and members (flow_servers_members.cpp).
    void install_next();
    void put_in_force(NextPlan next);
    [[nodiscard]] std::vector<int> group_partners(int worker) const;
    [[nodiscard]] bool in_group_round(int worker) const;

    [[nodiscard]] static std::size_t at(int worker) { return static_cast<std::size_t>(worker); }

    Links links_;
    const JobParts& parts_;
    RunBooks& books_;
    SteadyClock clock_;
    PushArrivals arrivals_;
    std::map<PushId, Ticket> held_;              ///< given to the engine, neither fired nor refused
    std::map<std::uint64_t, WorkOrder> work_;    ///< of leases that are not plain gradients
    std::map<std::int64_t, Measured> measured_;  ///< by version
    NodeDesk nodes_;
    std::vector<NodeFreeOrder> frees_;  ///< for workers that are lost: told when they come back
    GradientDesk gradients_;
    ValidationDesk validation_;
    std::optional<NextPlan> next_plan_;
    bool busy_ = false;             ///< effects are being carried out
    bool fence_ = false;            ///< leases are worked off, none are dealt
    bool closed_ = false;           ///< the run is over: accounts are closed
    std::uint64_t generation_ = 0;  ///< of groups
    std::uint32_t epoch_ = 0;       ///< of the newest lease
    // By worker.
    std::vector<std::int64_t> batches_;  ///< samples of a gradient or local step
    std::vector<bool> live_;
    std::vector<bool> idle_;
    std::vector<int> evaluators_;  ///< ranks, of the evaluation ordered last
    std::vector<bool> released_;   ///< may compute: was sent parameters since its last push
    std::vector<bool> running_;    ///< the books know that it is at an iteration
    std::vector<bool> short_;      ///< has been dealt a shorter lease, for its lag
};

}  // namespace cohort
