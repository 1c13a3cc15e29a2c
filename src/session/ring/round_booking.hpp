#pragma once

#include <span>
#include <vector>

#include "cohort/sched/update_engine.hpp"
#include "session/ring/rider_tracker.hpp"
#include "session/ring/ring_driver.hpp"
#include "session/ring/round.hpp"

namespace cohort {

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
