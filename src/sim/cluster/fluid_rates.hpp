#pragma once

#include <vector>

#include "sim/cluster/fluid_routes.hpp"
#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

/// When activities end: a heap of all tiers by the finishing time of their next activity, and one
/// event of the queue for the first of them.
class Completions {
public:
    explicit Completions(State& state) : state_(state) {}

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
    PositionHeap<double> times_;  ///< tiers by finishing time of the next activity
    EventQueue::Id event_ = 0;
    double event_time_ = 0;
    std::vector<ActivityId> due_;  ///< activities that are over at this moment, oldest first
    std::size_t reported_ = 0;     ///< how many of them have been reported
};

/// Keeps every kind in the tier where its members and limit belong.
class Tiers {
public:
    Tiers(State& state, RouteTable& routes, PathTable& paths, Completions& completions)
        : state_(state), routes_(routes), paths_(paths), completions_(completions) {}

    /// The kind of a route's activities with this limit, made if there is none.
    [[nodiscard]] Index kind_of(Index route, double limit);
    /// A kind whose members or limit changed goes into the tier where it belongs now; one without
    /// activities is forgotten.
    void place(Index kind);
    /// @return was the tier without activities?
    [[nodiscard]] bool drop_if_empty(Index tier);

private:
    void forget(Index kind);
    void leave(Kind& kind);
    [[nodiscard]] Index tier_of(Index path, double limit);
    void count_members(Index tier, std::int64_t change);

    State& state_;
    RouteTable& routes_;
    PathTable& paths_;
    Completions& completions_;
};

/// Knows which resources are full: more is wanted of them than they have. Only they hold
/// activities back.
class Bottlenecks {
public:
    explicit Bottlenecks(State& state) : state_(state) {}

    /// Tells what the path uses how much it wants now.
    void count_wanted(Path& path);
    /// Judges all that changed; paths that are or were held back there change too.
    void judge_all();

private:
    void judge_group(Group& group);
    [[nodiscard]] double wanted(const Resource& resource);
    void judge(Resource& resource);
    void change_paths(const Used& used);

    State& state_;
    std::uint64_t settlings_ = 0;
};

}  // namespace cohort::fluid
