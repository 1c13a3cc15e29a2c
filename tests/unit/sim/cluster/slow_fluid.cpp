#include "unit/sim/cluster/slow_fluid.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace cohort::test {

double SlowFluid::load(std::size_t resource) const {
    double sum = 0;
    for (const auto& [name, activity] : activities) {
        for (const Use& use : activity.uses) {
            if (static_cast<std::size_t>(use.resource) == resource) {
                sum += use.share * activity.rate;
            }
        }
    }
    return sum;
}

/// How far the rising ones can rise together, by their weights: until a resource is full or one is
/// at its limit.
double SlowFluid::level(const std::vector<int>& rising) const {
    double level = FluidNetwork::kUnlimited;
    std::vector<double> weight(capacities.size());
    std::vector<double> taken(capacities.size());
    for (const auto& [name, activity] : activities) {
        const bool rises = std::find(rising.begin(), rising.end(), name) != rising.end();
        for (const Use& use : activity.uses) {
            const auto i = static_cast<std::size_t>(use.resource);
            (rises ? weight : taken)[i] += use.share * (rises ? activity.weight : activity.rate);
        }
        if (rises) {
            level = std::min(level, activity.max_rate / activity.weight);
        }
    }
    for (std::size_t i = 0; i < capacities.size(); ++i) {
        if (weight[i] > 0) {
            level = std::min(level, std::max(0.0, capacities[i] - taken[i]) / weight[i]);
        }
    }
    return level;
}

/// At its limit, or on a full resource where no rate relative to its weight is larger: the
/// definition of weighted max-min.
bool SlowFluid::is_held(const Activity& activity) const {
    constexpr double kSlack = 1e-9;
    if (activity.rate >= activity.max_rate * (1 - kSlack)) {
        return true;
    }
    return std::any_of(activity.uses.begin(), activity.uses.end(), [&](const Use& use) {
        const auto i = static_cast<std::size_t>(use.resource);
        double largest = 0;
        for (const auto& [name, other] : activities) {
            for (const Use& theirs : other.uses) {
                if (theirs.resource == use.resource) {
                    largest = std::max(largest, other.rate / other.weight);
                }
            }
        }
        return load(i) >= capacities[i] * (1 - kSlack) &&
               activity.rate / activity.weight >= largest * (1 - kSlack);
    });
}

void SlowFluid::fill() {
    std::vector<int> rising;
    for (auto& [name, activity] : activities) {
        rising.push_back(name);
        activity.rate = 0;
    }
    while (!rising.empty()) {
        const double to = level(rising);
        for (const int name : rising) {
            activities[name].rate = to * activities[name].weight;
        }
        std::erase_if(rising, [&](int name) { return is_held(activities[name]); });
    }
    for (const auto& [name, activity] : activities) {
        EXPECT_TRUE(is_held(activity));
    }
    for (std::size_t i = 0; i < capacities.size(); ++i) {
        EXPECT_LE(load(i), capacities[i] * (1 + 1e-9));
    }
}

void SlowFluid::advance(double seconds) {
    served.resize(capacities.size());
    while (now_ < seconds) {
        fill();
        double span = seconds - now_;
        for (const auto& [name, activity] : activities) {
            if (activity.rate > 0) {
                span = std::min(span, activity.left / activity.rate);
            }
        }
        now_ += span;
        for (auto& [name, activity] : activities) {
            activity.left -= activity.rate * span;
            for (const Use& use : activity.uses) {
                served[static_cast<std::size_t>(use.resource)] += activity.rate * use.share * span;
            }
            if (activity.left <= 1e-12 * activity.work) {
                ended[name] = now_;
            }
        }
        std::erase_if(activities, [&](const auto& each) { return ended.contains(each.first); });
    }
}

}  // namespace cohort::test
