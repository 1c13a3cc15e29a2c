#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

/// Uses of routes without activities that are kept for the next activity.
inline constexpr std::size_t kIdleUses = std::size_t{1} << 20;

/// The group among the uses; 0: there is none.
inline ResourceId group_of(const std::vector<Use>& uses) {
    const auto group = std::find_if(uses.begin(), uses.end(),
                                    [](const Use& use) { return is_group(use.resource); });
    return group == uses.end() ? 0 : group->resource;
}

/// Takes routes or paths that are forgotten from the lists of all resources and groups.
template <class Item>
void erase_unknown(State& state, const IndexPool<Item>& pool, std::vector<Index> Used::*list) {
    const auto unknown = [&pool](Index index) { return !pool[index].known; };
    for (Resource& each : state.resources) {
        std::erase_if(each.*list, unknown);
    }
    for (Group& each : state.groups) {
        std::erase_if(each.*list, unknown);
    }
}

/// Routes or paths of the state, found by their uses.
template <class T>
class UseTable {
public:
    explicit UseTable(IndexPool<T>& pool) : pool_(pool) {}

    /// @return kNone: none has these uses
    [[nodiscard]] Index find(std::span<const Use> uses) const {
        const auto same = [](const Use& x, const Use& y) {
            return x.resource == y.resource && x.share == y.share;
        };
        const auto [begin, end] = by_hash_.equal_range(hash_of(uses));
        for (auto it = begin; it != end; ++it) {
            const std::vector<Use>& known = pool_[it->second].uses;
            if (std::equal(known.begin(), known.end(), uses.begin(), uses.end(), same)) {
                return it->second;
            }
        }
        return kNone;
    }
    [[nodiscard]] Index add(std::span<const Use> uses) {
        const Index index = pool_.take();
        pool_[index].uses.assign(uses.begin(), uses.end());
        pool_[index].known = true;
        by_hash_.emplace(hash_of(uses), index);
        return index;
    }
    void remove(Index index) {
        T& item = pool_[index];
        const auto [begin, end] = by_hash_.equal_range(hash_of(item.uses));
        by_hash_.erase(
            std::find_if(begin, end, [index](const auto& one) { return one.second == index; }));
        item.known = false;
        item.uses = {};
        pool_.release(index);
    }

private:
    [[nodiscard]] static std::uint64_t hash_of(std::span<const Use> uses) {
        std::uint64_t hash = uses.size();
        for (const Use& use : uses) {
            hash = (hash ^ static_cast<std::uint64_t>(use.resource)) * 0x9e3779b97f4a7c15U;
            hash = (hash ^ (hash >> 29) ^ std::bit_cast<std::uint64_t>(use.share)) *
                   0xbf58476d1ce4e5b9U;
        }
        return hash ^ (hash >> 32);
    }

    IndexPool<T>& pool_;
    std::unordered_multimap<std::uint64_t, Index> by_hash_;
};

/// The routes of a network: found by their uses, forgotten when too many are idle.
class RouteTable {
public:
    RouteTable(State& state) : state_(state), table_(state.routes) {}

    /// The route with these uses, made if there is none. Errors: those of check_uses.
    [[nodiscard]] Index find_or_add(std::span<const Use> uses) {
        if (const Index known = table_.find(uses); known != kNone) {
            return known;
        }
        check_uses(uses);
        const Index index = table_.add(uses);
        Route& route = state_.routes[index];
        route.limit = limit_of(route);
        route.narrow = route.full = kNone;
        route.through = 0;
        set_idle(route);
        for (const Use& use : uses) {
            add_use(state_.used(use.resource), index);
        }
        return index;
    }

    /// Every resource exists and is named once; of a group's member the uses leave 0 or more.
    /// Errors: std::logic_error.
    void check_uses(std::span<const Use> uses) {
        ++checks_;
        ResourceId named = 0;
        for (const Use& use : uses) {
            if (!is_group(use.resource)) {
                continue;
            }
            if (named != 0 || group_index(use.resource) >= state_.groups.size() ||
                !state_.group(use.resource).known || use.share != 1) {
                throw std::logic_error(
                    "[FluidNetwork] an activity uses one group at most, by share 1");
            }
            named = use.resource;
        }
        for (const Use& use : uses) {
            if (is_group(use.resource)) {
                continue;
            }
            if (static_cast<std::size_t>(use.resource) >= state_.resources.size() ||
                !std::isfinite(use.share) || !uses_some(use, named) ||
                std::exchange(state_.resource(use.resource).named, checks_) == checks_) {
                throw std::logic_error(
                    "[FluidNetwork] an activity uses a resource that exists, once, by a share > 0; "
                    "got "
                    "resource " +
                    std::to_string(use.resource) + ", share " + std::to_string(use.share));
            }
        }
    }

    /// A route, or kNone for a group's membership, uses `used` from now on: if one route had it to
    /// itself, it does no more.
    void add_use(Used& used, Index index) {
        if (used.routes.size() == 1) {
            Route& other = state_.routes[used.routes.front()];
            other.narrow = kNone;
            state_.change_route(other);
        }
        if (index != kNone) {
            used.routes.push_back(index);
        }
    }

    /// The capacity of something that these routes use has changed.
    void renew_limits(const std::vector<Index>& routes) {
        for (const Index index : routes) {
            Route& route = state_.routes[index];
            route.limit = limit_of(route);
            state_.change_route(route);
        }
    }

    /// The route has its first activities, or has no activities any more.
    void set_busy(const Route& route) { idle_uses_ -= route.uses.size(); }
    void set_idle(const Route& route) { idle_uses_ += route.uses.size(); }
    /// Forgets all idle routes if there are too many, so that a run whose routes change all the
    /// time needs no more memory than its activities. @return were they forgotten?
    bool forget_idle() {
        if (idle_uses_ <= kIdleUses) {
            return false;
        }
        for (Index index = 0; index < state_.routes.slots(); ++index) {
            Route& route = state_.routes[index];
            if (route.known && route.kinds.empty()) {
                forget(index);
            }
            route.narrow = route.full = kNone;
        }
        erase_unknown(state_, state_.routes, &Used::routes);
        return true;
    }

    /// Forgets the routes that use a group; none of them has activities.
    void forget_users(Group& group) {
        for (const Index index : std::exchange(group.routes, {})) {
            for (const Use& use : state_.routes[index].uses) {
                std::erase(state_.used(use.resource).routes, index);
            }
            forget(index);
        }
    }

private:
    /// A share above 0, or less of a group's member than the group uses.
    [[nodiscard]] bool uses_some(const Use& use, ResourceId group) const {
        const double as_member = state_.share_in(use.resource, group);
        return use.share > 0 || (as_member > 0 && as_member + use.share >= 0);
    }

    /// Rate of an activity that has all its resources to itself.
    [[nodiscard]] double limit_of(const Route& route) const {
        double limit = kUnlimited;
        const auto hold = [&](ResourceId id, double share) {
            if (share > 0) {
                limit = std::min(limit, state_.resource(id).capacity / share);
            }
        };
        const ResourceId group = group_of(route.uses);
        for (const Use& use : route.uses) {
            if (!is_group(use.resource)) {
                hold(use.resource, use.share + state_.share_in(use.resource, group));
            }
        }
        if (group == 0) {
            return limit;
        }
        for (const Use& member : state_.group(group).members) {
            const bool own = std::any_of(route.uses.begin(), route.uses.end(), [&](const Use& use) {
                return use.resource == member.resource;
            });
            if (!own) {
                hold(member.resource, member.share);
            }
        }
        return limit;
    }

    void forget(Index index) {
        const Route& route = state_.routes[index];
        for (const Use& use : route.uses) {
            state_.used(use.resource).through += use.share * route.through;
        }
        set_busy(route);
        table_.remove(index);
    }

    State& state_;
    UseTable<Route> table_;
    std::size_t idle_uses_ = 0;  ///< uses of routes without activities
    std::uint64_t checks_ = 0;
};

/// The paths of a network.
class PathTable {
public:
    explicit PathTable(State& state) : state_(state), table_(state.paths) {}

    /// The path that the route's kinds belong to now.
    [[nodiscard]] Index path_of(Route& route) {
        if (route.kinds.size() > 1) {
            if (route.full == kNone) {
                route.full = find_or_add(route.uses);
            }
            return route.full;
        }
        if (route.narrow == kNone) {
            scratch_.clear();
            for (const Use& use : route.uses) {
                if (!is_private(use.resource)) {
                    scratch_.push_back(use);
                }
            }
            route.narrow = find_or_add(scratch_);
        }
        return route.narrow;
    }

    void forget_idle() {
        for (Index index = 0; index < state_.paths.slots(); ++index) {
            if (state_.paths[index].known && state_.paths[index].tiers.empty()) {
                table_.remove(index);
            }
        }
        erase_unknown(state_, state_.paths, &Used::paths);
    }

    /// Forgets the paths that use a group; none of them has activities.
    void forget_users(Group& group) {
        for (const Index index : std::exchange(group.paths, {})) {
            for (const Use& use : state_.paths[index].uses) {
                std::erase(state_.used(use.resource).paths, index);
            }
            table_.remove(index);
        }
    }

private:
    [[nodiscard]] Index find_or_add(const std::vector<Use>& uses) {
        if (const Index known = table_.find(uses); known != kNone) {
            return known;
        }
        const Index index = table_.add(uses);
        Path& path = state_.paths[index];
        path.members = 0;
        path.weights = 0;
        path.wanted = {};
        path.counted = 0;
        path.bound = path.changed = false;
        path.counts.clear();
        const ResourceId group = group_of(uses);
        for (const Use& use : uses) {
            state_.used(use.resource).paths.push_back(index);
            // A member of the group is counted there, but for one of which nothing is used.
            const double as_member =
                is_group(use.resource) ? 0 : state_.share_in(use.resource, group);
            path.counts.push_back(as_member == 0 ? 1 : as_member + use.share > 0 ? 0 : -1);
        }
        return index;
    }

    /// Only one route uses it.
    [[nodiscard]] bool is_private(ResourceId id) {
        return !is_group(id) && state_.resource(id).routes.size() == 1 &&
               state_.resource(id).groups.empty();
    }

    State& state_;
    UseTable<Path> table_;
    std::vector<Use> scratch_;
};

/// The groups of a network.
class GroupTable {
public:
    GroupTable(State& state, RouteTable& routes, PathTable& paths)
        : state_(state), routes_(routes), paths_(paths) {}

    [[nodiscard]] ResourceId add(std::span<const Use> members) {
        routes_.check_uses(members);
        auto id = ~static_cast<ResourceId>(state_.groups.size());
        if (free_.empty()) {
            state_.groups.emplace_back();
        } else {
            id = free_.back();
            free_.pop_back();
        }
        for (const Use& member : members) {
            Resource& resource = state_.resource(member.resource);
            resource.groups.push_back({id, member.share});
            routes_.add_use(resource, kNone);
        }
        state_.group(id) = {};
        state_.group(id).members.assign(members.begin(), members.end());
        return id;
    }

    /// The group is forgotten by the next forget_leaving(). Errors: std::logic_error for a group
    /// that activities use, or that leaves already.
    void leave(ResourceId id) {
        Group& group = state_.group(id);
        const bool used =
            std::any_of(group.routes.begin(), group.routes.end(), [this](Index route) {
                const std::vector<Index>& kinds = state_.routes[route].kinds;
                return std::any_of(kinds.begin(), kinds.end(), [this](Index kind) {
                    return !state_.kinds[kind].members.empty();
                });
            });
        if (used || !std::exchange(group.known, false)) {
            throw std::logic_error(
                "[FluidNetwork::forget_group] a group in use, or forgotten before");
        }
        leaving_.push_back(id);
    }

    void forget_leaving() {
        for (const ResourceId id : leaving_) {
            Group& group = state_.group(id);
            routes_.forget_users(group);
            paths_.forget_users(group);
            for (const Use& member : group.members) {
                Resource& each = state_.resource(member.resource);
                each.through += member.share * group.through;
                std::erase_if(each.groups, [id](const Use& use) { return use.resource == id; });
            }
            group = {};
            group.known = false;
            free_.push_back(id);
        }
        leaving_.clear();
    }

private:
    State& state_;
    RouteTable& routes_;
    PathTable& paths_;
    std::vector<ResourceId> free_;  ///< ids that are used again
    std::vector<ResourceId> leaving_;
};

}  // namespace cohort::fluid
