#include "sim/cluster/fluid.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace cohort {

/// Rates, once per moment. What is connected with a change is found through full resources alone:
/// on a network where none is full a change costs as many steps as its route has uses.
///  1. Kinds that changed go into their tiers.
///  2. The resources that are full are found.
///  3. What is connected with a change is filled.
///  4. The times of the next ends follow; what is idle may be forgotten.
void FluidNetwork::settle() {
    state_.settling = false;
    std::size_t placed = 0;
    while (placed < state_.changed.kinds.size()) {  // which grows meanwhile
        tiers_.place(state_.changed.kinds[placed++]);
    }
    state_.changed.kinds.clear();
    std::erase_if(state_.changed.tiers,
                  [this](fluid::Index tier) { return tiers_.drop_if_empty(tier); });
    for (const fluid::Index path : state_.changed.paths) {
        bottlenecks_.count_wanted(state_.paths[path]);
    }
    bottlenecks_.judge_all();
    filling_.fill_changed();
    for (const fluid::Index index : state_.changed.tiers) {
        state_.tiers[index].changed = false;
        completions_.retime(state_.tiers[index]);
    }
    state_.changed.tiers.clear();
    groups_.forget_leaving();
    if (routes_.forget_idle()) {
        paths_.forget_idle();
    }
    completions_.schedule();
}

FluidNetwork::ResourceId FluidNetwork::add_resource(double capacity) {
    state_.resources.emplace_back().capacity = capacity;
    return static_cast<ResourceId>(state_.resources.size() - 1);
}

void FluidNetwork::forget_group(ResourceId id) {
    groups_.leave(id);
    state_.ask_to_settle();
}

void FluidNetwork::set_capacity(ResourceId id, double capacity) {
    fluid::Resource& resource = state_.resource(id);
    resource.capacity = capacity;
    resource.resized = true;
    routes_.renew_limits(resource.routes);
    for (const Use& group : resource.groups) {
        routes_.renew_limits(state_.group(group.resource).routes);
    }
    state_.change_used(id);
    state_.ask_to_settle();
}

FluidNetwork::ActivityId FluidNetwork::begin(double work, std::span<const Use> uses,
                                             double max_rate, EventQueue::Action done,
                                             double weight) {
    if (!(work >= 0) || !(max_rate >= 0) || (uses.empty() && std::isinf(max_rate))) {
        throw std::logic_error(
            "[FluidNetwork::begin] expected work >= 0, and a use or a limit >= 0");
    }
    if (!(weight >= kWeightStep && weight <= kMostWeight)) {
        throw std::logic_error("[FluidNetwork::begin] expected a weight from 1/1024 to 1024");
    }
    const double step_weight = std::round(weight / kWeightStep) * kWeightStep;
    const fluid::Index kind = tiers_.kind_of(routes_.find_or_add(uses), max_rate, step_weight);
    const ActivityId id = state_.activities.take();
    const auto slot = SlotTable<fluid::Activity>::index_of(id);
    fluid::Activity& activity = state_.activities[slot];
    activity.over = false;
    activity.work = work;
    activity.order = ++begun_;
    activity.done = std::move(done);
    completions_.add(activity, slot, kind, work);
    return id;
}

double FluidNetwork::cancel(ActivityId id) {
    fluid::Activity* activity = state_.activities.find(id);
    if (activity == nullptr) {
        return 0;
    }
    const double units = left(id);
    if (!activity->over) {
        const fluid::Kind& kind = state_.kinds[activity->kind];
        state_.routes[kind.route].through += activity->work - units;
        completions_.remove(*activity);
    }
    activity->done = nullptr;
    state_.activities.release(id);
    return units;
}

void FluidNetwork::set_max_rate(ActivityId id, double max_rate) {
    fluid::State& state = state_;
    fluid::Activity* activity = state.activities.find(id);
    if (activity == nullptr || activity->over || state.kinds[activity->kind].limit == max_rate) {
        return;
    }
    const double units = left(id);
    const fluid::Index route = state.kinds[activity->kind].route;
    const double weight = state.kinds[activity->kind].weight;
    completions_.remove(*activity);
    completions_.add(*activity, SlotTable<fluid::Activity>::index_of(id),
                     tiers_.kind_of(route, max_rate, weight), units);
}

double FluidNetwork::rate(ActivityId id) const {
    const fluid::Activity* activity = state_.activities.find(id);
    if (activity == nullptr || activity->over) {
        return 0;
    }
    const fluid::Index tier = state_.kinds[activity->kind].tier;
    return tier == fluid::kNone ? 0 : state_.tiers[tier].rate;
}

double FluidNetwork::left(ActivityId id) const {
    const fluid::Activity* activity = state_.activities.find(id);
    if (activity == nullptr || activity->over) {
        return 0;
    }
    const double units = activity->mark - state_.passed(state_.kinds[activity->kind]);
    return std::clamp(units, 0.0, activity->work);
}

double FluidNetwork::served(ResourceId id) {
    const fluid::Resource& resource = state_.resource(id);
    double sum = state_.units(resource, id);
    for (const Use& group : resource.groups) {
        sum += group.share * state_.units(state_.group(group.resource), group.resource);
    }
    return sum;
}

}  // namespace cohort
