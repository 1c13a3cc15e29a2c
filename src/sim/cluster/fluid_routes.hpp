#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

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
    [[nodiscard]] Index find_or_add(std::span<const Use> uses);
    /// Every resource exists and is named once; of a group's member the uses leave 0 or more.
    /// Errors: std::logic_error.
    void check_uses(std::span<const Use> uses);
    /// A route, or kNone for a group's membership, uses `used` from now on: if one route had it to
    /// itself, it does no more.
    void add_use(Used& used, Index route);
    /// The capacity of something that these routes use has changed.
    void renew_limits(const std::vector<Index>& routes);

    /// The route has its first activities, or has no activities any more.
    void set_busy(const Route& route) { idle_uses_ -= route.uses.size(); }
    void set_idle(const Route& route) { idle_uses_ += route.uses.size(); }
    /// Forgets all idle routes if there are too many, so that a run whose routes change all the
    /// time needs no more memory than its activities. @return were they forgotten?
    bool forget_idle();
    /// Forgets the routes that use a group; none of them has activities.
    void forget_users(Group& group);

private:
    [[nodiscard]] bool uses_some(const Use& use, ResourceId group) const;
    [[nodiscard]] double limit_of(const Route& route) const;
    void forget(Index index);

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
    [[nodiscard]] Index path_of(Route& route);
    void forget_idle();
    /// Forgets the paths that use a group; none of them has activities.
    void forget_users(Group& group);

private:
    [[nodiscard]] Index find_or_add(const std::vector<Use>& uses);
    /// Only one route uses it.
    [[nodiscard]] bool is_private(ResourceId id);

    State& state_;
    UseTable<Path> table_;
    std::vector<Use> scratch_;
};

/// The groups of a network.
class GroupTable {
public:
    GroupTable(State& state, RouteTable& routes, PathTable& paths)
        : state_(state), routes_(routes), paths_(paths) {}

    [[nodiscard]] ResourceId add(std::span<const Use> members);
    /// The group is forgotten by the next forget_leaving(). Errors: std::logic_error for a group
    /// that activities use, or that leaves already.
    void leave(ResourceId id);
    void forget_leaving();

private:
    State& state_;
    RouteTable& routes_;
    PathTable& paths_;
    std::vector<ResourceId> free_;  ///< ids that are used again
    std::vector<ResourceId> leaving_;
};

}  // namespace cohort::fluid
