// Progressive filling over all activities whenever something changed: rates rise together until a
// resource is full or an activity is at its limit, whoever is held by that stays, the others rise
// on. Cost: O(activities * uses * rounds) per moment with a change.
#include "cohort/sim/fluid.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

namespace cohort {
namespace {

/// Moments nearer to each other than this, relative to the clock, are one.
constexpr double kMoment = 1e-13;

}  // namespace

struct FluidNetwork::Impl {
    struct Activity {
        double left = 0;
        double work = 0;
        double max_rate = 0;
        double rate = 0;
        bool held = false;  ///< while rates are worked out: it rises no more
        std::vector<Use> uses;
        EventQueue::Action done;
    };
    struct Resource {
        double capacity = 0;
        double served = 0;
    };

    explicit Impl(EventQueue& events) : queue(events) {}

    void changed() {
        if (!settling) {
            settling = true;
            queue.settle_with([this] { settle(); });
        }
    }
    void advance() {
        const double span = queue.now() - since;
        since = queue.now();
        if (span <= 0) {
            return;
        }
        for (auto& [id, activity] : activities) {
            const double went = std::min(activity.left, activity.rate * span);
            activity.left -= went;
            for (const Use& use : activity.uses) {
                resources[static_cast<std::size_t>(use.resource)].served += went * use.share;
            }
        }
    }
    void fill();
    void settle();
    void finish();

    EventQueue& queue;
    std::map<ActivityId, Activity> activities;
    std::vector<Resource> resources;
    double since = 0;
    ActivityId last_id = 0;
    EventQueue::Id event = 0;
    bool settling = false;
};

void FluidNetwork::Impl::fill() {
    std::vector<double> free(resources.size());
    std::vector<double> weight(resources.size());
    for (std::size_t i = 0; i < resources.size(); ++i) {
        free[i] = resources[i].capacity;
    }
    std::size_t rising = activities.size();
    for (auto& [id, activity] : activities) {
        activity.held = false;
    }
    while (rising > 0) {
        std::fill(weight.begin(), weight.end(), 0.0);
        double level = kUnlimited;
        for (const auto& [id, activity] : activities) {
            if (activity.held) {
                continue;
            }
            level = std::min(level, activity.max_rate);
            for (const Use& use : activity.uses) {
                weight[static_cast<std::size_t>(use.resource)] += use.share;
            }
        }
        for (std::size_t i = 0; i < resources.size(); ++i) {
            if (weight[i] > 0) {
                level = std::min(level, std::max(0.0, free[i]) / weight[i]);
            }
        }
        const auto stops = [&](const Activity& activity) {
            return activity.max_rate <= level ||
                   std::any_of(activity.uses.begin(), activity.uses.end(), [&](const Use& use) {
                       const auto i = static_cast<std::size_t>(use.resource);
                       return std::max(0.0, free[i]) / weight[i] <= level * (1 + 1e-12);
                   });
        };
        std::vector<Activity*> stopped;
        for (auto& [id, activity] : activities) {
            if (!activity.held && stops(activity)) {
                stopped.push_back(&activity);
            }
        }
        for (Activity* activity : stopped) {
            activity->held = true;
            activity->rate = level;
            --rising;
            for (const Use& use : activity->uses) {
                free[static_cast<std::size_t>(use.resource)] -= level * use.share;
            }
        }
    }
}

void FluidNetwork::Impl::settle() {
    settling = false;
    advance();
    fill();
    double next = kUnlimited;
    for (const auto& [id, activity] : activities) {
        if (activity.left <= 0) {
            next = queue.now();
        } else if (activity.rate > 0) {
            next = std::min(next, queue.now() + activity.left / activity.rate);
        }
    }
    queue.cancel(event);
    event = std::isinf(next) ? 0 : queue.at(next, [this] { finish(); });
}

void FluidNetwork::Impl::finish() {
    event = 0;
    const double before = since;
    advance();
    const double moment = kMoment * std::max(queue.now(), queue.now() - before);
    for (auto it = activities.begin(); it != activities.end(); ++it) {
        if (it->second.left <= it->second.rate * moment) {
            const EventQueue::Action done = std::move(it->second.done);
            activities.erase(it);
            changed();
            event = queue.at(queue.now(), [this] { finish(); });
            if (done) {
                done();
            }
            return;
        }
    }
    changed();
}

FluidNetwork::FluidNetwork(EventQueue& queue) : impl_(std::make_unique<Impl>(queue)) {
}
FluidNetwork::~FluidNetwork() = default;

FluidNetwork::ResourceId FluidNetwork::add_resource(double capacity) {
    impl_->resources.push_back({capacity, 0});
    return static_cast<ResourceId>(impl_->resources.size() - 1);
}

void FluidNetwork::set_capacity(ResourceId resource, double capacity) {
    impl_->resources[static_cast<std::size_t>(resource)].capacity = capacity;
    impl_->changed();
}

FluidNetwork::ActivityId FluidNetwork::begin(double work, std::span<const Use> uses,
                                             double max_rate, EventQueue::Action done) {
    if (!(work >= 0) || (uses.empty() && std::isinf(max_rate))) {
        throw std::logic_error("[FluidNetwork::begin] work < 0, or neither a use nor a limit");
    }
    impl_->advance();
    const ActivityId id = ++impl_->last_id;
    auto& activity = impl_->activities[id];
    activity.left = activity.work = work;
    activity.max_rate = max_rate;
    activity.uses.assign(uses.begin(), uses.end());
    activity.done = std::move(done);
    impl_->changed();
    return id;
}

double FluidNetwork::cancel(ActivityId activity) {
    const auto it = impl_->activities.find(activity);
    if (it == impl_->activities.end()) {
        return 0;
    }
    impl_->advance();
    const double left = it->second.left;
    impl_->activities.erase(it);
    impl_->changed();
    return left;
}

void FluidNetwork::set_max_rate(ActivityId activity, double max_rate) {
    if (const auto it = impl_->activities.find(activity); it != impl_->activities.end()) {
        it->second.max_rate = max_rate;
        impl_->changed();
    }
}

double FluidNetwork::rate(ActivityId activity) const {
    const auto it = impl_->activities.find(activity);
    return it == impl_->activities.end() ? 0 : it->second.rate;
}

double FluidNetwork::left(ActivityId activity) const {
    impl_->advance();
    const auto it = impl_->activities.find(activity);
    return it == impl_->activities.end() ? 0 : it->second.left;
}

double FluidNetwork::served(ResourceId resource) const {
    impl_->advance();
    return impl_->resources[static_cast<std::size_t>(resource)].served;
}

std::size_t FluidNetwork::active() const noexcept {
    return impl_->activities.size();
}

}  // namespace cohort
