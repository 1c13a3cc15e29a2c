#include "sim/cluster/fluid_rates.hpp"

#include <algorithm>

namespace cohort::fluid {

Index Tiers::kind_of(Index route_index, double limit) {
    Route& route = state_.routes[route_index];
    for (const Index index : route.kinds) {
        if (state_.kinds[index].limit == limit) {
            return index;
        }
    }
    const Index index = state_.kinds.take();
    Kind& kind = state_.kinds[index];
    kind.route = route_index;
    kind.tier = kNone;
    kind.queued = false;
    kind.limit = limit;
    kind.counted = 0;
    if (route.kinds.empty()) {
        routes_.set_busy(route);
    } else if (route.kinds.size() == 1) {
        changes_.change_kind(route.kinds.front());  // no longer alone on its route
    }
    route.kinds.push_back(index);
    return index;
}

void Tiers::place(Index index) {
    Kind& kind = state_.kinds[index];
    kind.changed = false;
    if (kind.members.empty()) {
        forget(index);
        return;
    }
    Route& route = state_.routes[kind.route];
    const auto count = static_cast<std::int64_t>(kind.members.size());
    const double limit = std::min(kind.limit, route.limit / static_cast<double>(count));
    const Index tier = tier_of(paths_.path_of(route), limit);
    if (kind.tier != tier) {
        const double so_far = state_.passed(kind);
        leave(kind);
        kind.tier = tier;
        kind.offset = state_.passed(state_.tiers[tier]) - so_far;
    }
    count_members(tier, count - std::exchange(kind.counted, count));
    completions_.requeue(kind, index);
}

void Tiers::forget(Index index) {
    Kind& kind = state_.kinds[index];
    Route& route = state_.routes[kind.route];
    leave(kind);
    std::erase(route.kinds, index);
    state_.kinds.release(index);
    if (route.kinds.empty()) {
        routes_.set_idle(route);
    } else if (route.kinds.size() == 1) {
        changes_.change_kind(route.kinds.front());  // alone on its route from now on
    }
}

void Tiers::leave(Kind& kind) {
    if (kind.tier != kNone) {
        completions_.unqueue(kind);
        count_members(kind.tier, -std::exchange(kind.counted, 0));
        kind.tier = kNone;
    }
}

Index Tiers::tier_of(Index path_index, double limit) {
    Path& path = state_.paths[path_index];
    const auto at = std::lower_bound(
        path.tiers.begin(), path.tiers.end(), limit,
        [this](Index tier, double wanted) { return state_.tiers[tier].limit < wanted; });
    if (at != path.tiers.end() && state_.tiers[*at].limit == limit) {
        return *at;
    }
    const Index index = state_.tiers.take();
    Tier& tier = state_.tiers[index];
    tier.path = path_index;
    tier.changed = false;
    tier.members = 0;
    tier.limit = tier.rate = limit;
    tier.passed = 0;
    tier.since = state_.queue.now();
    path.tiers.insert(at, index);
    completions_.add_tier(index);
    return index;
}

void Tiers::count_members(Index index, std::int64_t change) {
    Tier& tier = state_.tiers[index];
    Path& path = state_.paths[tier.path];
    path.wanted.add(-static_cast<double>(tier.members) * tier.limit);
    tier.members += change;
    path.members += change;
    path.wanted.add(static_cast<double>(tier.members) * tier.limit);
    if (path.members == 0) {
        path.wanted = {};
    }
    changes_.change_tier(index);
    changes_.change_path(tier.path);
}

bool Tiers::drop_if_empty(Index index) {
    const Tier& tier = state_.tiers[index];
    if (tier.members > 0) {
        return false;
    }
    std::erase(state_.paths[tier.path].tiers, index);
    completions_.remove_tier(index);
    state_.tiers.release(index);
    return true;
}

void Bottlenecks::count_wanted(Path& path) {
    const double wanted = path.wanted.value();
    const double before = std::exchange(path.counted, wanted);
    if (wanted == before) {
        return;
    }
    for (const Use& use : path.uses) {
        Used& each = state_.used(use.resource);
        each.wanted.add(-use.share * before);
        each.wanted.add(use.share * wanted);
        changes_.change_used(use.resource);
    }
}

double Bottlenecks::wanted(const Resource& each) {
    double sum = each.wanted.value();
    for (const Use& membership : each.groups) {
        sum += membership.share * state_.group(membership.resource).wanted.value();
    }
    return sum;
}

/// A resource that becomes full, or is full no more, changes its groups' lists.
void Bottlenecks::judge_all() {
    ++settlings_;
    for (const Index index : changes_.resources) {
        Resource& each = state_.resources[index];
        each.changed = false;
        judge(each);
    }
    changes_.resources.clear();
    std::size_t judged = 0;
    while (judged < changes_.groups.size()) {  // which grows meanwhile
        judge_group(state_.groups[changes_.groups[judged++]]);
    }
    changes_.groups.clear();
}

void Bottlenecks::judge_group(Group& group) {
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

/// When a resource is full no more, the paths that it held back are free; when it is full because
/// its capacity shrank, its paths are held back, none of which need have changed.
void Bottlenecks::judge(Resource& each) {
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
            changes_.change_used(membership.resource);
        }
    }
}

void Bottlenecks::change_paths(const Used& used) {
    for (const Index path : used.paths) {
        if (state_.paths[path].members > 0) {
            changes_.change_path(path);
        }
    }
}

}  // namespace cohort::fluid
