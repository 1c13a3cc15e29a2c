#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/fluid_fill.hpp"
#include "sim/cluster/fluid_rates.hpp"
#include "sim/cluster/fluid_routes.hpp"

namespace cohort {

/// Activities that share resources by weighted max-min fairness (progressive filling; Bertsekas &
/// Gallager, Data Networks, section 6.5): no rate can grow without shrinking one that is, relative
/// to its weight, not larger. What an activity cannot use remains for the others.
/// A resource is a direction of a network card (bytes/s) or the processors of a node (cores); an
/// activity is a transfer (bytes) or work of a processor (core seconds). Rates change when
/// activities begin or end, or capacities change, and are worked out once per moment for
/// what is connected with the change.
class FluidNetwork {
public:
    using ResourceId = fluid::ResourceId;
    using ActivityId = fluid::ActivityId;
    using Use = fluid::Use;
    static constexpr double kUnlimited = fluid::kUnlimited;
    static constexpr double kWeightStep = 1.0 / 1024;
    static constexpr double kMostWeight = 1024;

    explicit FluidNetwork(EventQueue& queue) : state_(queue, [this] { settle(); }) {}
    FluidNetwork(const FluidNetwork&) = delete;
    FluidNetwork& operator=(const FluidNetwork&) = delete;

    /// @param capacity units per second, >= 0 (0: everything on it stands still)
    ResourceId add_resource(double capacity);
    void set_capacity(ResourceId resource, double capacity);
    /// Several resources under one name, for activities that use them all: each counts in
    /// proportion to its share here. An activity uses one group at most. It may use members of it
    /// in addition, or less of them by a share below 0, down to nothing. What a change costs then
    /// grows with the number of members alone, and not with that times the different activities.
    [[nodiscard]] ResourceId add_group(std::span<const Use> members) {
        return groups_.add(members);
    }
    /// No activity uses it, and none will be begun: another group may get its id.
    /// What went through it stays with its members. Errors: std::logic_error for one in use.
    void forget_group(ResourceId group);

    /// Begins `work` units; `done` is called at the moment when they are done (the activity is over
    /// by then). @param max_rate units per second, whatever is free. An activity without uses runs
    /// at max_rate. @param weight  rounded to a multiple of kWeightStep, so that sums are exact.
    /// Errors: std::logic_error for work < 0, neither a use nor a limit, or a weight outside
    /// kWeightStep..kMostWeight.
    ActivityId begin(double work, std::span<const Use> uses, double max_rate,
                     EventQueue::Action done, double weight = 1);
    /// Gives it up. @return units that were left; 0 when it is over
    double cancel(ActivityId activity);
    void set_max_rate(ActivityId activity, double max_rate);
    /// Units per second, as of the last settling; units left now.
    [[nodiscard]] double rate(ActivityId activity) const;
    [[nodiscard]] double left(ActivityId activity) const;

    /// Units that went through a resource so far.
    [[nodiscard]] double served(ResourceId resource);
    /// Activities in progress.
    [[nodiscard]] std::size_t active() const noexcept { return state_.activities.size(); }

private:
    void settle();

    fluid::State state_;
    fluid::Completions completions_{state_};
    fluid::RouteTable routes_{state_};
    fluid::PathTable paths_{state_};
    fluid::GroupTable groups_{state_, routes_, paths_};
    fluid::Tiers tiers_{state_, routes_, paths_, completions_};
    fluid::Bottlenecks bottlenecks_{state_};
    fluid::Filling filling_{state_};
    std::uint64_t begun_ = 0;
};

}  // namespace cohort
