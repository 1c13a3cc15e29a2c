#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sched/run/gradient_desk.hpp"
#include "train/coordinator/ring/flow_ring_ids.hpp"
#include "train/coordinator/update_flow.hpp"
#include "train/protocol/protocol_ring.hpp"

namespace cohort {

/// The coordinator's side of a ring:
///  1. leases are dealt; a grant names each member's next one, the gradients of riders that their
///     parents hold by then, and fixes weights, learning rate and what follows the round, while the
///     round before it still runs
///  2. the members sum, update and go on; the first one reports the tails
///  3. the engine gets the pushes, riders' first; its fire is the update that the members have
///     already applied; a round with a tail that is not finite is void and its leases come back
/// A plan is installed where no round is under way (flow_ring_switch.cpp); what follows the loss of
/// a member is in flow_ring_losses.cpp, riders are in flow_ring_riders.cpp.
class RingFlow final : public UpdateFlow {
public:
    RingFlow(Links links, const JobParts& parts, RunBooks& books);

    int begin(const BeginOrder& order, const UpdateExtras& extras) override;
    bool handle(const Message& message) override;
    int request(const UpdateExtras& extras) override;
    [[nodiscard]] bool quiet() const override { return granted_.empty() && !recovery_; }
    void install(SyncPlan plan, std::vector<std::int64_t> batches) override;
    void lost(int worker) override;
    void joined(int worker) override;
    [[nodiscard]] std::vector<int> awaited() const override;
    [[nodiscard]] std::vector<int> evaluators() const override { return evaluators_; }

private:
    /// A grant whose round has not been reported.
    struct Granted {
        RoundOrder order;
        UpdateExtras extras;
        std::uint32_t epoch = 0;  ///< of the oldest lease
        std::int64_t samples = 0;
        std::vector<PushId> riders;  ///< in order of arrival
        double noise_scale = 0;      ///< that its fraction was reckoned with
    };
    /// What the coordinator knows of a worker.
    struct Seat {
        bool live = true;
        bool idle = false;         ///< as the engine knows it
        std::uint64_t pushes = 0;  ///< of the member, as the engine knows them
        bool left = false;         ///< lost, and the engine does not know it yet
        bool returned = false;     ///< with `left`: it has come back meanwhile
        // A rider's:
        RingRole role = RingRole::kMember;  ///< as ordered last
        int parent = 0;
        int parent_before = 0;
        int giver = 0;               ///< of the state that it awaits, or of its parameters
        std::uint64_t order = 0;     ///< number of its last role order
        bool taken = true;           ///< the order has been carried out
        std::uint64_t begun = 0;     ///< last push that it had begun then
        std::uint64_t settled = 0;   ///< last push that was applied, refused or void
        std::uint64_t fired_in = 0;  ///< round of its last push that was applied
        bool afresh = false;         ///< parameters are to be sent to it
        bool flush = false;          ///< a fence waits for what it had begun
        double reference = 0;        ///< reference batches in the parameters that it has
    };
    /// A rider's push that is not settled; complete when both are there.
    struct RiderWork {
        std::optional<Ticket> ticket;
        std::optional<int> parent;  ///< holds it
        bool granted = false;
    };
    struct Queued {
        SyncPlan plan;
        std::vector<std::int64_t> batches;
    };
    /// After the loss of a member: who has answered, then who is being brought up.
    struct Recovery {
        std::vector<Recovered> answers;
        std::vector<std::uint64_t> bringing;  ///< role orders that have not been carried out
        std::optional<RoundReport> report;    ///< of the round that some have completed
    };

    template <class Kind, class Body>
    void send(int worker, Kind kind, const Body& body) {
        send_order(links_, {links_.map.rank_of_worker(worker), Port::kWorker}, kind, body);
    }
    [[nodiscard]] Seat& seat(int worker) { return seats_.at(static_cast<std::size_t>(worker)); }
    [[nodiscard]] bool is_member(int worker) const;

    // Rounds (flow_ring.cpp).
    bool handle_ring(const Message& message);
    void go_on();
    void deal();
    [[nodiscard]] bool grant();
    void add_members(Granted& next, bool with_leases);
    void describe(Granted& next);
    void reported(const RoundReport& report);
    [[nodiscard]] std::int32_t steps_of(const RoundOrder& order) const;
    [[nodiscard]] double fraction_of(const Granted& next) const;
    [[nodiscard]] int reporter() const;
    [[nodiscard]] std::optional<LeaseOrder> claim(int worker);

    // Rounds that are over (flow_ring_settle.cpp).
    void settle(const Granted& granted, const RoundReport& report);
    void note_times(const Granted& granted, const RoundReport& report);
    void fire(const Granted& granted, const RoundReport& report, const BatchResult& result);
    [[nodiscard]] std::vector<PushTicket> tickets_of(const Granted& granted,
                                                     const RoundReport& report);
    [[nodiscard]] static std::vector<PushOutcome> outcomes_of(const Fire& fire);
    void tell_engine(const RoundMember& member);
    void void_round(const Granted& granted, const RoundReport& report);
    void give_back(int worker, std::uint64_t lease, ReturnReason reason);

    // What their gradients tell (flow_ring_gradients.cpp).
    [[nodiscard]] GradientWish wish() const;
    [[nodiscard]] double noise_scale() const;
    [[nodiscard]] Fire fire_of(const Granted& next) const;
    void answered(const Granted& granted, const RoundReport& report,
                  const std::vector<PushTicket>& tickets);
    void withdrawn(const Granted& granted);
    void halves(const Ticket& ticket);
    void learned_of_gradients();

    // What they leave behind (flow_ring_requests.cpp).
    int ask_now(const UpdateExtras& extras);
    void ask(RoundOrder& order, const UpdateExtras& extras);
    void note_evaluators();
    void note_asked(const RoundOrder& order, const UpdateExtras& extras);
    void ask_others(int lost);
    void fail_checkpoint();

    // Riders (flow_ring_riders.cpp).
    void take_ticket(const Ticket& ticket);
    void take_staged(const Staged& staged);
    void role_taken(const RoleTaken& taken);
    void refuse(const Ticket& ticket);
    void discard(int parent, const PushId& push);
    void add_riders(Granted& next);
    void add_rider(Granted& next, const PushId& push);
    [[nodiscard]] std::optional<PushId> foreign_push() const;
    [[nodiscard]] bool can_go(const PushId& push) const;
    [[nodiscard]] PushTicket ticket_of(const PushId& push) const;
    void riders_fired(const Granted& granted);
    void put_back(const Granted& granted);
    void forget_pushes(int worker);
    void void_begun(int worker);
    void take_off(const PushId& push);
    std::uint64_t give_role(int worker, RoleOrder order);
    void send_parameters();
    [[nodiscard]] int choose_parent(int rider, const std::vector<int>& members) const;
    [[nodiscard]] std::vector<RingSeat> ring_seats() const;

    // Plans (flow_ring_switch.cpp).
    void place(const SyncPlan& plan);
    void prepare_fence();
    [[nodiscard]] bool fence_ready() const;
    void halt();
    void skip(std::uint64_t last);
    void switch_over();
    void set_leases(bool other_work);
    void seat_members(const std::vector<int>& before);
    std::uint64_t bring(int worker, int giver);
    [[nodiscard]] std::vector<int> members_of(const SyncPlan& plan) const;

    // Losses (flow_ring_losses.cpp).
    [[nodiscard]] bool awaited_from(int worker) const;
    void start_recovery();
    void recovered(const Recovered& answer);
    [[nodiscard]] bool all_answered() const;
    void bring_up();
    void end_recovery();
    void release_riders(const Recovery& done, std::uint64_t round);
    [[nodiscard]] static std::uint64_t newest_round(const Recovery& done);
    void void_granted(const Granted& granted);
    void adopt_riders();
    [[nodiscard]] std::vector<PushId> stranded(int rider) const;
    void return_leases(int worker);
    void note_departures();

    Links links_;
    const JobParts& parts_;
    RunBooks& books_;
    std::vector<Seat> seats_;           ///< by worker
    std::vector<int> members_;          ///< in ring order
    std::map<PushId, RiderWork> work_;  ///< riders' pushes
    std::deque<PushId> ready_;          ///< of those, complete and not granted, in order of arrival
    std::deque<Granted> granted_;       ///< rounds that have not been reported, oldest first
    RingIds ids_;
    GradientDesk gradients_;
    std::uint64_t epoch_ = 0;  ///< counts losses of members
    std::uint64_t rounds_ = 0;
    std::uint64_t reported_ = 0;  ///< last round that was reported
    std::uint64_t group_rounds_ = 0;
    std::uint64_t orders_ = 0;  ///< role orders
    std::optional<Queued> queued_;
    bool halted_ = false;                         ///< the members have been told that a plan waits
    std::vector<std::deque<LeaseOrder>> unused_;  ///< by worker: claimed, in no round
    std::vector<std::int64_t> batches_;           ///< by worker, as installed; empty: --batch
    std::vector<std::int64_t> sizes_;             ///< of leases, by worker
    std::optional<Recovery> recovery_;
    std::string writing_;     ///< checkpoint that was ordered and not answered
    int writer_ = 0;          ///< worker that writes it
    UpdateExtras gathering_;  ///< snapshot that was ordered and has not come; gather 0: none
    int gatherer_ = 0;        ///< worker that sends it
    std::optional<UpdateExtras> later_;  ///< asked for while members are brought up
    std::vector<int> evaluators_;        ///< ranks, of the evaluation ordered last
};

}  // namespace cohort
