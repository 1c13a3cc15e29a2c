// Routes and paths: found by their uses, forgotten when too many are idle.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

#include "fluid_impl.hpp"

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

FluidNetwork::Impl::Index FluidNetwork::Impl::add_route(std::span<const Use> uses,
                                                        std::uint64_t hash) {
    ++visit;
    for (const Use& use : uses) {
        if (use.resource < 0 || static_cast<std::size_t>(use.resource) >= resources.size() ||
            !(use.share > 0) || std::exchange(resource(use.resource).visited, visit) == visit) {
            throw std::logic_error(
                "[FluidNetwork] an activity uses a resource that is there, once, by a share > 0; "
                "got resource " +
                std::to_string(use.resource) + ", share " + std::to_string(use.share));
        }
    }
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
        Resource& each = resource(use.resource);
        each.routes.push_back(index);
        if (each.routes.size() == 2) {
            // The other one has it to itself no more.
            Route& other = routes[each.routes.front()];
            other.narrow = kNone;
            for (const Index kind : other.kinds) {
                change(kind);
            }
        }
    }
    return index;
}

double FluidNetwork::Impl::limit_of(const Route& route) const {
    double limit = kUnlimited;
    for (const Use& use : route.uses) {
        limit =
            std::min(limit, resources[static_cast<std::size_t>(use.resource)].capacity / use.share);
    }
    return limit;
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
            if (resource(use.resource).routes.size() > 1) {
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
    for (const Use& use : uses) {
        resource(use.resource).paths.push_back({index, use.share});
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
    for (Resource& each : resources) {
        std::erase_if(each.routes, [this](Index index) { return !routes[index].known; });
    }
    forget_idle_paths();
}

void FluidNetwork::Impl::forget_route(Index index) {
    Route& route = routes[index];
    for (const Use& use : route.uses) {
        resource(use.resource).through += use.share * route.through;
    }
    idle_uses -= route.uses.size();
    erase(route_table, route.hash, index);
    route.known = false;
    route.uses = {};
    routes.release(index);
}

void FluidNetwork::Impl::forget_idle_paths() {
    for (Index index = 0; index < paths.slots(); ++index) {
        Path& path = paths[index];
        if (path.known && path.tiers.empty()) {
            erase(path_table, path.hash, index);
            path.known = false;
            path.uses = {};
            paths.release(index);
        }
    }
    for (Resource& each : resources) {
        std::erase_if(each.paths,
                      [this](const Resource::Branch& branch) { return !paths[branch.path].known; });
    }
}

}  // namespace cohort
