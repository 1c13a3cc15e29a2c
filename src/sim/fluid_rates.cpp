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

/// The part of the network that a path is connected with by full resources: a group that has some
/// connects all its activities, even those that use none of these.
void FluidNetwork::Impl::connect(Index first) {
    part_resources.clear();
    part_groups.clear();
    part_paths.assign(1, first);
    paths[first].visited = visit;
    std::size_t seen = 0;
    while (seen < part_paths.size()) {  // which grows meanwhile
        for (const Use& use : paths[part_paths[seen++]].uses) {
            if (is_group(use.resource)) {
                connect_group(static_cast<Index>(~use.resource));
            } else {
                connect_resource(static_cast<Index>(use.resource));
            }
        }
    }
}

void FluidNetwork::Impl::connect_paths(const Used& each) {
    for (const Index path : each.paths) {
        if (paths[path].members > 0 && std::exchange(paths[path].visited, visit) != visit) {
            part_paths.push_back(path);
        }
    }
}

void FluidNetwork::Impl::connect_resource(Index index) {
    Resource& each = resources[index];
    if (!each.full || std::exchange(each.visited, visit) == visit) {
        return;
    }
    part_resources.push_back(index);
    connect_paths(each);
    for (const Use& membership : each.groups) {
        connect_group(static_cast<Index>(~membership.resource));
    }
}

void FluidNetwork::Impl::connect_group(Index index) {
    Group& each = groups[index];
    if (each.full.empty() || std::exchange(each.visited, visit) == visit) {
        return;
    }
    part_groups.push_back(index);
    connect_paths(each);
    for (const Index member : each.full) {
        connect_resource(member);
    }
}

void FluidNetwork::Impl::fill() {
    if (part_resources.empty() && !paths[part_paths.front()].bound) {
        return;  // at their limits, as before
    }
    for (const Index index : part_resources) {
        resources[index].load = {};
    }
    for (const Index index : part_groups) {
        groups[index].load = {};
    }
    for (const Index index : part_paths) {
        paths[index].held = 0;
        paths[index].bound = !part_resources.empty();
        weigh(paths[index], paths[index].members, 0);
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

void FluidNetwork::Impl::weigh(const Path& path, std::int64_t rising, double held) {
    for (std::size_t i = 0; i < path.uses.size(); ++i) {
        Load& load = used(path.uses[i].resource).load;
        load.weight += path.uses[i].share * static_cast<double>(rising);
        load.held += path.uses[i].share * held;
        load.rising += path.counts[i] * rising;
    }
}

/// To which its activities can rise.
double FluidNetwork::Impl::level_of(const Resource& each) const {
    Load load = each.load;
    for (const Use& membership : each.groups) {
        const Load& all = group(membership.resource).load;
        load.weight += membership.share * all.weight;
        load.held += membership.share * all.held;
        load.rising += all.rising;
    }
    return load.rising > 0 ? std::max(0.0, each.capacity - load.held) / load.weight : kUnlimited;
}

double FluidNetwork::Impl::lowest_level() const {
    double level = kUnlimited;
    for (const Index index : part_resources) {
        level = std::min(level, level_of(resources[index]));
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
    ++step;
    filled.clear();
    for (const Index index : part_resources) {
        Resource& each = resources[index];
        if (level_of(each) <= level * (1 + kSlack)) {
            filled.push_back(index);
            each.filled = step;
            for (const Use& membership : each.groups) {
                Group& all = group(membership.resource);
                all.filled_members =
                    std::exchange(all.filled, step) == step ? all.filled_members + 1 : 1;
            }
        }
    }
    for (const Index index : filled) {
        hold_all(resources[index], static_cast<ResourceId>(index), level);
    }
    for (const Index index : part_groups) {
        if (groups[index].filled == step) {
            hold_all(groups[index], ~static_cast<ResourceId>(index), level);
        }
    }
}

/// All who name it and use more than nothing of what is filled.
void FluidNetwork::Impl::hold_all(const Used& each, ResourceId id, double level) {
    for (const Index index : each.paths) {
        Path& path = paths[index];
        if (path.members > 0 && path.held < path.tiers.size() && uses_filled(path, id)) {
            hold(path, path.tiers.size(), level);
        }
    }
}

/// Of the resource itself, or of one of a group's members: there are more that are filled than the
/// path uses nothing of.
bool FluidNetwork::Impl::uses_filled(const Path& path, ResourceId id) const {
    int unused = 0;
    for (std::size_t i = 0; i < path.uses.size(); ++i) {
        const ResourceId named = path.uses[i].resource;
        if (named == id && !is_group(id)) {
            return path.counts[i] >= 0;
        }
        unused += path.counts[i] < 0 && resource(named).filled == step ? 1 : 0;
    }
    return unused < group(id).filled_members;
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
    weigh(path, -count, sum);
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
