#pragma once

#include <cstdint>
#include <vector>

#include "cohort/sched/plan.hpp"
#include "cohort/sched/update_engine.hpp"
#include "sched/plan/ring_rules.hpp"

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

}  // namespace cohort
