#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "sim/cluster/fluid_routes.hpp"
#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

/// Moments nearer to each other than this, relative to the clock, are one.
inline constexpr double kMoment = 1e-13;

/// Where the items of a pool keep their position in a heap.
template <class Pool>
auto positions(Pool& pool) {
    return [&pool](Index item) -> std::uint32_t& { return pool[item].position; };
}

/// When activities end: a heap of all tiers by the finishing time of their next activity, and one
/// event of the queue for the first of them.
class Completions {
public:
    explicit Completions(State& state) : state_(state) {}

    /// Puts an activity with `units` of work left into a kind.
    void add(Activity& activity, std::uint32_t slot, Index index, double units) {
        Kind& kind = state_.kinds[index];
        activity.kind = index;
        activity.mark = state_.passed(kind) + units;
        kind.members.push(activity.mark, slot, positions(state_.activities));
        state_.change_kind(index);
    }

    /// Takes an activity out of its kind.
    void remove(Activity& activity) {
        Kind& kind = state_.kinds[activity.kind];
        kind.members.remove(activity.position, positions(state_.activities));
        state_.change_kind(activity.kind);
        if (kind.tier != kNone) {
            requeue(kind, activity.kind);
            retime(state_.tiers[kind.tier]);
        }
    }

    /// Adds a tier without activities, or removes one.
    void add_tier(Index index) { times_.push(kUnlimited, index, positions(state_.tiers)); }

    void remove_tier(Index index) {
        times_.remove(state_.tiers[index].position, positions(state_.tiers));
    }

    /// The tier's rate or its first activity has changed.
    void retime(Tier& tier) {
        times_.change(tier.position, time_of(tier), positions(state_.tiers));
    }

    /// The kind's first activity has changed: gives the kind its position in its tier's heap.
    void requeue(Kind& kind, Index index) {
        if (kind.members.empty()) {
            unqueue(kind);
            return;
        }
        Tier& tier = state_.tiers[kind.tier];
        const double mark = kind.members.top_key() + kind.offset;
        if (std::exchange(kind.queued, true)) {
            tier.kinds.change(kind.position, mark, positions(state_.kinds));
        } else {
            tier.kinds.push(mark, index, positions(state_.kinds));
        }
    }

    /// Takes the kind out of its tier's heap.
    void unqueue(Kind& kind) {
        if (std::exchange(kind.queued, false)) {
            state_.tiers[kind.tier].kinds.remove(kind.position, positions(state_.kinds));
        }
    }

    /// Sets the event for the next end.
    void schedule() {
        double next = kUnlimited;
        if (!times_.empty()) {
            next = std::max(state_.queue.now(), times_.top_key());
        }
        if (event_ != 0 && event_time_ == next) {
            return;
        }
        state_.queue.cancel(event_);
        event_ = std::isinf(next) ? 0 : state_.queue.at(next, [this] { report_next(); });
        event_time_ = next;
    }

private:
    [[nodiscard]] double time_of(const Tier& tier) const {
        if (tier.kinds.empty()) {
            return kUnlimited;
        }
        const double left = tier.kinds.top_key() - tier.passed;
        if (left <= 0) {
            return tier.since;
        }
        return tier.rate > 0 ? tier.since + left / tier.rate : kUnlimited;
    }

    /// All activities that are over by now, in the order in which they began.
    void gather_due() {
        due_.clear();
        reported_ = 0;
        const double moment = state_.queue.now() * (1 + kMoment);
        while (!times_.empty() && times_.top_key() <= moment) {
            const Kind& kind = state_.kinds[state_.tiers[times_.top()].kinds.top()];
            const Index index = kind.members.top();
            Activity& activity = state_.activities[index];
            activity.over = true;
            state_.routes[kind.route].through += activity.work;
            due_.push_back(state_.activities.id_at(index));
            remove(activity);
        }
        std::sort(due_.begin(), due_.end(), [this](ActivityId a, ActivityId b) {
            return state_.activities.find(a)->order < state_.activities.find(b)->order;
        });
    }

    /// Reports one activity per event, so that what its end causes comes before the next report.
    void report_next() {
        event_ = 0;
        if (reported_ == due_.size()) {
            gather_due();
        }
        while (reported_ < due_.size()) {
            const ActivityId id = due_[reported_++];
            Activity* activity = state_.activities.find(id);
            if (activity == nullptr) {
                continue;  // cancelled when one before it was reported
            }
            const EventQueue::Action done = std::exchange(activity->done, nullptr);
            state_.activities.release(id);
            if (reported_ < due_.size()) {
                event_time_ = state_.queue.now();
                event_ = state_.queue.at(event_time_, [this] { report_next(); });
            }
            if (done) {
                done();
            }
            return;
        }
    }

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

    /// The kind of a route's activities with this limit and weight, made if there is none.
    [[nodiscard]] Index kind_of(Index route_index, double limit, double weight) {
        Route& route = state_.routes[route_index];
        for (const Index index : route.kinds) {
            if (state_.kinds[index].limit == limit && state_.kinds[index].weight == weight) {
                return index;
            }
        }
        const Index index = state_.kinds.take();
        Kind& kind = state_.kinds[index];
        kind.route = route_index;
        kind.tier = kNone;
        kind.queued = false;
        kind.limit = limit;
        kind.weight = weight;
        kind.counted = 0;
        if (route.kinds.empty()) {
            routes_.set_busy(route);
        } else if (route.kinds.size() == 1) {
            state_.change_kind(route.kinds.front());  // no longer alone on its route
        }
        route.kinds.push_back(index);
        return index;
    }

    /// A kind whose members or limit changed goes into the tier where it belongs now; one without
    /// activities is forgotten.
    void place(Index index) {
        Kind& kind = state_.kinds[index];
        kind.changed = false;
        if (kind.members.empty()) {
            forget(index);
            return;
        }
        Route& route = state_.routes[kind.route];
        const auto count = static_cast<std::int64_t>(kind.members.size());
        const double limit = std::min(kind.limit, route.limit / static_cast<double>(count));
        const Index tier = tier_of(paths_.path_of(route), limit, kind.weight);
        if (kind.tier != tier) {
            const double so_far = state_.passed(kind);
            leave(kind);
            kind.tier = tier;
            kind.offset = state_.passed(state_.tiers[tier]) - so_far;
        }
        count_members(tier, count - std::exchange(kind.counted, count));
        completions_.requeue(kind, index);
    }

    /// @return was the tier without activities?
    [[nodiscard]] bool drop_if_empty(Index index) {
        const Tier& tier = state_.tiers[index];
        if (tier.members > 0) {
            return false;
        }
        std::erase(state_.paths[tier.path].tiers, index);
        completions_.remove_tier(index);
        state_.tiers.release(index);
        return true;
    }

private:
    void forget(Index index) {
        Kind& kind = state_.kinds[index];
        Route& route = state_.routes[kind.route];
        leave(kind);
        std::erase(route.kinds, index);
        state_.kinds.release(index);
        if (route.kinds.empty()) {
            routes_.set_idle(route);
        } else if (route.kinds.size() == 1) {
            state_.change_kind(route.kinds.front());  // alone on its route from now on
        }
    }

    void leave(Kind& kind) {
        if (kind.tier != kNone) {
            completions_.unqueue(kind);
            count_members(kind.tier, -std::exchange(kind.counted, 0));
            kind.tier = kNone;
        }
    }

    [[nodiscard]] Index tier_of(Index path_index, double limit, double weight) {
        Path& path = state_.paths[path_index];
        const auto key_of = [](const Tier& tier) {
            return std::tuple(tier.level, tier.weight, tier.limit);
        };
        const auto wanted = std::tuple(limit / weight, weight, limit);
        const auto at = std::lower_bound(
            path.tiers.begin(), path.tiers.end(), wanted,
            [&](Index tier, const auto& key) { return key_of(state_.tiers[tier]) < key; });
        if (at != path.tiers.end() && key_of(state_.tiers[*at]) == wanted) {
            return *at;
        }
        const Index index = state_.tiers.take();
        Tier& tier = state_.tiers[index];
        tier.path = path_index;
        tier.changed = false;
        tier.members = 0;
        tier.limit = tier.rate = limit;
        tier.weight = weight;
        tier.level = limit / weight;
        tier.passed = 0;
        tier.since = state_.queue.now();
        path.tiers.insert(at, index);
        completions_.add_tier(index);
        return index;
    }

    void count_members(Index index, std::int64_t change) {
        Tier& tier = state_.tiers[index];
        Path& path = state_.paths[tier.path];
        path.wanted.add(-static_cast<double>(tier.members) * tier.limit);
        tier.members += change;
        path.members += change;
        path.weights += static_cast<double>(change) * tier.weight;
        path.wanted.add(static_cast<double>(tier.members) * tier.limit);
        if (path.members == 0) {
            path.wanted = {};
        }
        state_.change_tier(index);
        state_.change_path(tier.path);
    }

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
    void count_wanted(Path& path) {
        const double wanted = path.wanted.value();
        const double before = std::exchange(path.counted, wanted);
        if (wanted == before) {
            return;
        }
        for (const Use& use : path.uses) {
            Used& each = state_.used(use.resource);
            each.wanted.add(-use.share * before);
            each.wanted.add(use.share * wanted);
            state_.change_used(use.resource);
        }
    }

    /// Judges all that changed; paths that are or were held back there change too.
    /// A resource that becomes full, or is full no more, changes its groups' lists.
    void judge_all() {
        ++settlings_;
        for (const Index index : state_.changed.resources) {
            Resource& each = state_.resources[index];
            each.changed = false;
            judge(each);
        }
        state_.changed.resources.clear();
        std::size_t judged = 0;
        while (judged < state_.changed.groups.size()) {  // which grows meanwhile
            judge_group(state_.groups[state_.changed.groups[judged++]]);
        }
        state_.changed.groups.clear();
    }

private:
    void judge_group(Group& group) {
        group.changed = false;
        group.full.clear();
        for (const Use& member : group.members) {
            Resource& one = state_.resource(member.resource);
            judge(one);
            if (one.full) {
                group.full.push_back(static_cast<Index>(member.resource));
            }
        }
    }

    [[nodiscard]] double wanted(const Resource& each) {
        double sum = each.wanted.value();
        for (const Use& membership : each.groups) {
            sum += membership.share * state_.group(membership.resource).wanted.value();
        }
        return sum;
    }

    /// When a resource is full no more, the paths that it held back are free; when it is full
    /// because its capacity shrank, its paths are held back, none of which need have changed.
    void judge(Resource& each) {
        const bool was = each.full;
        each.full = wanted(each) > each.capacity * (1 + kSlack);
        const bool smaller = std::exchange(each.resized, false) && each.full;
        if (was == each.full && !smaller) {
            return;
        }
        change_paths(each);
        for (const Use& membership : each.groups) {
            Group& all = state_.group(membership.resource);
            if (std::exchange(all.loosened, settlings_) != settlings_) {
                change_paths(all);
            }
            if (was != each.full) {
                state_.change_used(membership.resource);
            }
        }
    }

    void change_paths(const Used& used) {
        for (const Index path : used.paths) {
            if (state_.paths[path].members > 0) {
                state_.change_path(path);
            }
        }
    }

    State& state_;
    std::uint64_t settlings_ = 0;
};

}  // namespace cohort::fluid
