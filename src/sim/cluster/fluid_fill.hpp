#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

/// Progressive filling of connected parts, over tiers: all rise together, in proportion to their
/// weights, to rates of weight * level; at each step those at
/// their limits, or else those of the resources that are full first, rise no more.
/// A part of the network is connected by full resources: a group that has some connects all its
/// activities, even those that use none of these.
/// Cost: O((paths * uses + rounds * resources) of the part), rounds <= tiers + resources.
class Filling {
public:
    explicit Filling(State& state) : state_(state) {}

    /// Rates of all that is connected with the changed paths.
    void fill_changed() {
        ++search_;
        for (const Index path : state_.changed.paths) {
            state_.paths[path].changed = false;
            if (find(path)) {
                fill();
            }
        }
        state_.changed.paths.clear();
    }

private:
    /// Finds the part that the path belongs to. @return false: the path was found with another one
    /// in this search
    [[nodiscard]] bool find(Index first) {
        if (std::exchange(state_.paths[first].visited, search_) == search_) {
            return false;
        }
        resources_.clear();
        groups_.clear();
        paths_.assign(1, first);
        std::size_t seen = 0;
        while (seen < paths_.size()) {  // which grows meanwhile
            for (const Use& use : state_.paths[paths_[seen++]].uses) {
                if (is_group(use.resource)) {
                    connect_group(group_index(use.resource));
                } else {
                    connect_resource(static_cast<Index>(use.resource));
                }
            }
        }
        return true;
    }

    void connect_paths(const Used& used) {
        for (const Index index : used.paths) {
            Path& path = state_.paths[index];
            if (path.members > 0 && std::exchange(path.visited, search_) != search_) {
                paths_.push_back(index);
            }
        }
    }

    void connect_resource(Index index) {
        Resource& each = state_.resources[index];
        if (!each.full || std::exchange(each.visited, search_) == search_) {
            return;
        }
        resources_.push_back(index);
        connect_paths(each);
        for (const Use& membership : each.groups) {
            connect_group(group_index(membership.resource));
        }
    }

    void connect_group(Index index) {
        Group& each = state_.groups[index];
        if (each.full.empty() || std::exchange(each.visited, search_) == search_) {
            return;
        }
        groups_.push_back(index);
        connect_paths(each);
        for (const Index member : each.full) {
            connect_resource(member);
        }
    }

    void fill() {
        const bool bound = !resources_.empty();
        if (!bound && !state_.paths[paths_.front()].bound) {
            return;  // at their limits, as before
        }
        for (const Index index : resources_) {
            state_.resources[index].load = {};
        }
        for (const Index index : groups_) {
            state_.groups[index].load = {};
        }
        for (const Index index : paths_) {
            Path& path = state_.paths[index];
            path.held = 0;
            path.bound = bound;
            weigh(path, path.members, path.weights, 0);
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

    void weigh(const Path& path, std::int64_t rising, double weights, double held) {
        for (std::size_t i = 0; i < path.uses.size(); ++i) {
            Load& load = state_.used(path.uses[i].resource).load;
            load.weight += path.uses[i].share * weights;
            load.held += path.uses[i].share * held;
            load.rising += path.counts[i] * rising;
        }
    }

    /// The level to which the resource's activities can rise.
    [[nodiscard]] double level_of(const Resource& each) {
        Load load = each.load;
        for (const Use& membership : each.groups) {
            const Load& all = state_.group(membership.resource).load;
            load.weight += membership.share * all.weight;
            load.held += membership.share * all.held;
            load.rising += all.rising;
        }
        return load.rising > 0 ? std::max(0.0, each.capacity - load.held) / load.weight
                               : kUnlimited;
    }

    [[nodiscard]] double lowest_level() {
        double level = kUnlimited;
        for (const Index index : resources_) {
            level = std::min(level, level_of(state_.resources[index]));
        }
        return level;
    }

    /// Holds the tiers that reach their limits by then. @return were there any?
    bool hold_limited(double level) {
        bool any = false;
        for (const Index index : paths_) {
            Path& path = state_.paths[index];
            std::size_t end = path.held;
            while (end < path.tiers.size() && state_.tiers[path.tiers[end]].level <= level) {
                ++end;
            }
            if (end > path.held) {
                hold(path, end, level);
                any = true;
            }
        }
        return any;
    }

    /// Holds the tiers on resources that are full at that level.
    void hold_full(double level) {
        find_filled(level);
        for (const Index index : filled_) {
            hold_all(state_.resources[index], static_cast<ResourceId>(index), level);
        }
        for (const Index index : groups_) {
            if (state_.groups[index].filled == step_) {
                hold_all(state_.groups[index], ~static_cast<ResourceId>(index), level);
            }
        }
    }

    void find_filled(double level) {
        ++step_;
        filled_.clear();
        for (const Index index : resources_) {
            Resource& each = state_.resources[index];
            if (level_of(each) > level * (1 + kSlack)) {
                continue;
            }
            filled_.push_back(index);
            each.filled = step_;
            for (const Use& membership : each.groups) {
                Group& all = state_.group(membership.resource);
                all.filled_members =
                    std::exchange(all.filled, step_) == step_ ? all.filled_members + 1 : 1;
            }
        }
    }

    /// Holds all paths that name it and use more than nothing of what is full.
    void hold_all(const Used& each, ResourceId id, double level) {
        for (const Index index : each.paths) {
            Path& path = state_.paths[index];
            if (path.members > 0 && path.held < path.tiers.size() && uses_filled(path, id)) {
                hold(path, path.tiers.size(), level);
            }
        }
    }

    /// Does the path use the resource itself, or one of a group's members that are full? It does
    /// when there are more of those than the path uses nothing of.
    [[nodiscard]] bool uses_filled(const Path& path, ResourceId id) {
        int unused = 0;
        for (std::size_t i = 0; i < path.uses.size(); ++i) {
            const ResourceId named = path.uses[i].resource;
            if (named == id && !is_group(id)) {
                return path.counts[i] >= 0;
            }
            unused += path.counts[i] < 0 && state_.resource(named).filled == step_ ? 1 : 0;
        }
        return unused < state_.group(id).filled_members;
    }

    /// The next tiers of a path rise no further than this level.
    void hold(Path& path, std::size_t end, double level) {
        std::int64_t count = 0;
        double weights = 0;
        double sum = 0;
        for (; path.held < end; ++path.held) {
            const Index index = path.tiers[path.held];
            const Tier& tier = state_.tiers[index];
            const double rate = std::min(tier.limit, tier.weight * level);
            count += tier.members;
            weights += static_cast<double>(tier.members) * tier.weight;
            sum += static_cast<double>(tier.members) * rate;
            set_rate(index, rate);
        }
        weigh(path, -count, -weights, sum);
    }

    void set_rate(Index index, double rate) {
        Tier& tier = state_.tiers[index];
        if (rate != tier.rate) {
            tier.passed = state_.passed(tier);
            tier.since = state_.queue.now();
            tier.rate = rate;
            state_.change_tier(index);
        }
    }

    State& state_;
    std::uint64_t search_ = 0;
    // The connected part:
    std::vector<Index> paths_;
    std::vector<Index> resources_;  ///< full ones
    std::vector<Index> groups_;     ///< that have full members
    std::uint64_t step_ = 0;
    std::vector<Index> filled_;  ///< resources that are full at this step
};

}  // namespace cohort::fluid
