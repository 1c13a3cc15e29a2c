#include "sim/cluster/fluid_state.hpp"

#include <algorithm>

namespace cohort::fluid {

double State::share_in(ResourceId id, ResourceId group_id) const {
    for (const Use& group : resources[static_cast<std::size_t>(id)].groups) {
        if (group.resource == group_id) {
            return group.share;
        }
    }
    return 0;
}

/// Units of all activities of the route so far.
double State::through(const Route& route) const {
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

double State::units(const Used& used, ResourceId id) const {
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

void State::change_route(const Route& route) {
    for (const Index kind : route.kinds) {
        change_kind(kind);
    }
}

void State::change_used(ResourceId id) {
    bool& known = used(id).changed;
    if (is_group(id)) {
        note(known, changed.groups, group_index(id));
    } else {
        note(known, changed.resources, static_cast<Index>(id));
    }
}

void State::ask_to_settle() {
    if (!std::exchange(settling, true)) {
        queue.settle_with(settle);
    }
}

}  // namespace cohort::fluid
