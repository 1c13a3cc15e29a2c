// Random networks: the same rates, amounts and ends as the definition gives, whatever begins, ends
// or changes; and the same run twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "unit/sim/cluster/slow_fluid.hpp"

namespace cohort {
namespace {

using Use = FluidNetwork::Use;

/// A network and its slow twin under the same random changes.
class Twins {
public:
    /// @param weights  that are drawn
    Twins(std::uint64_t seed, int resources, std::vector<double> weights = {1})
        : random_(seed), weights_(std::move(weights)) {
        for (int i = 0; i < resources; ++i) {
            const double capacity = pick({1, 2, 5, 10});
            slow.capacities.push_back(capacity);
            fast.add_resource(capacity);
        }
        for (int i = 0; i < 2; ++i) {
            groups_.push_back(make_group());
        }
    }

    /// Something begins, is given up or changes at this moment.
    void change() {
        const auto what = below(11);
        if (what == 10) {
            replace_group();
        } else if (what < 6 || slow.activities.empty()) {
            begin();
        } else if (what == 6) {
            auto it = slow.activities.begin();
            std::advance(it, below(slow.activities.size()));
            EXPECT_NEAR(fast.cancel(ids[it->first]), it->second.left, 1e-9 * it->second.work);
            slow.activities.erase(it);
        } else if (what == 7) {
            auto it = slow.activities.begin();
            std::advance(it, below(slow.activities.size()));
            it->second.max_rate = pick({0.1, 0.5, 1, 3});
            fast.set_max_rate(ids[it->first], it->second.max_rate);
        } else {
            const std::size_t resource = below(slow.capacities.size());
            slow.capacities[resource] = pick({0, 1, 2, 5, 10});
            fast.set_capacity(static_cast<FluidNetwork::ResourceId>(resource),
                              slow.capacities[resource]);
        }
    }

    void compare() {
        slow.fill();
        ASSERT_EQ(fast.active(), slow.activities.size());
        for (const auto& [name, activity] : slow.activities) {
            ASSERT_NEAR(fast.rate(ids[name]), activity.rate, 1e-9 * (1 + activity.rate)) << name;
            ASSERT_NEAR(fast.left(ids[name]), activity.left, 1e-9 * activity.work) << name;
        }
        for (std::size_t i = 0; i < slow.served.size(); ++i) {
            const auto resource = static_cast<FluidNetwork::ResourceId>(i);
            ASSERT_NEAR(fast.served(resource), slow.served[i], 1e-9 * (1 + slow.served[i]));
        }
    }

    std::uint64_t below(std::uint64_t count) { return random_() % count; }
    double pick(std::vector<double> values) { return values[below(values.size())]; }

    EventQueue queue;
    FluidNetwork fast{queue};
    test::SlowFluid slow;
    std::map<int, FluidNetwork::ActivityId> ids;
    std::map<int, double> ended;

private:
    struct Group {
        FluidNetwork::ResourceId id = 0;
        std::vector<Use> members;
        std::vector<int> activities;  ///< that were begun on it
    };

    Group make_group() {
        Group group;
        for (std::size_t member = 0; member < slow.capacities.size(); ++member) {
            if (below(2) == 0) {
                group.members.push_back(
                    {static_cast<FluidNetwork::ResourceId>(member), pick({0.25, 0.5, 1})});
            }
        }
        group.id = fast.add_group(group.members);
        return group;
    }

    /// One that nobody uses is forgotten, another one takes its place.
    void replace_group() {
        Group& group = groups_[below(groups_.size())];
        if (std::none_of(group.activities.begin(), group.activities.end(),
                         [this](int name) { return slow.activities.contains(name); })) {
            fast.forget_group(group.id);
            group = make_group();
        }
    }

    /// Some resources, or a group with some of its members used more, less or not at all.
    void begin() {
        std::vector<Use> uses;   // as FluidNetwork is told
        std::vector<Use> plain;  // the same without groups
        const int name = ++names_;
        if (below(3) == 0) {
            Group& group = groups_[below(groups_.size())];
            group.activities.push_back(name);
            uses.push_back({group.id, 1});
            plain = group.members;
        }
        for (std::size_t i = 0; i < slow.capacities.size(); ++i) {
            if (below(slow.capacities.size()) < 2) {
                const Use use{static_cast<FluidNetwork::ResourceId>(i), pick({1, 1, 0.25, 2})};
                uses.push_back(add(plain, use));
            }
        }
        std::erase_if(plain, [](const Use& use) { return use.share == 0; });
        const bool limited = plain.empty() || below(3) == 0;
        const double limit = limited ? pick({0.1, 0.5, 1, 3}) : FluidNetwork::kUnlimited;
        const double work = pick({0.3, 1, 3, 10});
        const double weight = weights_.size() == 1 ? weights_.front() : pick(weights_);
        slow.activities[name] = {work, work, plain, limit, 0, weight};
        ids[name] = fast.begin(
            work, uses, limit, [this, name] { ended[name] = queue.now(); }, weight);
    }

    /// What is used of a resource, more or, of a group's member, sometimes less. @return that
    Use add(std::vector<Use>& plain, Use use) {
        const auto member = std::find_if(plain.begin(), plain.end(), [&](const Use& one) {
            return one.resource == use.resource;
        });
        if (member == plain.end()) {
            plain.push_back(use);
            return use;
        }
        use.share = pick({-1, -1, -0.5, 0.25}) * member->share;
        member->share += use.share;
        return use;
    }

    std::mt19937_64 random_;
    std::vector<double> weights_;
    std::vector<Group> groups_;
    int names_ = 0;
};

class FluidRandomTest : public ::testing::TestWithParam<int> {};

void compare_with_the_definition(std::uint64_t seeds, int resources,
                                 const std::vector<double>& weights) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Twins twins(seed, resources, weights);
        double time = 0;
        for (int i = 0; i < 60; ++i) {
            // Often several changes at one moment; never one at which something ends.
            time += twins.below(3) == 0 ? 0 : 1e-6 * static_cast<double>(1 + twins.below(1000003));
            twins.queue.at(time, [&] {
                twins.slow.advance(twins.queue.now());
                twins.change();
                // Once all is settled, at the same moment.
                twins.queue.settle_with([&] { twins.queue.after(0, [&] { twins.compare(); }); });
            });
        }
        while (twins.queue.step()) {
            ASSERT_FALSE(::testing::Test::HasFatalFailure());
        }
        twins.slow.advance(twins.queue.now());
        ASSERT_EQ(twins.ended.size(), twins.slow.ended.size());
        for (const auto& [name, time_s] : twins.slow.ended) {
            ASSERT_NEAR(twins.ended[name], time_s, 1e-9 * (1 + time_s)) << name;
        }
    }
}

TEST_P(FluidRandomTest, AgreesWithTheDefinition) {
    compare_with_the_definition(100, GetParam(), {1});
}

TEST_P(FluidRandomTest, AgreesWithTheDefinitionWithWeights) {
    compare_with_the_definition(50, GetParam(), {0.25, 1, 1, 1.5, 2, 8});
}

INSTANTIATE_TEST_SUITE_P(Resources, FluidRandomTest, ::testing::Values(1, 2, 4, 8, 16));

TEST(FluidRepeatTest, TheSameRunTwice) {
    std::vector<std::map<int, double>> runs;
    for (int run = 0; run < 2; ++run) {
        Twins twins(5, 6);
        for (int i = 0; i < 400; ++i) {
            twins.queue.at(0.1 * i, [&] {
                twins.slow.advance(twins.queue.now());
                twins.change();
            });
        }
        while (twins.queue.step()) {
        }
        runs.push_back(twins.ended);
    }
    EXPECT_GT(runs[0].size(), 100U);
    EXPECT_EQ(runs[0], runs[1]);  // bit for bit
}

// Everybody goes round for a long time: what each has got must add up exactly, and who does the
// same ends at the same moment, to the last.
TEST(FluidDriftTest, EqualsStayEqualAndNothingIsLost) {
    EventQueue queue;
    FluidNetwork network(queue);
    constexpr int kWorkers = 12;
    constexpr int kRounds = 2000;
    const auto server = network.add_resource(3);
    std::vector<FluidNetwork::ResourceId> cards;
    std::vector<int> rounds(kWorkers);
    std::vector<double> ends(kWorkers);
    for (int i = 0; i < kWorkers; ++i) {
        cards.push_back(network.add_resource(0.7));
    }
    std::function<void(int)> go = [&](int worker) {
        const auto index = static_cast<std::size_t>(worker);
        const std::vector<Use> uses = {{cards[index], 1}, {server, 1}};
        if (rounds[index]++ == kRounds) {
            ends[index] = queue.now();
            return;
        }
        network.begin(0.1, uses, FluidNetwork::kUnlimited,
                      [&, worker] { queue.after(0.3, [&, worker] { go(worker); }); });
    };
    for (int i = 0; i < kWorkers; ++i) {
        go(i);
    }
    while (queue.step()) {
    }
    EXPECT_NEAR(network.served(server), 0.1 * kWorkers * kRounds, 1e-8);
    // All together: 0.1 each at 3/12.
    for (const double end : ends) {
        EXPECT_NEAR(end, kRounds * (0.3 + 0.4), 1e-7);
        EXPECT_EQ(end, ends.front());
    }
    EXPECT_EQ(queue.events(), static_cast<std::uint64_t>(2 * kWorkers * kRounds));
}

// Routes that nobody uses any more are forgotten; what went over them is not.
TEST(FluidForgetTest, ServedOutlivesTheRoutes) {
    EventQueue queue;
    FluidNetwork network(queue);
    constexpr int kResources = 600;
    for (int i = 0; i < kResources; ++i) {
        network.add_resource(1);
    }
    const Use first{0, 1};
    const auto steady = network.begin(1e6, {&first, 1}, FluidNetwork::kUnlimited, nullptr);
    std::vector<double> expected(kResources);
    for (int round = 0; round < 4000; ++round) {
        std::vector<Use> uses;
        const double share = 1 + round * 1e-6;
        for (int i = 1; i < kResources; i += 1 + round % 2) {
            uses.push_back({i, share});
            expected[static_cast<std::size_t>(i)] += share;
        }
        network.begin(1, uses, FluidNetwork::kUnlimited, nullptr);
        while (network.active() > 1) {
            queue.step();
        }
    }
    EXPECT_NEAR(network.served(0), queue.now(), 1e-6);
    EXPECT_NEAR(network.left(steady), 1e6 - queue.now(), 1e-6);
    for (int i = 1; i < kResources; ++i) {
        EXPECT_NEAR(network.served(i), expected[static_cast<std::size_t>(i)], 1e-6) << i;
    }
}

}  // namespace
}  // namespace cohort
