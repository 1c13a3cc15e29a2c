// Rates, once per moment. A resource that could serve all its activities at their limits holds
// nobody back ("full" is the opposite): what is connected with a change is found through full ones
// alone, and on a network where nothing is full a change costs as many steps as its route has uses.
// What is connected is filled in fluid_fill.cpp.
#include <algorithm>
#include <utility>

#include "sim/cluster/fluid_impl.hpp"

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
    ++visit;
    judge_all();
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
    forget_groups();
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

void FluidNetwork::Impl::change_used(ResourceId id) {
    if (std::exchange(used(id).changed, true)) {
        return;
    }
    if (is_group(id)) {
        changed_groups.push_back(static_cast<Index>(~id));
    } else {
        changed_resources.push_back(static_cast<Index>(id));
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
        Used& each = used(use.resource);
        each.wanted.add(-use.share * before);
        each.wanted.add(use.share * wanted);
        change_used(use.resource);
    }
}

double FluidNetwork::Impl::wanted(const Resource& each) const {
    double sum = each.wanted.value();
    for (const Use& membership : each.groups) {
        sum += membership.share * group(membership.resource).wanted.value();
    }
    return sum;
}

/// Which resources are full? Those that change by themselves change their groups' lists.
void FluidNetwork::Impl::judge_all() {
    for (const Index index : changed_resources) {
        Resource& each = resources[index];
        each.changed = false;
        if (judge(each)) {
            for (const Use& membership : each.groups) {
                change_used(membership.resource);
            }
        }
    }
    changed_resources.clear();
    std::size_t judged = 0;
    while (judged < changed_groups.size()) {  // which grows meanwhile
        Group& each = groups[changed_groups[judged++]];
        each.changed = false;
        each.full.clear();
        for (const Use& member : each.members) {
            Resource& one = resource(member.resource);
            if (judge(one)) {
                for (const Use& membership : one.groups) {
                    change_used(membership.resource);
                }
            }
            if (one.full) {
                each.full.push_back(static_cast<Index>(member.resource));
            }
        }
    }
    changed_groups.clear();
}

/// Is it full? If it was and is no more, those whom it held are free; if it is because it became
/// smaller, its activities are held, none of which need have changed. @return has that changed?
bool FluidNetwork::Impl::judge(Resource& each) {
    const bool was = each.full;
    each.full = wanted(each) > each.capacity * (1 + kSlack);
    const bool smaller = std::exchange(each.resized, false) && each.full;
    if (was == each.full && !smaller) {
        return false;
    }
    change_bound(each);
    for (const Use& membership : each.groups) {
        Group& all = group(membership.resource);
        if (std::exchange(all.loosened, visit) != visit) {
            change_bound(all);
        }
    }
    return was != each.full;
}

void FluidNetwork::Impl::change_bound(const Used& each) {
    for (const Index path : each.paths) {
        if (paths[path].members > 0) {
            change_path(path);
        }
    }
}

}  // namespace cohort
