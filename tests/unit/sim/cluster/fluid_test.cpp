// Max-min fair rates: cases worked out by hand, the condition itself on random networks.
#include "sim/cluster/fluid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/sim/queue_steps.hpp"

namespace cohort {
namespace {

using Use = FluidNetwork::Use;
constexpr double kNoLimit = FluidNetwork::kUnlimited;

class FluidTest : public ::testing::Test {
protected:
    FluidNetwork::ActivityId begin(double work, std::vector<Use> uses, double max_rate = kNoLimit) {
        const std::size_t index = ends_.size();
        ends_.push_back(-1);
        return network_.begin(work, uses, max_rate, [this, index] { ends_[index] = queue_.now(); });
    }
    void run() { test::run_all(queue_); }
    /// Steps until `seconds`, with what settles there.
    void run_until(double seconds) { test::run_queue_until(queue_, seconds); }
    /// Rates are those of after the settling of this moment.
    void settle() {
        bool reached = false;
        queue_.settle_with([&] { queue_.after(0, [&] { reached = true; }); });
        while (!reached && queue_.step()) {
        }
    }

    EventQueue queue_;
    FluidNetwork network_{queue_};
    std::vector<double> ends_;  ///< by order of begin(); -1: not yet
};

TEST_F(FluidTest, OneAloneHasItAll) {
    const auto link = network_.add_resource(10);
    const auto one = begin(25, {{link, 1}});
    settle();
    EXPECT_EQ(network_.rate(one), 10);
    EXPECT_EQ(network_.active(), 1U);
    run();
    EXPECT_EQ(ends_, (std::vector<double>{2.5}));
    EXPECT_EQ(network_.active(), 0U);
    EXPECT_EQ(network_.rate(one), 0);
    EXPECT_EQ(network_.left(one), 0);
    EXPECT_EQ(network_.served(link), 25);
}

TEST_F(FluidTest, TwoEqualOnesHaveHalfEachAndTheRestGrows) {
    const auto link = network_.add_resource(10);
    begin(10, {{link, 1}});
    begin(30, {{link, 1}});
    run();
    // 5 each for 2 s; then 20 are left at 10.
    EXPECT_EQ(ends_, (std::vector<double>{2, 4}));
    EXPECT_EQ(network_.served(link), 40);
}

TEST_F(FluidTest, LimitsLeaveTheRestToOthers) {
    const auto link = network_.add_resource(10);
    const auto a = begin(100, {{link, 1}}, 1);
    const auto b = begin(100, {{link, 1}}, 4);
    const auto c = begin(100, {{link, 1}});
    const auto d = begin(100, {{link, 1}}, 100);
    settle();
    EXPECT_EQ(network_.rate(a), 1);
    EXPECT_EQ(network_.rate(b), 3);
    EXPECT_EQ(network_.rate(c), 3);
    EXPECT_EQ(network_.rate(d), 3);
    network_.set_max_rate(b, 2);
    settle();
    EXPECT_EQ(network_.rate(b), 2);
    EXPECT_EQ(network_.rate(c), 3.5);
}

// Bertsekas & Gallager, figure 6.10: sessions over links of capacity 1 in a row.
TEST_F(FluidTest, SeveralBottlenecks) {
    const auto a = network_.add_resource(1);
    const auto b = network_.add_resource(1);
    const auto c = network_.add_resource(2);
    const auto one = begin(9, {{a, 1}});
    const auto two = begin(9, {{a, 1}, {b, 1}});
    const auto three = begin(9, {{b, 1}});
    const auto four = begin(9, {{b, 1}, {c, 1}});
    const auto five = begin(9, {{c, 1}});
    settle();
    EXPECT_NEAR(network_.rate(two), 1.0 / 3, 1e-15);
    EXPECT_NEAR(network_.rate(three), 1.0 / 3, 1e-15);
    EXPECT_NEAR(network_.rate(four), 1.0 / 3, 1e-15);
    EXPECT_NEAR(network_.rate(one), 2.0 / 3, 1e-15);
    EXPECT_NEAR(network_.rate(five), 5.0 / 3, 1e-15);
}

TEST_F(FluidTest, SharesCountAsTheirPartOfTheRate) {
    // A push to four servers: all of it on the sender's card, a quarter on each server's.
    const auto sender = network_.add_resource(10);
    std::vector<FluidNetwork::ResourceId> servers;
    for (int i = 0; i < 4; ++i) {
        servers.push_back(network_.add_resource(1));
    }
    const auto push = begin(
        40,
        {{sender, 1}, {servers[0], .25}, {servers[1], .25}, {servers[2], .25}, {servers[3], .25}});
    const auto other = begin(40, {{servers[3], 1}});
    settle();
    // Server 3: rate / 4 + rate = 1.
    EXPECT_NEAR(network_.rate(push), 0.8, 1e-15);
    EXPECT_NEAR(network_.rate(other), 0.8, 1e-15);
    network_.cancel(other);
    settle();
    EXPECT_EQ(network_.rate(push), 4);
    run();
    EXPECT_EQ(ends_[0], 10);
    EXPECT_EQ(network_.served(sender), 40);
    EXPECT_EQ(network_.served(servers[2]), 10);
}

TEST_F(FluidTest, AGroupsMembersAreUsedTogether) {
    const auto sender = network_.add_resource(10);
    const auto a = network_.add_resource(1);
    const auto b = network_.add_resource(4);
    const std::vector<Use> members = {{a, 0.5}, {b, 0.5}};
    const auto both = network_.add_group(members);
    const auto all = begin(12, {{both, 1}, {sender, 1}});
    settle();
    EXPECT_EQ(network_.rate(all), 2);  // a is full
    // Nothing of a: it is held by b alone, and by the sender.
    const auto one = begin(40, {{both, 1}, {sender, 1}, {a, -0.5}});
    settle();
    EXPECT_EQ(network_.rate(all), 2);
    EXPECT_EQ(network_.rate(one), 6);
    run();
    EXPECT_EQ(ends_[0], 6);
    EXPECT_EQ(network_.served(a), 6);
    EXPECT_EQ(network_.served(b), 26);
    EXPECT_EQ(network_.served(sender), 52);
    EXPECT_THROW(begin(1, {{both, 1}, {a, -0.75}}), std::logic_error);
    EXPECT_THROW(begin(1, {{both, 0.5}}), std::logic_error);
    EXPECT_THROW(begin(1, {{sender, 0}}), std::logic_error);
    EXPECT_THROW(begin(1, {{a, 1}, {a, 1}}), std::logic_error);
}

TEST_F(FluidTest, AForgottenGroupLeavesWhatItServed) {
    const auto sender = network_.add_resource(10);
    const auto a = network_.add_resource(1);
    const auto b = network_.add_resource(4);
    FluidNetwork::ResourceId first = 0;
    for (int turn = 1; turn <= 100; ++turn) {
        const double share = turn / 200.0;
        const std::vector<Use> members = {{a, share}, {b, 1 - share}};
        const auto both = network_.add_group(members);
        first = turn == 1 ? both : first;
        EXPECT_EQ(both, first) << "its id is free again";
        begin(1, {{both, 1}, {sender, 1}});
        begin(1, {{both, 1}, {sender, 1}, {a, -share}});
        begin(1, {{a, 1}});
        EXPECT_THROW(network_.forget_group(both), std::logic_error) << "in use";
        run();
        network_.forget_group(both);
        EXPECT_THROW(network_.forget_group(both), std::logic_error) << "twice";
        EXPECT_THROW(begin(1, {{both, 1}}), std::logic_error);
        run();
    }
    EXPECT_NEAR(network_.served(a), 100 + 100 * 101 / 400.0, 1e-9);
    EXPECT_NEAR(network_.served(b), 200 - 2 * 100 * 101 / 400.0, 1e-9);
    EXPECT_NEAR(network_.served(sender), 200, 1e-9);
    const auto alone = begin(4, {{a, 1}});
    settle();
    EXPECT_EQ(network_.rate(alone), 1);
}

TEST_F(FluidTest, CapacityChangesInMidTransfer) {
    const auto link = network_.add_resource(10);
    begin(100, {{link, 1}});
    run_until(4);
    network_.set_capacity(link, 2);
    run_until(14);
    EXPECT_NEAR(network_.served(link), 60, 1e-12);
    network_.set_capacity(link, 0);
    run_until(50);
    EXPECT_NEAR(network_.served(link), 60, 1e-12);
    network_.set_capacity(link, 40);
    run();
    EXPECT_NEAR(ends_[0], 51, 1e-12);
    EXPECT_EQ(network_.served(link), 100);
}

TEST_F(FluidTest, CancelTellsWhatWasLeft) {
    const auto link = network_.add_resource(10);
    const auto one = begin(100, {{link, 1}});
    const auto two = begin(100, {{link, 1}});
    run_until(4);
    EXPECT_NEAR(network_.left(one), 80, 1e-12);
    EXPECT_NEAR(network_.cancel(one), 80, 1e-12);
    EXPECT_EQ(network_.cancel(one), 0);
    run();
    EXPECT_EQ(ends_[0], -1);
    EXPECT_NEAR(ends_[1], 12, 1e-12);
    EXPECT_EQ(network_.cancel(two), 0);
    EXPECT_NEAR(network_.served(link), 120, 1e-12);
}

TEST_F(FluidTest, WithoutUsesOnlyTheLimitCounts) {
    begin(10, {}, 4);
    begin(0, {}, 4);
    run();
    EXPECT_EQ(ends_, (std::vector<double>{2.5, 0}));
    EXPECT_THROW(begin(1, {}), std::logic_error);
    EXPECT_THROW(begin(-1, {}, 1), std::logic_error);
}

TEST_F(FluidTest, EqualEndsComeInOrderOfBeginning) {
    const auto link = network_.add_resource(7);
    std::vector<int> order;
    const Use use{link, 1};
    // Limits differ, so that they are different kinds; all end at 1 s.
    network_.begin(0.5, {&use, 1}, 0.5, [&] { order.push_back(0); });
    network_.begin(3.1, {&use, 1}, 3.1, [&] { order.push_back(1); });
    network_.begin(0.3, {&use, 1}, 0.3, [&] { order.push_back(2); });
    network_.begin(3.1, {&use, 1}, 3.1, [&] { order.push_back(3); });
    run();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_NEAR(queue_.now(), 1, 1e-12);
}

TEST_F(FluidTest, WhoIsCancelledByOneThatEndsAtTheSameMomentDoesNotEnd) {
    const auto link = network_.add_resource(2);
    const Use use{link, 1};
    bool ended = false;
    FluidNetwork::ActivityId second = 0;
    network_.begin(1, {&use, 1}, kNoLimit, [&] { EXPECT_EQ(network_.cancel(second), 0); });
    second = network_.begin(1, {&use, 1}, kNoLimit, [&] { ended = true; });
    run();
    EXPECT_FALSE(ended);
    EXPECT_EQ(queue_.now(), 1);
    EXPECT_EQ(network_.active(), 0U);
}

}  // namespace
}  // namespace cohort
