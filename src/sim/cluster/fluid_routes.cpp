// Routes and paths: found by their uses, forgotten when too many are idle.
#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "sim/cluster/fluid_impl.hpp"

namespace cohort {
namespace {

using Use = FluidNetwork::Use;

std::uint64_t hash_of(std::span<const Use> uses) {
    std::uint64_t hash = uses.size();
    for (const Use& use : uses) {
        hash = (hash ^ static_cast<std::uint64_t>(use.resource)) * 0x9e3779b97f4a7c15U;
        hash =
            (hash ^ (hash >> 29) ^ std::bit_cast<std::uint64_t>(use.share)) * 0xbf58476d1ce4e5b9U;
    }
    return hash ^ (hash >> 32);
}

bool same(std::span<const Use> a, std::span<const Use> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Use& x, const Use& y) {
        return x.resource == y.resource && x.share == y.share;
    });
}

/// The index in a table whose uses these are, or `none`.
template <class Table, class Pool>
std::uint32_t find(const Table& table, const Pool& pool, std::uint64_t hash,
                   std::span<const Use> uses, std::uint32_t none) {
    const auto [begin, end] = table.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if (same(pool[it->second].uses, uses)) {
            return it->second;
        }
    }
    return none;
}

template <class Table>
void erase(Table& table, std::uint64_t hash, std::uint32_t index) {
    const auto [begin, end] = table.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if (it->second == index) {
            table.erase(it);
            return;
        }
    }
}

}  // namespace

FluidNetwork::Impl::Index FluidNetwork::Impl::route_of(std::span<const Use> uses) {
    const std::uint64_t hash = hash_of(uses);
    const Index known = find(route_table, routes, hash, uses, kNone);
    return known != kNone ? known : add_route(uses, hash);
}

/// Every resource is there and is named once; of a group's members more than nothing, or nothing.
void FluidNetwork::Impl::check_uses(std::span<const Use> uses) {
    ++visit;
    ResourceId named = 0;
    for (const Use& use : uses) {
        if (is_group(use.resource) && named == 0 && group_index(use.resource) < groups.size() &&
            group(use.resource).known && use.share == 1) {
            named = use.resource;
        } else if (is_group(use.resource)) {
            throw std::logic_error("[FluidNetwork] an activity uses one group at most, by share 1");
        }
    }
    for (const Use& use : uses) {
        if (is_group(use.resource)) {
            continue;
        }
        if (static_cast<std::size_t>(use.resource) >= resources.size() ||
            !std::isfinite(use.share) || !uses_some(use, named) ||
            std::exchange(resource(use.resource).named, visit) == visit) {
            throw std::logic_error(
                "[FluidNetwork] an activity uses a resource that is there, once, by a share > 0; "
                "got resource " +
                std::to_string(use.resource) + ", share " + std::to_string(use.share));
        }
    }
}

/// More than nothing, or less of a group's member than the group says.
bool FluidNetwork::Impl::uses_some(const Use& use, ResourceId named) const {
    const double as_member = share_in(use.resource, named);
    return use.share > 0 || (as_member > 0 && as_member + use.share >= 0);
}

/// @return of a member in its group; 0: it is none
double FluidNetwork::Impl::share_in(ResourceId id, ResourceId group_id) const {
    for (const Use& group : resource(id).groups) {
        if (group.resource == group_id) {
            return group.share;
        }
    }
    return 0;
}

/// One more has to do with this; if there was one alone, it has it to itself no more.
void FluidNetwork::Impl::use_others(Used& each, Index route) {
    if (each.routes.size() == 1) {
        Route& other = routes[each.routes.front()];
        other.narrow = kNone;
        for (const Index kind : other.kinds) {
            change(kind);
        }
    }
    if (route != kNone) {
        each.routes.push_back(route);
    }
}

FluidNetwork::Impl::Index FluidNetwork::Impl::add_route(std::span<const Use> uses,
                                                        std::uint64_t hash) {
    check_uses(uses);
    const Index index = routes.take();
    Route& route = routes[index];
    route.uses.assign(uses.begin(), uses.end());
    route.hash = hash;
    route.limit = limit_of(route);
    route.narrow = route.full = kNone;
    route.through = 0;
    route.known = true;
    route_table.emplace(hash, index);
    idle_uses += uses.size();
    for (const Use& use : uses) {
        use_others(used(use.resource), index);
    }
    return index;
}

/// Rate of an activity that has all its resources to itself.
double FluidNetwork::Impl::limit_of(const Route& route) const {
    double limit = kUnlimited;
    const auto hold = [&](ResourceId id, double share) {
        if (share > 0) {
            limit = std::min(limit, resource(id).capacity / share);
        }
    };
    ResourceId named = 0;
    for (const Use& use : route.uses) {
        if (is_group(use.resource)) {
            named = use.resource;
        }
    }
    for (const Use& use : route.uses) {
        if (!is_group(use.resource)) {
            hold(use.resource, use.share + share_in(use.resource, named));
        }
    }
    if (named != 0) {
        for (const Use& member : group(named).members) {
            const auto own =
                std::find_if(route.uses.begin(), route.uses.end(),
                             [&](const Use& use) { return use.resource == member.resource; });
            if (own == route.uses.end()) {
                hold(member.resource, member.share);
            }
        }
    }
    return limit;
}

bool FluidNetwork::Impl::is_private(ResourceId id) const {
    return !is_group(id) && resource(id).routes.size() == 1 && resource(id).groups.empty();
}

FluidNetwork::Impl::Index FluidNetwork::Impl::path_of(Route& route) {
    if (route.kinds.size() > 1) {
        if (route.full == kNone) {
            route.full = find_path(route.uses);
        }
        return route.full;
    }
    if (route.narrow == kNone) {
        scratch.clear();
        for (const Use& use : route.uses) {
            if (!is_private(use.resource)) {
                scratch.push_back(use);
            }
        }
        route.narrow = find_path(scratch);
    }
    return route.narrow;
}

FluidNetwork::Impl::Index FluidNetwork::Impl::find_path(const std::vector<Use>& uses) {
    const std::uint64_t hash = hash_of(uses);
    const Index known = find(path_table, paths, hash, uses, kNone);
    if (known != kNone) {
        return known;
    }
    const Index index = paths.take();
    Path& path = paths[index];
    path.uses = uses;
    path.hash = hash;
    path.members = 0;
    path.wanted = {};
    path.counted = 0;
    path.bound = path.changed = false;
    path.known = true;
    path_table.emplace(hash, index);
    path.counts.clear();
    ResourceId named = 0;
    for (const Use& use : uses) {
        used(use.resource).paths.push_back(index);
        named = is_group(use.resource) ? use.resource : named;
    }
    for (const Use& use : uses) {
        // A member of the group is counted there, but for one of which nothing is used.
        const double as_member = is_group(use.resource) ? 0 : share_in(use.resource, named);
        path.counts.push_back(as_member == 0 ? 1 : as_member + use.share > 0 ? 0 : -1);
    }
    return index;
}

/// So that a run whose routes change for ever needs no more memory than its activities.
void FluidNetwork::Impl::forget_idle() {
    if (idle_uses <= kIdleUses) {
        return;
    }
    for (Index index = 0; index < routes.slots(); ++index) {
        if (routes[index].known && routes[index].kinds.empty()) {
            forget_route(index);
        }
        routes[index].narrow = routes[index].full = kNone;
    }
    const auto unknown = [this](Index index) { return !routes[index].known; };
    for (Resource& each : resources) {
        std::erase_if(each.routes, unknown);
    }
    for (Group& each : groups) {
        std::erase_if(each.routes, unknown);
    }
    forget_idle_paths();
}

void FluidNetwork::Impl::forget_route(Index index) {
    Route& route = routes[index];
    for (const Use& use : route.uses) {
        used(use.resource).through += use.share * route.through;
    }
    idle_uses -= route.uses.size();
    erase(route_table, route.hash, index);
    route.known = false;
    route.uses = {};
    routes.release(index);
}

/// Nothing of theirs is under way: routes and paths that name them are idle.
void FluidNetwork::Impl::forget_groups() {
    for (const ResourceId id : leaving_groups) {
        Group& leaving = group(id);
        forget_uses(leaving);
        for (const Use& member : leaving.members) {
            Resource& each = resource(member.resource);
            each.through += member.share * leaving.through;
            std::erase_if(each.groups, [id](const Use& group) { return group.resource == id; });
        }
        leaving = {};
        leaving.known = false;
        free_groups.push_back(id);
    }
    leaving_groups.clear();
}

void FluidNetwork::Impl::forget_uses(Group& leaving) {
    for (const Index index : std::exchange(leaving.routes, {})) {
        for (const Use& use : routes[index].uses) {
            std::erase(used(use.resource).routes, index);
        }
        forget_route(index);
    }
    for (const Index index : std::exchange(leaving.paths, {})) {
        for (const Use& use : paths[index].uses) {
            std::erase(used(use.resource).paths, index);
        }
        forget_path(index);
    }
}

void FluidNetwork::Impl::forget_path(Index index) {
    Path& path = paths[index];
    erase(path_table, path.hash, index);
    path.known = false;
    path.uses = {};
    paths.release(index);
}

void FluidNetwork::Impl::forget_idle_paths() {
    for (Index index = 0; index < paths.slots(); ++index) {
        if (paths[index].known && paths[index].tiers.empty()) {
            forget_path(index);
        }
    }
    const auto unknown = [this](Index index) { return !paths[index].known; };
    for (Resource& each : resources) {
        std::erase_if(each.paths, unknown);
    }
    for (Group& each : groups) {
        std::erase_if(each.paths, unknown);
    }
}

}  // namespace cohort
