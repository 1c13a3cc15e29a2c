// Activities: how they begin and end. The words (route, kind, path, tier) are in fluid_impl.hpp.
#include "sim/cluster/fluid.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "sim/cluster/fluid_impl.hpp"

namespace cohort {

void FluidNetwork::Impl::change(Index index) {
    if (!kinds[index].changed) {
        kinds[index].changed = true;
        changed_kinds.push_back(index);
    }
    ask_to_settle();
}

void FluidNetwork::Impl::ask_to_settle() {
    if (!settling) {
        settling = true;
        queue.settle_with([this] { settle(); });
    }
}

FluidNetwork::Impl::Index FluidNetwork::Impl::kind_of(Index route_index, double limit) {
    Route& route = routes[route_index];
    for (const Index index : route.kinds) {
        if (kinds[index].limit == limit) {
            return index;
        }
    }
    const Index index = kinds.take();
    Kind& kind = kinds[index];
    kind.route = route_index;
    kind.tier = kNone;
    kind.queued = false;
    kind.limit = limit;
    kind.counted = 0;
    if (route.kinds.empty()) {
        idle_uses -= route.uses.size();
    } else if (route.kinds.size() == 1) {
        change(route.kinds.front());  // no longer alone on its route
    }
    route.kinds.push_back(index);
    return index;
}

double FluidNetwork::Impl::passed(const Tier& tier) const {
    return tier.passed + tier.rate * (queue.now() - tier.since);
}

double FluidNetwork::Impl::passed(const Kind& kind) const {
    return kind.tier == kNone ? 0 : passed(tiers[kind.tier]) - kind.offset;
}

double FluidNetwork::Impl::time_of(const Tier& tier) const {
    if (tier.kinds.empty()) {
        return kUnlimited;
    }
    const double left = tier.kinds.top_key() - tier.passed;
    if (left <= 0) {
        return tier.since;
    }
    return tier.rate > 0 ? tier.since + left / tier.rate : kUnlimited;
}

void FluidNetwork::Impl::retime(Tier& tier) {
    times.change(tier.position, time_of(tier),
                 [this](Index item) -> std::uint32_t& { return tiers[item].position; });
}

/// A kind's place in its tier's heap, after its first member changed.
void FluidNetwork::Impl::rekey(Kind& kind, Index index) {
    Tier& tier = tiers[kind.tier];
    const auto places = [this](Index item) -> std::uint32_t& { return kinds[item].position; };
    if (kind.members.empty()) {
        if (kind.queued) {
            tier.kinds.remove(kind.position, places);
        }
    } else if (kind.queued) {
        tier.kinds.change(kind.position, kind.members.top_key() + kind.offset, places);
    } else {
        tier.kinds.push(kind.members.top_key() + kind.offset, index, places);
    }
    kind.queued = !kind.members.empty();
}

/// From its kind's heap and all above it.
void FluidNetwork::Impl::remove(Activity& activity) {
    Kind& kind = kinds[activity.kind];
    kind.members.remove(activity.position,
                        [this](Index item) -> std::uint32_t& { return activities[item].position; });
    change(activity.kind);
    if (kind.tier != kNone) {
        rekey(kind, activity.kind);
        retime(tiers[kind.tier]);
    }
}

/// All that is over by now, in order of beginning.
void FluidNetwork::Impl::gather_due() {
    due.clear();
    told = 0;
    const double moment = queue.now() * (1 + kMoment);
    while (!times.empty() && times.top_key() <= moment) {
        const Kind& kind = kinds[tiers[times.top()].kinds.top()];
        const Index index = kind.members.top();
        Activity& activity = activities[index];
        activity.over = true;
        routes[kind.route].through += activity.work;
        due.push_back(activities.id_at(index));
        remove(activity);
    }
    std::sort(due.begin(), due.end(), [this](ActivityId a, ActivityId b) {
        return activities.find(a)->order < activities.find(b)->order;
    });
}

/// One activity that is over for each event, so that what it sets off comes before the next.
void FluidNetwork::Impl::tell_next() {
    event = 0;
    if (told == due.size()) {
        gather_due();
    }
    while (told < due.size()) {
        const ActivityId id = due[told++];
        Activity* activity = activities.find(id);
        if (activity == nullptr) {
            continue;  // given up by one before it
        }
        const EventQueue::Action done = std::exchange(activity->done, nullptr);
        activities.release(id);
        if (told < due.size()) {
            event = queue.at(queue.now(), [this] { tell_next(); });
            event_time = queue.now();
        }
        if (done) {
            done();
        }
        return;
    }
}

void FluidNetwork::Impl::schedule() {
    double next = kUnlimited;
    if (!times.empty()) {
        next = std::max(queue.now(), times.top_key());
    }
    if (event != 0 && event_time == next) {
        return;
    }
    queue.cancel(event);
    event = std::isinf(next) ? 0 : queue.at(next, [this] { tell_next(); });
    event_time = next;
}

/// Units of all its activities so far.
double FluidNetwork::Impl::through(const Route& route) const {
    double sum = route.through;
    for (const Index index : route.kinds) {
        const Kind& kind = kinds[index];
        const double so_far = passed(kind);
        for (std::size_t i = 0; i < kind.members.size(); ++i) {
            const Activity& activity = activities[kind.members.at(i)];
            sum += activity.work - std::max(0.0, activity.mark - so_far);
        }
    }
    return sum;
}

/// That went over a resource or a group by that name.
double FluidNetwork::Impl::units(const Used& used, ResourceId id) const {
    double sum = used.through;
    for (const Index index : used.routes) {
        const Route& route = routes[index];
        for (const Use& use : route.uses) {
            if (use.resource == id) {
                sum += use.share * through(route);
            }
        }
    }
    return sum;
}

FluidNetwork::FluidNetwork(EventQueue& queue) : impl_(std::make_unique<Impl>(queue)) {
}
FluidNetwork::~FluidNetwork() = default;

FluidNetwork::ResourceId FluidNetwork::add_resource(double capacity) {
    impl_->resources.emplace_back().capacity = capacity;
    return static_cast<ResourceId>(impl_->resources.size() - 1);
}

FluidNetwork::ResourceId FluidNetwork::add_group(std::span<const Use> members) {
    impl_->check_uses(members);
    auto id = ~static_cast<ResourceId>(impl_->groups.size());
    if (impl_->free_groups.empty()) {
        impl_->groups.emplace_back();
    } else {
        id = impl_->free_groups.back();
        impl_->free_groups.pop_back();
    }
    for (const Use& member : members) {
        auto& resource = impl_->resource(member.resource);
        resource.groups.push_back({id, member.share});
        impl_->use_others(resource, Impl::kNone);
    }
    impl_->group(id) = {};
    impl_->group(id).members.assign(members.begin(), members.end());
    return id;
}

void FluidNetwork::forget_group(ResourceId id) {
    auto& group = impl_->group(id);
    const bool used =
        std::any_of(group.routes.begin(), group.routes.end(), [this](Impl::Index route) {
            return std::any_of(
                impl_->routes[route].kinds.begin(), impl_->routes[route].kinds.end(),
                [this](Impl::Index kind) { return !impl_->kinds[kind].members.empty(); });
        });
    if (used || !std::exchange(group.known, false)) {
        throw std::logic_error("[FluidNetwork::forget_group] a group in use, or forgotten before");
    }
    impl_->leaving_groups.push_back(id);
    impl_->ask_to_settle();
}

void FluidNetwork::set_capacity(ResourceId id, double capacity) {
    auto& resource = impl_->resource(id);
    resource.capacity = capacity;
    resource.resized = true;
    const auto resize = [this](const Impl::Used& used) {
        for (const auto index : used.routes) {
            auto& route = impl_->routes[index];
            route.limit = impl_->limit_of(route);
            for (const auto kind : route.kinds) {
                impl_->change(kind);
            }
        }
    };
    resize(resource);
    for (const Use& group : resource.groups) {
        resize(impl_->group(group.resource));
    }
    impl_->change_used(id);
    impl_->ask_to_settle();
}

FluidNetwork::ActivityId FluidNetwork::begin(double work, std::span<const Use> uses,
                                             double max_rate, EventQueue::Action done) {
    if (!(work >= 0) || !(max_rate >= 0) || (uses.empty() && std::isinf(max_rate))) {
        throw std::logic_error(
            "[FluidNetwork::begin] expected work >= 0, and a use or a limit >= 0");
    }
    const auto index = impl_->kind_of(impl_->route_of(uses), max_rate);
    const ActivityId id = impl_->activities.take();
    const auto slot = SlotTable<Impl::Activity>::index_of(id);
    auto& activity = impl_->activities[slot];
    auto& kind = impl_->kinds[index];
    activity.kind = index;
    activity.over = false;
    activity.work = work;
    activity.mark = impl_->passed(kind) + work;
    activity.order = ++impl_->begun;
    activity.done = std::move(done);
    kind.members.push(activity.mark, slot, [this](std::uint32_t item) -> std::uint32_t& {
        return impl_->activities[item].position;
    });
    impl_->change(index);
    return id;
}

double FluidNetwork::cancel(ActivityId id) {
    auto* activity = impl_->activities.find(id);
    if (activity == nullptr) {
        return 0;
    }
    const double units = left(id);
    if (!activity->over) {
        auto& kind = impl_->kinds[activity->kind];
        impl_->routes[kind.route].through += activity->work - units;
        impl_->remove(*activity);
    }
    activity->done = nullptr;
    impl_->activities.release(id);
    return units;
}

void FluidNetwork::set_max_rate(ActivityId id, double max_rate) {
    auto* activity = impl_->activities.find(id);
    if (activity == nullptr || activity->over || impl_->kinds[activity->kind].limit == max_rate) {
        return;
    }
    const double units = left(id);
    const auto route = impl_->kinds[activity->kind].route;
    impl_->remove(*activity);
    activity->kind = impl_->kind_of(route, max_rate);
    auto& kind = impl_->kinds[activity->kind];
    activity->mark = impl_->passed(kind) + units;
    kind.members.push(
        activity->mark, SlotTable<Impl::Activity>::index_of(id),
        [this](std::uint32_t item) -> std::uint32_t& { return impl_->activities[item].position; });
    impl_->change(activity->kind);
}

double FluidNetwork::rate(ActivityId id) const {
    const auto* activity = impl_->activities.find(id);
    if (activity == nullptr || activity->over) {
        return 0;
    }
    const auto tier = impl_->kinds[activity->kind].tier;
    return tier == Impl::kNone ? 0 : impl_->tiers[tier].rate;
}

double FluidNetwork::left(ActivityId id) const {
    const auto* activity = impl_->activities.find(id);
    if (activity == nullptr || activity->over) {
        return 0;
    }
    const double units = activity->mark - impl_->passed(impl_->kinds[activity->kind]);
    return std::clamp(units, 0.0, activity->work);
}

double FluidNetwork::served(ResourceId id) const {
    const auto& resource = impl_->resource(id);
    double sum = impl_->units(resource, id);
    for (const Use& group : resource.groups) {
        sum += group.share * impl_->units(impl_->group(group.resource), group.resource);
    }
    return sum;
}

std::size_t FluidNetwork::active() const noexcept {
    return impl_->activities.size();
}

}  // namespace cohort
