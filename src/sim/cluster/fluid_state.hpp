/// The parts of a FluidNetwork. Activities are grouped by what decides their rates, so that a
/// change costs as much as there are different rates, not activities:
///   route  the uses of an activity, known since the first activity that had them;
///   kind   activities of a route with the same limit and weight: equal rates, always;
///   path   those uses of a route that other routes have as well. A resource that only one route
///          uses is divided by its n activities alone: it is a limit, capacity / (share * n)
///          (one whose activities are of several kinds is no limit but part of the path);
///   tier   kinds with the same path, limit and weight: equal rates as long as they stay in it.
/// A tier counts the units that each of its activities has got (`passed`); an activity ends when
/// that count reaches its mark. So a tier whose rate changes has one new finishing time, whatever
/// the number of its activities. Heaps by mark of a kind's activities and of a tier's kinds, and
/// one by time of the tiers, find the next activity that ends. What a group's activities take of
/// its members is counted for the group; a member adds what is counted for itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/slot_table.hpp"

namespace cohort::fluid {

using Index = std::uint32_t;
using ResourceId = std::int32_t;
using ActivityId = std::uint64_t;  ///< 0: none; never used twice
/// `share` of the activity's rate is taken from the resource, or from the group.
struct Use {
    ResourceId resource = 0;
    double share = 1;
};

inline constexpr Index kNone = ~Index{0};
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();
/// A resource is full when this much more, relative, is wanted than it has.
inline constexpr double kSlack = 1e-12;

/// A sum of many terms that come and go, without drift (Knuth's two-sum).
struct ExactSum {
    double high = 0;
    double low = 0;
    void add(double term) noexcept {
        const double sum = high + term;
        const double part = sum - high;
        low += (high - (sum - part)) + (term - part);
        high = sum;
    }
    [[nodiscard]] double value() const noexcept { return high + low; }
};

struct Activity {
    Index kind = kNone;
    std::uint32_t position = 0;  ///< in its kind's heap
    bool over = false;           ///< its end has not been reported yet
    double work = 0;
    double mark = 0;          ///< over when its kind's count has passed this
    std::uint64_t order = 0;  ///< in which activities began
    EventQueue::Action done;
};

struct Kind {
    Index route = kNone;
    Index tier = kNone;
    std::uint32_t position = 0;  ///< in its tier's heap, if the kind has activities there
    bool queued = false;         ///< is in that heap
    bool changed = false;        ///< is in State::changed.kinds
    double limit = 0;
    double weight = 1;
    double offset = 0;             ///< the tier's count less the kind's
    std::int64_t counted = 0;      ///< activities, as its tier counts them
    PositionHeap<double> members;  ///< activities by mark
};

struct Route {
    std::vector<Use> uses;
    double limit = 0;          ///< rate of one activity alone on its resources
    std::vector<Index> kinds;  ///< with activities
    Index narrow = kNone;      ///< path of what other routes use too; kNone: to be looked up
    Index full = kNone;        ///< path of all uses, in force while there are several kinds
    double through = 0;        ///< units of activities that are over
    bool known = false;
};

struct Tier {
    Index path = kNone;
    std::uint32_t position = 0;  ///< in the heap of finishing times
    bool changed = false;        ///< is in State::changed.tiers
    std::int64_t members = 0;    ///< activities
    double limit = 0;
    double weight = 1;
    double level = 0;  ///< limit / weight: the level of filling at which it is at its limit
    double rate = 0;
    double passed = 0;  ///< units of each activity by `since`
    double since = 0;
    PositionHeap<double> kinds;  ///< by mark of the first member, in the tier's count
};

struct Path {
    std::vector<Use> uses;
    std::vector<int> counts;   ///< by use: an activity's part in Load::rising
    std::vector<Index> tiers;  ///< levels ascending
    std::int64_t members = 0;  ///< activities
    double weights = 0;        ///< sum over them
    ExactSum wanted;           ///< rates of all activities at their limits
    double counted = 0;        ///< the part of `wanted` that resources and groups know
    bool bound = false;        ///< not all rates are at their limits
    bool changed = false;      ///< is in State::changed.paths
    bool known = false;
    std::uint64_t visited = 0;  ///< by the search for connected paths
    std::size_t held = 0;       ///< during filling: tiers that rise no more
};

/// What a resource or group carries during filling.
struct Load {
    double weight = 0;        ///< sum of share * weight of the activities that rise
    double held = 0;          ///< what the other activities take
    std::int64_t rising = 0;  ///< activities that rise
};

/// What is used: a resource by itself, or a group.
struct Used {
    double through = 0;          ///< units of routes that were forgotten
    std::vector<Index> routes;   ///< that name it
    std::vector<Index> paths;    ///< that name it
    ExactSum wanted;             ///< by activities that name it, all at their limits
    bool changed = false;        ///< is in State::changed
    std::uint64_t visited = 0;   ///< by the search for connected paths
    std::uint64_t loosened = 0;  ///< a group: the last settling that changed all of its paths
    Load load;
};

struct Resource : Used {
    double capacity = 0;
    bool full = false;
    bool resized = false;      ///< its capacity changed
    std::uint64_t filled = 0;  ///< the last step of filling at which it was full
    std::vector<Use> groups;   ///< that it is a member of, with its share
    std::uint64_t named = 0;   ///< by the route that is being checked
};

struct Group : Used {
    std::vector<Use> members;
    std::vector<Index> full;   ///< members that are full
    std::uint64_t filled = 0;  ///< the last step of filling at which members were full
    int filled_members = 0;    ///< their number at that step
    bool known = true;
};

/// Groups have ids below 0.
[[nodiscard]] inline bool is_group(ResourceId id) noexcept {
    return id < 0;
}
[[nodiscard]] inline Index group_index(ResourceId id) noexcept {
    return static_cast<Index>(~id);
}

/// Everything that a network consists of; all its parts work on it.
struct State {
    /// @param on_settle is called once before the clock moves on after a change
    State(EventQueue& events, EventQueue::Action on_settle)
        : queue(events), settle(std::move(on_settle)) {}

    [[nodiscard]] Resource& resource(ResourceId id) {
        return resources[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] Group& group(ResourceId id) { return groups[group_index(id)]; }
    [[nodiscard]] Used& used(ResourceId id) {
        if (is_group(id)) {
            return group(id);
        }
        return resource(id);
    }
    /// The share by which a resource belongs to a group; 0: it is no member.
    [[nodiscard]] double share_in(ResourceId id, ResourceId group_id) const {
        for (const Use& group : resources[static_cast<std::size_t>(id)].groups) {
            if (group.resource == group_id) {
                return group.share;
            }
        }
        return 0;
    }

    /// Units that each activity has got by now, as its tier or its kind counts.
    [[nodiscard]] double passed(const Tier& tier) const {
        return tier.passed + tier.rate * (queue.now() - tier.since);
    }
    [[nodiscard]] double passed(const Kind& kind) const {
        return kind.tier == kNone ? 0 : passed(tiers[kind.tier]) - kind.offset;
    }
    /// Units that went over a resource or a group under that name.
    [[nodiscard]] double units(const Used& used, ResourceId id) const {
        double sum = used.through;
        for (const Index index : used.routes) {
            const Route& route = routes[index];
            for (const Use& use : route.uses) {
                if (use.resource == id) {
                    sum += use.share * through(route);
                }
            }
        }
        return sum;
    }

    void change_kind(Index index) {
        note(kinds[index].changed, changed.kinds, index);
        ask_to_settle();
    }
    /// All kinds of a route.
    void change_route(const Route& route) {
        for (const Index kind : route.kinds) {
            change_kind(kind);
        }
    }

    void change_path(Index index) { note(paths[index].changed, changed.paths, index); }
    void change_tier(Index index) { note(tiers[index].changed, changed.tiers, index); }
    void change_used(ResourceId id) {
        bool& known = used(id).changed;
        if (is_group(id)) {
            note(known, changed.groups, group_index(id));
        } else {
            note(known, changed.resources, static_cast<Index>(id));
        }
    }

    void ask_to_settle() {
        if (!std::exchange(settling, true)) {
            queue.settle_with(settle);
        }
    }

    EventQueue& queue;
    EventQueue::Action settle;
    bool settling = false;  ///< has been asked for
    struct {
        std::vector<Index> kinds;
        std::vector<Index> paths;
        std::vector<Index> resources;
        std::vector<Index> groups;
        std::vector<Index> tiers;
    } changed;  ///< since the last settling, each thing once
    std::vector<Resource> resources;
    std::vector<Group> groups;
    SlotTable<Activity> activities;
    IndexPool<Kind> kinds;
    IndexPool<Route> routes;
    IndexPool<Tier> tiers;
    IndexPool<Path> paths;

private:
    static void note(bool& known, std::vector<Index>& list, Index index) {
        if (!std::exchange(known, true)) {
            list.push_back(index);
        }
    }
    /// Units of all activities of the route so far.
    [[nodiscard]] double through(const Route& route) const {
        double sum = route.through;
        for (const Index index : route.kinds) {
            const Kind& kind = kinds[index];
            const double so_far = passed(kind);
            for (std::size_t i = 0; i < kind.members.size(); ++i) {
                const Activity& activity = activities[kind.members.at(i)];
                sum += activity.work - std::max(0.0, activity.mark - so_far);
            }
        }
        return sum;
    }
};

}  // namespace cohort::fluid
