#pragma once

#include <vector>

#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

/// When activities end: a heap of all tiers by the finishing time of their next activity, and one
/// event of the queue for the first of them.
class Completions {
public:
    Completions(State& state, Changes& changes) : state_(state), changes_(changes) {}

    /// Puts an activity with `units` of work left into a kind.
    void add(Activity& activity, std::uint32_t slot, Index kind, double units);
    /// Takes an activity out of its kind.
    void remove(Activity& activity);

    /// Adds a tier without activities, or removes one.
    void add_tier(Index index);
    void remove_tier(Index index);
    /// The tier's rate or its first activity has changed.
    void retime(Tier& tier);
    /// The kind's first activity has changed: gives the kind its position in its tier's heap.
    void requeue(Kind& kind, Index index);
    /// Takes the kind out of its tier's heap.
    void unqueue(Kind& kind);

    /// Sets the event for the next end.
    void schedule();

private:
    [[nodiscard]] double time_of(const Tier& tier) const;
    void gather_due();
    void report_next();

    State& state_;
    Changes& changes_;
    PositionHeap<double> times_;  ///< tiers by finishing time of the next activity
    EventQueue::Id event_ = 0;
    double event_time_ = 0;
    std::vector<ActivityId> due_;  ///< activities that are over at this moment, oldest first
    std::size_t reported_ = 0;     ///< how many of them have been reported
};

}  // namespace cohort::fluid
