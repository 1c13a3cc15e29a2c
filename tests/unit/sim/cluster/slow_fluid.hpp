#pragma once

#include <map>
#include <vector>

#include "sim/cluster/fluid.hpp"

namespace cohort::test {

/// Weighted max-min fairness written down as it is defined, for comparison with FluidNetwork: all
/// rates anew after every change, all amounts brought up to date at every step.
class SlowFluid {
public:
    using Use = FluidNetwork::Use;
    struct Activity {
        double work = 0;
        double left = 0;
        std::vector<Use> uses;
        double max_rate = 0;
        double rate = 0;
        double weight = 1;
    };

    std::vector<double> capacities;
    std::map<int, Activity> activities;  ///< by name
    std::map<int, double> ended;         ///< when
    std::vector<double> served;          ///< by resource

    /// Amounts and ends up to a time.
    void advance(double seconds);
    /// Rates of all. Errors: a failed expectation when they are not max-min fair.
    void fill();
    [[nodiscard]] double load(std::size_t resource) const;

private:
    [[nodiscard]] double level(const std::vector<int>& rising) const;
    [[nodiscard]] bool is_held(const Activity& activity) const;

    double now_ = 0;
};

}  // namespace cohort::test
