#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sched/session/effect_interpreter.hpp"
#include "sched/session/lease_dispatcher.hpp"
#include "sched/session/training_session.hpp"
#include "sched/session/work_planner.hpp"

namespace cohort {

/// Carries out orders that only jobs with parameter servers have: as messages to real ranks, or as
/// work on the virtual cluster.
class ServerOrders {
public:
    ServerOrders() = default;
    ServerOrders(const ServerOrders&) = delete;
    ServerOrders& operator=(const ServerOrders&) = delete;
    virtual ~ServerOrders() = default;

    /// Whether a worker's pushes stay on its node under the plan in force.
    [[nodiscard]] virtual bool stages(int worker) const = 0;
    /// New leases, before the engine knows of them; then again, when they are to be worked on.
    virtual void prepare(const std::vector<DealtLease>& /*leases*/) {}
    virtual void deal(const std::vector<DealtLease>& leases) = 0;
    /// Whether a worker could work on a validation lease now.
    [[nodiscard]] virtual bool may_validate(int /*worker*/) const { return true; }
    virtual void deal_validation(const ValidationSampler::Dealt& lease) = 0;
    /// The worker shall not work on these leases, which return next.
    virtual void revoke(int /*worker*/, const std::vector<std::uint64_t>& /*leases*/) {}
    /// A plan is about to be installed.
    virtual void installing(const SyncPlan& /*plan*/) {}
    /// A lost worker begins anew, with parameters of the current version.
    virtual void joins(int /*worker*/) {}
    /// Nothing is pending and no worker has a lease: shards change their owners, then
    /// ServerScheduler::moved() is called. Not from within.
    virtual void move_shards() {}
    /// All orders that follow from an event have been given.
    virtual void flush() {}
};

/// The plan that waits for its fence, and the fence: leases are completed, none are dealt. Pure.
class PlanFence {
public:
    /// @param session  outlives it
    explicit PlanFence(TrainingSession& session) : session_(session) {}

    /// A plan waits. Of several the newest counts, with the newest batches that were given.
    void wait(PlanChange change) {
        if (next_ && change.batches.empty()) {
            change.batches = std::move(next_->batches);
        }
        next_ = std::move(change);
    }
    [[nodiscard]] bool waiting() const noexcept { return next_.has_value(); }
    /// Takes the waiting plan and opens the fence.
    [[nodiscard]] PlanChange take() {
        closed_ = move_ != Move::kNone;
        return *std::exchange(next_, std::nullopt);
    }

    /// Shards change their owners at the fence, and it stays closed until they have.
    enum class Move : std::uint8_t { kNone, kWanted, kUnderWay };
    void set_move(Move move) noexcept { move_ = move; }
    [[nodiscard]] Move move() const noexcept { return move_; }

    void close() noexcept { closed_ = true; }
    [[nodiscard]] bool closed() const noexcept { return closed_; }
    /// Nobody holds a lease that was not applied: all may start at once.
    [[nodiscard]] bool drained() const {
        return session_.leases().open().unpushed() == 0 && session_.engine().pending() == 0;
    }
    /// Opens the fence once it is drained; while a plan waits and the plan in force works in
    /// groups, only take() opens it. @return whether it is still closed
    bool holds() {
        const bool plan_waits = next_ && session_.engine().plan().group > 1;
        closed_ = closed_ && (plan_waits || move_ != Move::kNone || !drained());
        return closed_;
    }

private:
    TrainingSession& session_;
    std::optional<PlanChange> next_;
    Move move_ = Move::kNone;
    bool closed_ = false;
};

/// The leases of a job with parameter servers: deals those that the plan in force asks for, takes
/// them back, and knows which workers have none. Pure.
class ServerLeases {
public:
    /// The first three outlive it. @param ahead  workers hold leases before they use them, else
    /// they receive one when they are released
    ServerLeases(TrainingSession& session, EffectHandler& handler, ServerOrders& orders, bool ahead,
                 const ValidationSampler& validation);

    [[nodiscard]] EffectInterpreter& effects() noexcept { return effects_; }
    [[nodiscard]] PlanFence& fence() noexcept { return fence_; }
    [[nodiscard]] WorkerQueue& workers() noexcept { return workers_; }
    [[nodiscard]] const WorkPlanner& planner() const noexcept { return planner_; }

    ServerLeases(const ServerLeases&) = delete;
    ServerLeases& operator=(const ServerLeases&) = delete;
    ~ServerLeases() = default;

    /// Leases for those who need some; who gets none is idle.
    void deal();
    /// New leases are as the plan in force wants them.
    void shape();
    /// Who was too late twice in a row gets a lease that it can finish in time, in place of those
    /// that it holds.
    void shorten();
    /// A worker's leases return. @param begun  true: the lease that the worker computes on, too
    void take_back(int worker, ReturnReason reason, bool begun);
    /// Closes the fence. Leases on which no worker has begun to compute return.
    void begin_fence();
    /// Another plan takes over at the engine: work under it is dealt.
    void install(PlanChange next);
    /// A worker is gone, or is back and has no lease.
    void set_live(int worker, bool live);
    /// No worker of a group has parameters to compute on. Workers of a group wait for each other:
    /// when a worker has begun a round, all workers of its group finish the round.
    [[nodiscard]] bool quiet() const;
    /// Orders were given since the last call.
    [[nodiscard]] bool take_dealt() noexcept { return std::exchange(dealt_, false); }

private:
    void follow(const Effect& effect, bool held);
    [[nodiscard]] bool deal_once();
    [[nodiscard]] std::vector<DealtLease> deal_to_released();
    [[nodiscard]] bool announce_idle();
    [[nodiscard]] std::vector<int> without_lease();
    void deal_validation();
    [[nodiscard]] static std::size_t at(int worker) { return static_cast<std::size_t>(worker); }

    TrainingSession& session_;
    ServerOrders& orders_;
    bool ahead_;
    EffectInterpreter effects_;
    WorkPlanner planner_;
    ValidationSampler validation_;
    WorkerQueue workers_;
    PlanFence fence_;
    std::vector<bool> shortened_;  ///< by worker: has been dealt a shorter lease, for its lag
    std::uint32_t epoch_ = 0;      ///< of the newest lease
    bool dealt_ = false;           ///< since take_dealt()
};

/// The rules of parameter servers, for real and virtual jobs:
///  1. a worker that has parameters and a lease computes; its push is an event for the engine
///  2. what the engine decides is carried out; leases that it settled are replaced
///  3. workers for whom there is no lease are idle, and nobody waits for them
///  4. a plan that is installed while effects are being carried out follows them
/// Workers of a group wait for each other at every step, so the members of a group have the same
/// leases in the same order, and begin the same ones. Whatever would part them is a fence: leases
/// that nobody has begun return, those begun are completed, then all get new ones at once. Pure.
class ServerScheduler {
public:
    /// When workers receive leases. Real ones hold some, so that batches are loaded before they are
    /// used; virtual ones receive one when they are released, of the size that it would have had.
    enum class Dealing : std::uint8_t { kAhead, kOnRelease };

    /// The first three outlive it. @param seed  of validation leases @param epoch_samples  of the
    /// data that they are drawn from
    ServerScheduler(TrainingSession& session, EffectHandler& handler, ServerOrders& orders,
                    Dealing dealing, std::uint64_t seed, std::int64_t epoch_samples);

    /// All workers are about to receive their first parameters; deal() follows.
    void begin();
    /// A worker is sent parameters: it begins its oldest lease that it has not pushed.
    void release(int worker) { leases_.workers().released(worker); }
    /// A worker's push has arrived. False: it is not used since the run ends; else push() follows.
    [[nodiscard]] bool arrived(int worker);
    void push(const PushTicket& ticket);
    void deal();
    /// Installs another plan at the next fence, in which nothing is lost; of several that wait the
    /// newest counts, with the newest batches that were given.
    void install(PlanChange change);
    /// Shards change their owners at the next fence (ServerOrders::move_shards), in which nothing
    /// is lost; of several calls before it the first counts.
    void move();
    /// They have changed: work goes on.
    void moved();
    [[nodiscard]] bool moving() { return leases_.fence().move() != PlanFence::Move::kNone; }
    /// @param stranded  pushes whose payloads are lost with the worker
    void worker_lost(int worker, const std::vector<PushId>& stranded);
    void worker_joined(int worker);
    /// The end of the run: nobody works on a lease any more, and both accounts of samples agree.
    /// @return pushes that are not used
    [[nodiscard]] std::vector<PushId> close();

    [[nodiscard]] bool live(int worker) const { return leases_.planner().live(worker); }
    /// See ServerLeases.
    [[nodiscard]] bool quiet() const { return leases_.quiet(); }
    [[nodiscard]] EffectInterpreter& effects() noexcept { return leases_.effects(); }

private:
    template <class Event>
    void run(const Event& event);
    void deal_anew();
    void install_next();
    void move_next();

    TrainingSession& session_;
    ServerOrders& orders_;
    ServerLeases leases_;
    bool busy_ = false;  ///< an event is being worked on
};

}  // namespace cohort
