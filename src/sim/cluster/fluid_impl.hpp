#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/cluster/fluid.hpp"
#include "sim/cluster/position_heap.hpp"
#include "sim/cluster/slot_table.hpp"

namespace cohort {

/// Values with an index, used again.
template <class T>
class IndexPool {
public:
    [[nodiscard]] std::uint32_t take() {
        if (free_.empty()) {
            values_.emplace_back();
            return static_cast<std::uint32_t>(values_.size() - 1);
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        return index;
    }
    void release(std::uint32_t index) { free_.push_back(index); }
    [[nodiscard]] T& operator[](std::uint32_t index) noexcept { return values_[index]; }
    [[nodiscard]] const T& operator[](std::uint32_t index) const noexcept { return values_[index]; }
    [[nodiscard]] std::size_t slots() const noexcept { return values_.size(); }

private:
    std::vector<T> values_;
    std::vector<std::uint32_t> free_;
};

/// Activities by what decides their rates, so that a change costs as much as there are different
/// rates, not activities:
///   route  the uses of an activity, known since the first activity that had them;
///   kind   activities of a route with the same limit: equal rates, always;
///   path   those uses of a route that other routes have as well. A resource that only one route
///          uses is divided by its n activities alone: it is a limit, capacity / (share * n);
///   tier   kinds with the same path and limit: equal rates as long as they stay in it.
/// A tier counts the units that each of its activities has got (`passed`); an activity ends when
/// that reaches its mark. So a tier whose rate changes has one new finishing time, whatever the
/// number of its activities. Heaps by mark of a kind's activities and a tier's kinds, and one by
/// time of the tiers, find the next. What a group's activities take of its members is counted for
/// the group; a member adds what is counted for itself.
struct FluidNetwork::Impl {
    using Index = std::uint32_t;
    static constexpr Index kNone = ~Index{0};
    /// Moments nearer to each other than this, relative to the clock, are one.
    static constexpr double kMoment = 1e-13;
    /// A resource is full when this much more, relative, is wanted than it has.
    static constexpr double kSlack = 1e-12;
    /// Uses of routes without activities that are kept for the next activity.
    static constexpr std::size_t kIdleUses = std::size_t{1} << 20;

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
        bool over = false;           ///< waits for its turn to be told
        double work = 0;
        double mark = 0;          ///< over when its kind has passed this
        std::uint64_t order = 0;  ///< of beginning
        EventQueue::Action done;
    };
    struct Kind {
        Index route = kNone;
        Index tier = kNone;
        std::uint32_t position = 0;  ///< in its tier's heap, if it has members there
        bool queued = false;         ///< in that heap
        bool changed = false;        ///< in `changed_kinds`
        double limit = 0;
        double offset = 0;             ///< a tier's count less its kind's
        std::int64_t counted = 0;      ///< members, as its tier counts them
        PositionHeap<double> members;  ///< activities by mark
    };
    struct Route {
        std::vector<Use> uses;
        std::uint64_t hash = 0;
        double limit = 0;          ///< of one activity alone on its resources
        std::vector<Index> kinds;  ///< with activities
        Index narrow = kNone;      ///< path of what others use too; none: to be looked up
        Index full = kNone;        ///< path of all uses: while there are several kinds
        double through = 0;        ///< units of activities that are over
        bool known = false;
    };
    struct Tier {
        Index path = kNone;
        std::uint32_t position = 0;  ///< in `times`
        bool changed = false;        ///< in `changed_tiers`
        std::int64_t members = 0;    ///< activities
        double limit = 0;
        double rate = 0;
        double passed = 0;  ///< units of each activity by `since`
        double since = 0;
        PositionHeap<double> kinds;  ///< by mark of the first member, in the tier's count
    };
    struct Path {
        std::vector<Use> uses;
        std::vector<int> counts;  ///< by use: an activity's part in Load::rising
        std::uint64_t hash = 0;
        std::vector<Index> tiers;  ///< limits ascending
        std::int64_t members = 0;
        ExactSum wanted;       ///< rates of all at their limits
        double counted = 0;    ///< of that, by resources and groups
        bool bound = false;    ///< not all rates are at their limits
        bool changed = false;  ///< in `changed_paths`
        bool known = false;
        std::uint64_t visited = 0;
        std::size_t held = 0;  ///< while rates are worked out: tiers that rise no more
    };
    /// While rates are worked out.
    struct Load {
        double weight = 0;        ///< shares of the activities that rise
        double held = 0;          ///< what the others take
        std::int64_t rising = 0;  ///< activities
    };
    /// What is used: a resource by itself, or a group.
    struct Used {
        double through = 0;          ///< by routes that are known no more
        std::vector<Index> routes;   ///< that name it
        std::vector<Index> paths;    ///< the same
        ExactSum wanted;             ///< by activities that name it, all at their limits
        bool changed = false;        ///< in `changed_resources` or `changed_groups`
        std::uint64_t visited = 0;   ///< while connecting
        std::uint64_t loosened = 0;  ///< group: in this settling already
        Load load;
    };
    struct Resource : Used {
        double capacity = 0;
        bool full = false;
        bool resized = false;      ///< its capacity changed
        std::uint64_t filled = 0;  ///< the last step at which it was
        std::vector<Use> groups;   ///< that it is a member of, with its share
        std::uint64_t named = 0;   ///< while a route is checked
    };
    struct Group : Used {
        std::vector<Use> members;
        std::vector<Index> full;   ///< of them
        std::uint64_t filled = 0;  ///< the last step at which members were
        int filled_members = 0;    ///< then
        bool known = true;
    };

    explicit Impl(EventQueue& events) : queue(events) {}

    // Activities, fluid.cpp.
    void change(Index kind);
    void ask_to_settle();
    [[nodiscard]] Index kind_of(Index route, double limit);
    [[nodiscard]] double passed(const Tier& tier) const;
    [[nodiscard]] double passed(const Kind& kind) const;
    void remove(Activity& activity);
    void rekey(Kind& kind, Index index);
    void retime(Tier& tier);
    void gather_due();
    void tell_next();
    void schedule();
    [[nodiscard]] double time_of(const Tier& tier) const;
    [[nodiscard]] double through(const Route& route) const;

    // Routes and paths, fluid_routes.cpp.
    [[nodiscard]] Index route_of(std::span<const Use> uses);
    Index add_route(std::span<const Use> uses, std::uint64_t hash);
    [[nodiscard]] Index path_of(Route& route);
    [[nodiscard]] Index find_path(const std::vector<Use>& uses);
    void check_uses(std::span<const Use> uses);
    void use_others(Used& used, Index route);
    [[nodiscard]] bool is_private(ResourceId id) const;
    [[nodiscard]] bool uses_some(const Use& use, ResourceId named) const;
    [[nodiscard]] double share_in(ResourceId resource, ResourceId group) const;
    [[nodiscard]] double limit_of(const Route& route) const;
    [[nodiscard]] double units(const Used& used, ResourceId id) const;
    void forget_idle();
    void forget_route(Index index);
    void forget_path(Index index);
    void forget_idle_paths();
    void forget_groups();
    void forget_uses(Group& group);

    // Rates, fluid_rates.cpp.
    void settle();
    void place(Index kind);
    void leave(Kind& kind);
    [[nodiscard]] Index tier_of(Index path, double limit);
    void count_members(Index tier, std::int64_t change);
    void change_path(Index path);
    void change_tier(Index tier);
    void change_used(ResourceId id);
    [[nodiscard]] bool drop_if_empty(Index tier);
    void count_wanted(Path& path);
    [[nodiscard]] double wanted(const Resource& resource) const;
    void judge_all();
    bool judge(Resource& resource);
    void change_bound(const Used& used);

    // Filling, fluid_fill.cpp.
    void connect(Index path);
    void connect_paths(const Used& used);
    void connect_resource(Index resource);
    void connect_group(Index group);
    void fill();
    void weigh(const Path& path, std::int64_t rising, double held);
    [[nodiscard]] double level_of(const Resource& resource) const;
    [[nodiscard]] double lowest_level() const;
    bool hold_limited(double level);
    void hold_full(double level);
    void hold_all(const Used& used, ResourceId id, double level);
    [[nodiscard]] bool uses_filled(const Path& path, ResourceId id) const;
    void hold(Path& path, std::size_t tiers_held, double level);
    void set_rate(Index tier, double rate);

    /// Groups have ids below 0.
    [[nodiscard]] static bool is_group(ResourceId id) noexcept { return id < 0; }
    [[nodiscard]] Resource& resource(ResourceId id) {
        return resources[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] const Resource& resource(ResourceId id) const {
        return resources[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] static std::size_t group_index(ResourceId id) noexcept {
        const ResourceId index = ~id;
        return static_cast<std::size_t>(index);
    }
    [[nodiscard]] Group& group(ResourceId id) { return groups[group_index(id)]; }
    [[nodiscard]] const Group& group(ResourceId id) const { return groups[group_index(id)]; }
    [[nodiscard]] Used& used(ResourceId id) {
        if (is_group(id)) {
            return group(id);
        }
        return resource(id);
    }

    EventQueue& queue;
    std::vector<Resource> resources;
    std::vector<Group> groups;
    std::vector<ResourceId> free_groups;     ///< ids that are used again
    std::vector<ResourceId> leaving_groups;  ///< to be forgotten when rates have been worked out
    SlotTable<Activity> activities;
    IndexPool<Kind> kinds;
    IndexPool<Route> routes;
    IndexPool<Tier> tiers;
    IndexPool<Path> paths;
    std::unordered_multimap<std::uint64_t, Index> route_table;
    std::unordered_multimap<std::uint64_t, Index> path_table;
    PositionHeap<double> times;  ///< tiers by finishing time of the next activity
    std::size_t idle_uses = 0;
    std::uint64_t begun = 0;

    bool settling = false;  ///< asked for
    std::vector<Index> changed_kinds;
    std::vector<Index> changed_paths;
    std::vector<Index> changed_resources;
    std::vector<Index> changed_groups;
    std::vector<Index> changed_tiers;
    std::uint64_t visit = 0;
    std::uint64_t step = 0;             ///< of filling
    std::vector<Index> part_paths;      ///< connected ones whose rates are being worked out
    std::vector<Index> part_resources;  ///< full ones among theirs
    std::vector<Index> part_groups;     ///< with full ones
    std::vector<Index> filled;          ///< resources at this step
    std::vector<Use> scratch;

    EventQueue::Id event = 0;
    double event_time = 0;
    std::vector<ActivityId> due;  ///< over at this moment, in order of beginning
    std::size_t told = 0;         ///< of those
};

}  // namespace cohort
