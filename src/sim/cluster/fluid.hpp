#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include "sim/cluster/event_queue.hpp"

namespace cohort {

/// Activities that share resources by max-min fairness (progressive filling; Bertsekas & Gallager,
/// Data Networks, section 6.5): no rate can grow without shrinking one that is not larger.
/// A resource is a direction of a network card (bytes/s) or the processors of a node (cores); an
/// activity is a transfer (bytes) or work of a processor (core seconds). Rates change when
/// activities begin or end, or capacities change, and are worked out once per moment for
/// what is connected with the change.
class FluidNetwork {
public:
    using ResourceId = std::int32_t;
    using ActivityId = std::uint64_t;  ///< 0: none; never used twice
    /// `share` of the activity's rate is taken from the resource, or from the group.
    struct Use {
        ResourceId resource = 0;
        double share = 1;
    };
    static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

    explicit FluidNetwork(EventQueue& queue);
    FluidNetwork(const FluidNetwork&) = delete;
    FluidNetwork& operator=(const FluidNetwork&) = delete;
    ~FluidNetwork();

    /// @param capacity units per second, >= 0 (0: everything on it stands still)
    ResourceId add_resource(double capacity);
    void set_capacity(ResourceId resource, double capacity);
    /// Several resources under one name, for activities that use them all: each counts in
    /// proportion to its share here. An activity uses one group at most. It may use members of it
    /// in addition, or less of them by a share below 0, down to nothing. What a change costs then
    /// grows with the number of members alone, and not with that times the different activities.
    [[nodiscard]] ResourceId add_group(std::span<const Use> members);
    /// No activity uses it, and none will be begun: another group may get its id.
    /// What went through it stays with its members. Errors: std::logic_error for one in use.
    void forget_group(ResourceId group);

    /// Begins `work` units; `done` is called at the moment when they are done (the activity is over
    /// by then). @param max_rate units per second, whatever is free. An activity without uses runs
    /// at max_rate. Errors: std::logic_error for work < 0, or neither a use nor a limit.
    ActivityId begin(double work, std::span<const Use> uses, double max_rate,
                     EventQueue::Action done);
    /// Gives it up. @return units that were left; 0 when it is over
    double cancel(ActivityId activity);
    void set_max_rate(ActivityId activity, double max_rate);
    /// Units per second, as of the last settling; units left now.
    [[nodiscard]] double rate(ActivityId activity) const;
    [[nodiscard]] double left(ActivityId activity) const;

    /// Units that went through a resource so far.
    [[nodiscard]] double served(ResourceId resource) const;
    /// Activities in progress.
    [[nodiscard]] std::size_t active() const noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
