// Progressive filling of a part of the network that is connected, over tiers: all rise together; at
// each step those at their limits, or else those of the resources that are full first, rise no
// more. Cost: O((paths * uses + rounds * resources) of the part), rounds <= tiers + resources.
#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/cluster/fluid_impl.hpp"

namespace cohort {

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
