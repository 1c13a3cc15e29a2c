#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "cohort/sched/plan.hpp"
#include "cohort/sched/update_engine.hpp"
#include "sched/plan/ring_rules.hpp"
#include "sched/session/ring/ring_roster.hpp"

namespace cohort {

/// A member's lease for a round.
struct RoundLease {
    std::uint64_t lease = 0;  ///< 0: there is none for now
    std::uint32_t epoch = 0;
    std::int64_t samples = 0;
    std::int32_t steps = 1;  ///< local ones
};

/// Carries out what is decided about a ring: by messages to ranks, or on the virtual cluster.
class RingDriver {
public:
    RingDriver() = default;
    RingDriver(const RingDriver&) = delete;
    RingDriver& operator=(const RingDriver&) = delete;
    virtual ~RingDriver() = default;

    /// The run's learning rate once so many samples are applied.
    [[nodiscard]] virtual double learning_rate(std::int64_t samples) const = 0;
    /// Claims a member's next lease for a round.
    virtual RoundLease claim(int worker) = 0;
    /// Whether a rider's gradient can be part of the next round; one that is not finite is refused
    /// here.
    virtual bool usable(const PushId& push) = 0;
    /// Makes a worker a rider with this parent, or a rider that starts no mini-batch (kHold). A
    /// member goes on with the parameters it has.
    virtual void give_role(int worker, RingRole role, int parent) = 0;
    /// Makes a worker a member with everything that `giver` holds.
    virtual void enter(int worker, int giver) = 0;
};

/// Feeds the engine the pushes of a round that is over.
class RoundFeed {
public:
    RoundFeed() = default;
    RoundFeed(const RoundFeed&) = delete;
    RoundFeed& operator=(const RoundFeed&) = delete;
    virtual ~RoundFeed() = default;

    /// Gives the engine the push that was computed on this lease.
    virtual void push(std::uint64_t lease) = 0;
    /// Carries out what the engine decides.
    virtual void carry_out(const std::vector<Effect>& effects) = 0;
};

/// Decides what the next round is, while the one before it still runs: the next lease of each
/// member, and the gradients of riders that their parents hold by then. Keeps the rounds until they
/// are over. Pure.
class RoundScheduler {
public:
    RoundScheduler(const RingRoster& roster, RiderTracker& riders, RingDriver& driver)
        : roster_(roster), riders_(riders), driver_(driver) {}

    /// Grants a round when fewer than kGrantedRounds are granted. @param applied  samples
    /// @return null when there is nothing to train on, or enough is granted
    Round* grant(const SyncPlan& plan, std::int64_t applied);
    /// The granted rounds: those that are not over, oldest first.
    [[nodiscard]] const std::deque<Round>& rounds() const noexcept { return rounds_; }
    [[nodiscard]] bool empty() const noexcept { return rounds_.empty(); }
    /// The number of the round that was granted last.
    [[nodiscard]] std::uint64_t newest() const noexcept { return number_; }
    /// Samples of all granted rounds.
    [[nodiscard]] std::int64_t samples() const;
    /// Reference batches that are applied once all granted rounds are. @param applied  by now
    [[nodiscard]] double reached(double applied) const;

    /// The oldest round is over.
    Round take_oldest();
    /// The newest round is skipped: the members have not begun it, and the gradients of riders go
    /// with the next one.
    Round skip_newest();

private:
    void add_members(Round& next, const SyncPlan& plan, bool with_leases);
    void add_riders(Round& next);
    void add_rider(Round& next, const PushId& push);
    [[nodiscard]] std::optional<PushId> foreign_push(const SyncPlan& plan) const;

    const RingRoster& roster_;
    RiderTracker& riders_;
    RingDriver& driver_;
    std::deque<Round> rounds_;
    std::uint64_t number_ = 0;
};

/// Tells the engine of rounds that are over. Pure.
class RoundBooking {
public:
    RoundBooking(int workers, const RiderTracker& riders, RoundFeed& feed)
        : riders_(riders), feed_(feed), idle_(static_cast<std::size_t>(workers), false) {}

    /// A round is applied: its pushes, riders' first, of which the last one makes the engine fire.
    void apply(UpdateEngine& engine, const Round& round);
    /// A round is aborted: its members' leases come back. @param reasons  by member of the round
    void abort(UpdateEngine& engine, const Round& round, std::span<const ReturnReason> reasons);
    /// A rider's gradient is refused: its lease comes back.
    void refuse(UpdateEngine& engine, const PushTicket& ticket);
    /// The engine knows this worker as idle.
    void set_idle(int worker) { idle_.at(static_cast<std::size_t>(worker)) = true; }

private:
    void begin(UpdateEngine& engine, const RoundMember& member);

    const RiderTracker& riders_;
    RoundFeed& feed_;
    std::vector<bool> idle_;  ///< by worker, as the engine knows it
};

}  // namespace cohort
