#include "sim/cluster/fluid.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "sim/cluster/fluid_fill.hpp"
#include "sim/cluster/fluid_rates.hpp"
#include "sim/cluster/fluid_routes.hpp"

namespace cohort {

/// The words (route, kind, path, tier) are in fluid_state.hpp.
struct FluidNetwork::Impl {
    explicit Impl(EventQueue& queue) : state(queue, [this] { settle(); }) {}

    void settle();

    fluid::State state;
    fluid::Completions completions{state};
    fluid::RouteTable routes{state};
    fluid::PathTable paths{state};
    fluid::GroupTable groups{state, routes, paths};
    fluid::Tiers tiers{state, routes, paths, completions};
    fluid::Bottlenecks bottlenecks{state};
    fluid::Filling filling{state};
    std::uint64_t begun = 0;
};

/// Rates, once per moment. What is connected with a change is found through full resources alone:
/// on a network where none is full a change costs as many steps as its route has uses.
///  1. Kinds that changed go into their tiers.
///  2. The resources that are full are found.
///  3. What is connected with a change is filled.
///  4. The times of the next ends follow; what is idle may be forgotten.
void FluidNetwork::Impl::settle() {
    state.settling = false;
    std::size_t placed = 0;
    while (placed < state.changed.kinds.size()) {  // which grows meanwhile
        tiers.place(state.changed.kinds[placed++]);
    }
    state.changed.kinds.clear();
    std::erase_if(state.changed.tiers,
                  [this](fluid::Index tier) { return tiers.drop_if_empty(tier); });
    for (const fluid::Index path : state.changed.paths) {
        bottlenecks.count_wanted(state.paths[path]);
    }
    bottlenecks.judge_all();
    filling.fill_changed();
    for (const fluid::Index index : state.changed.tiers) {
        state.tiers[index].changed = false;
        completions.retime(state.tiers[index]);
    }
    state.changed.tiers.clear();
    groups.forget_leaving();
    if (routes.forget_idle()) {
        paths.forget_idle();
    }
    completions.schedule();
}

FluidNetwork::FluidNetwork(EventQueue& queue) : impl_(std::make_unique<Impl>(queue)) {
}
FluidNetwork::~FluidNetwork() = default;

FluidNetwork::ResourceId FluidNetwork::add_resource(double capacity) {
    impl_->state.resources.emplace_back().capacity = capacity;
    return static_cast<ResourceId>(impl_->state.resources.size() - 1);
}

FluidNetwork::ResourceId FluidNetwork::add_group(std::span<const Use> members) {
    return impl_->groups.add(members);
}

void FluidNetwork::forget_group(ResourceId id) {
    impl_->groups.leave(id);
    impl_->state.ask_to_settle();
}

void FluidNetwork::set_capacity(ResourceId id, double capacity) {
    fluid::Resource& resource = impl_->state.resource(id);
    resource.capacity = capacity;
    resource.resized = true;
    impl_->routes.renew_limits(resource.routes);
    for (const Use& group : resource.groups) {
        impl_->routes.renew_limits(impl_->state.group(group.resource).routes);
    }
    impl_->state.change_used(id);
    impl_->state.ask_to_settle();
}

FluidNetwork::ActivityId FluidNetwork::begin(double work, std::span<const Use> uses,
                                             double max_rate, EventQueue::Action done) {
    if (!(work >= 0) || !(max_rate >= 0) || (uses.empty() && std::isinf(max_rate))) {
        throw std::logic_error(
            "[FluidNetwork::begin] expected work >= 0, and a use or a limit >= 0");
    }
    const fluid::Index kind = impl_->tiers.kind_of(impl_->routes.find_or_add(uses), max_rate);
    const ActivityId id = impl_->state.activities.take();
    const auto slot = SlotTable<fluid::Activity>::index_of(id);
    fluid::Activity& activity = impl_->state.activities[slot];
    activity.over = false;
    activity.work = work;
    activity.order = ++impl_->begun;
    activity.done = std::move(done);
    impl_->completions.add(activity, slot, kind, work);
    return id;
}

double FluidNetwork::cancel(ActivityId id) {
    fluid::Activity* activity = impl_->state.activities.find(id);
    if (activity == nullptr) {
        return 0;
    }
    const double units = left(id);
    if (!activity->over) {
        const fluid::Kind& kind = impl_->state.kinds[activity->kind];
        impl_->state.routes[kind.route].through += activity->work - units;
        impl_->completions.remove(*activity);
    }
    activity->done = nullptr;
    impl_->state.activities.release(id);
    return units;
}

void FluidNetwork::set_max_rate(ActivityId id, double max_rate) {
    fluid::State& state = impl_->state;
    fluid::Activity* activity = state.activities.find(id);
    if (activity == nullptr || activity->over || state.kinds[activity->kind].limit == max_rate) {
        return;
    }
    const double units = left(id);
    const fluid::Index route = state.kinds[activity->kind].route;
    impl_->completions.remove(*activity);
    impl_->completions.add(*activity, SlotTable<fluid::Activity>::index_of(id),
                           impl_->tiers.kind_of(route, max_rate), units);
}

double FluidNetwork::rate(ActivityId id) const {
    const fluid::Activity* activity = impl_->state.activities.find(id);
    if (activity == nullptr || activity->over) {
        return 0;
    }
    const fluid::Index tier = impl_->state.kinds[activity->kind].tier;
    return tier == fluid::kNone ? 0 : impl_->state.tiers[tier].rate;
}

double FluidNetwork::left(ActivityId id) const {
    const fluid::Activity* activity = impl_->state.activities.find(id);
    if (activity == nullptr || activity->over) {
        return 0;
    }
    const double units = activity->mark - impl_->state.passed(impl_->state.kinds[activity->kind]);
    return std::clamp(units, 0.0, activity->work);
}

double FluidNetwork::served(ResourceId id) const {
    const fluid::Resource& resource = impl_->state.resource(id);
    double sum = impl_->state.units(resource, id);
    for (const Use& group : resource.groups) {
        sum += group.share * impl_->state.units(impl_->state.group(group.resource), group.resource);
    }
    return sum;
}

std::size_t FluidNetwork::active() const noexcept {
    return impl_->state.activities.size();
}

}  // namespace cohort
