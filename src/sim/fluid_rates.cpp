// Rates, once per moment. A resource that could serve all its activities at their limits holds
// nobody back ("full" is the opposite): what is connected with a change is found through full ones
// alone, and on a network where nothing is full a change costs as many steps as its route has uses.
// Within a part that is connected: progressive filling over tiers, all rising together; at each
// step those at their limits, or else those of the resources that are full first, rise no more.
// Cost: O((paths * uses + rounds * resources) of the part), rounds <= tiers + resources.
#include <algorithm>
#include <cmath>
#include <utility>

#include "fluid_impl.hpp"

namespace cohort {

void FluidNetwork::Impl::settle() {
    settling = false;
    std::size_t placed = 0;
    while (placed < changed_kinds.size()) {  // which grows meanwhile
        place(changed_kinds[placed++]);
    }
    changed_kinds.clear();
    std::erase_if(changed_tiers, [this](Index index) { return drop_if_empty(index); });
    for (const Index path : changed_paths) {
        count_wanted(paths[path]);
    }
    for (const Index index : changed_resources) {
        judge(resources[index]);
    }
    changed_resources.clear();
    ++visit;
    for (const Index path : changed_paths) {
        paths[path].changed = false;
        if (paths[path].visited != visit) {
            connect(path);
            fill();
        }
    }
    changed_paths.clear();
    for (const Index index : changed_tiers) {
        tiers[index].changed = false;
        retime(tiers[index]);
    }
    changed_tiers.clear();
    forget_idle();
    schedule();
}

/// A kind whose members or limit changed: into the tier where it belongs now.
void FluidNetwork::Impl::place(Index index) {
    Kind& kind = kinds[index];
    kind.changed = false;
    Route& route = routes[kind.route];
    if (kind.members.empty()) {
        leave(kind);
        std::erase(route.kinds, index);
        kinds.release(index);
        if (route.kinds.empty()) {
            idle_uses += route.uses.size();
        } else if (route.kinds.size() == 1) {
            change(route.kinds.front());  // alone on its route from now on
        }
        return;
    }
    const auto count = static_cast<std::int64_t>(kind.members.size());
    const double limit = std::min(kind.limit, route.limit / static_cast<double>(count));
    const Index tier = tier_of(path_of(route), limit);
    if (kind.tier != tier) {
        const double so_far = passed(kind);
        leave(kind);
        kind.tier = tier;
        kind.offset = passed(tiers[tier]) - so_far;
    }
    count_members(tier, count - std::exchange(kind.counted, count));
    rekey(kind, index);
}

void FluidNetwork::Impl::leave(Kind& kind) {
    if (kind.tier == kNone) {
        return;
    }
    if (kind.queued) {
        tiers[kind.tier].kinds.remove(
            kind.position, [this](Index item) -> std::uint32_t& { return kinds[item].position; });
        kind.queued = false;
    }
    count_members(kind.tier, -std::exchange(kind.counted, 0));
    kind.tier = kNone;
}

FluidNetwork::Impl::Index FluidNetwork::Impl::tier_of(Index path_index, double limit) {
    Path& path = paths[path_index];
    const auto at =
        std::lower_bound(path.tiers.begin(), path.tiers.end(), limit,
                         [this](Index tier, double wanted) { return tiers[tier].limit < wanted; });
    if (at != path.tiers.end() && tiers[*at].limit == limit) {
        return *at;
    }
    const Index index = tiers.take();
    Tier& tier = tiers[index];
    tier.path = path_index;
    tier.changed = false;
    tier.members = 0;
    tier.limit = tier.rate = limit;
    tier.passed = 0;
    tier.since = queue.now();
    path.tiers.insert(at, index);
    times.push(kUnlimited, index,
               [this](Index item) -> std::uint32_t& { return tiers[item].position; });
    return index;
}

void FluidNetwork::Impl::count_members(Index index, std::int64_t change) {
    Tier& tier = tiers[index];
    Path& path = paths[tier.path];
    path.wanted.add(-static_cast<double>(tier.members) * tier.limit);
    tier.members += change;
    path.members += change;
    path.wanted.add(static_cast<double>(tier.members) * tier.limit);
    if (path.members == 0) {
        path.wanted = {};
    }
    change_tier(index);
    change_path(tier.path);
}

void FluidNetwork::Impl::change_path(Index index) {
    if (!std::exchange(paths[index].changed, true)) {
        changed_paths.push_back(index);
    }
}

void FluidNetwork::Impl::change_tier(Index index) {
    if (!std::exchange(tiers[index].changed, true)) {
        changed_tiers.push_back(index);
    }
}

void FluidNetwork::Impl::change_resource(Index index) {
    if (!std::exchange(resources[index].changed, true)) {
        changed_resources.push_back(index);
    }
}

bool FluidNetwork::Impl::drop_if_empty(Index index) {
    Tier& tier = tiers[index];
    if (tier.members > 0) {
        return false;
    }
    std::erase(paths[tier.path].tiers, index);
    times.remove(tier.position,
                 [this](Index item) -> std::uint32_t& { return tiers[item].position; });
    tiers.release(index);
    return true;
}

void FluidNetwork::Impl::count_wanted(Path& path) {
    const double wanted = path.wanted.value();
    const double before = std::exchange(path.counted, wanted);
    if (wanted == before) {
        return;
    }
    for (const Use& use : path.uses) {
        resource(use.resource).wanted.add(-use.share * before);
        resource(use.resource).wanted.add(use.share * wanted);
        change_resource(static_cast<Index>(use.resource));
    }
}

/// Is it full? If it is, or was, rates of all that use it are worked out anew.
void FluidNetwork::Impl::judge(Resource& each) {
    each.changed = false;
    const bool was = each.full;
    each.full = each.wanted.value() > each.capacity * (1 + kSlack);
    if (was || each.full) {
        for (const Resource::Branch& branch : each.paths) {
            if (paths[branch.path].members > 0) {
                change_path(branch.path);
            }
        }
    }
}

/// The part of the network that a path is connected with.
void FluidNetwork::Impl::connect(Index first) {
    part_resources.clear();
    part_paths.assign(1, first);
    paths[first].visited = visit;
    for (std::size_t i = 0; i < part_paths.size(); ++i) {
        for (const Use& use : paths[part_paths[i]].uses) {
            Resource& each = resource(use.resource);
            if (!each.full || std::exchange(each.visited, visit) == visit) {
                continue;
            }
            part_resources.push_back(static_cast<Index>(use.resource));
            for (const Resource::Branch& branch : each.paths) {
                Path& path = paths[branch.path];
                if (path.members > 0 && std::exchange(path.visited, visit) != visit) {
                    part_paths.push_back(branch.path);
                }
            }
        }
    }
}

void FluidNetwork::Impl::fill() {
    if (part_resources.empty() && !paths[part_paths.front()].bound) {
        return;  // at their limits, as before
    }
    for (const Index index : part_resources) {
        Resource& each = resources[index];
        each.free = each.capacity;
        each.weight = 0;
        each.rising = 0;
    }
    for (const Index index : part_paths) {
        Path& path = paths[index];
        path.held = 0;
        path.bound = !part_resources.empty();
        for (const Use& use : path.uses) {
            resource(use.resource).weight += use.share * static_cast<double>(path.members);
            resource(use.resource).rising += path.members;
        }
    }
    for (;;) {
        const double level = lowest_level();
        if (!hold_limited(level)) {
            if (std::isinf(level)) {
                return;
            }
            hold_full(level);
        }
    }
}

/// To which all that still rise can.
double FluidNetwork::Impl::lowest_level() const {
    double level = kUnlimited;
    for (const Index index : part_resources) {
        const Resource& each = resources[index];
        if (each.rising > 0) {
            level = std::min(level, std::max(0.0, each.free) / each.weight);
        }
    }
    return level;
}

/// Those who reach their limits by then. @return were there any?
bool FluidNetwork::Impl::hold_limited(double level) {
    bool any = false;
    for (const Index index : part_paths) {
        Path& path = paths[index];
        std::size_t end = path.held;
        while (end < path.tiers.size() && tiers[path.tiers[end]].limit <= level) {
            ++end;
        }
        if (end > path.held) {
            hold(path, end, level);
            any = true;
        }
    }
    return any;
}

/// Those on resources that are full at that level.
void FluidNetwork::Impl::hold_full(double level) {
    filled.clear();
    for (const Index index : part_resources) {
        const Resource& each = resources[index];
        if (each.rising > 0 && std::max(0.0, each.free) / each.weight <= level * (1 + kSlack)) {
            filled.push_back(index);
        }
    }
    for (const Index index : filled) {
        for (const Resource::Branch& branch : resources[index].paths) {
            Path& path = paths[branch.path];
            if (path.members > 0 && path.held < path.tiers.size()) {
                hold(path, path.tiers.size(), level);
            }
        }
    }
}

/// The next tiers of a path rise no further than this level.
void FluidNetwork::Impl::hold(Path& path, std::size_t end, double level) {
    std::int64_t count = 0;
    double sum = 0;
    for (; path.held < end; ++path.held) {
        const Index index = path.tiers[path.held];
        const Tier& tier = tiers[index];
        const double rate = std::min(tier.limit, level);
        count += tier.members;
        sum += static_cast<double>(tier.members) * rate;
        set_rate(index, rate);
    }
    for (const Use& use : path.uses) {
        Resource& each = resource(use.resource);
        each.free -= use.share * sum;
        each.weight -= use.share * static_cast<double>(count);
        each.rising -= count;
    }
}

void FluidNetwork::Impl::set_rate(Index index, double rate) {
    Tier& tier = tiers[index];
    if (rate != tier.rate) {
        tier.passed = passed(tier);
        tier.since = queue.now();
        tier.rate = rate;
        change_tier(index);
    }
}

}  // namespace cohort
