// STAR's rules against numbers worked out by hand and by simulation.
#include <gmock/gmock.h>

#include "cohort/sched/chooser.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr double kBatch = 128;
constexpr double kLarge = 1389.58;  ///< noise scales
constexpr double kSmall = 185.8;

using Times = std::vector<double>;
const Times kOneSlow{.1, .1, .1, .1, .1, .1, .1, .2};
const Times kHalfSlow{.1, .1, .1, .1, .2, .2, .2, .2};
const Times kTail{.1, .102, .098, .101, .099, .15, .22, .4};
const Times kSpread{.1, .11, .15, .2, .3, .5, .8, 1};

/// What the rules say, costs in milliseconds.
struct Golden {
    Times own_s;
    double noise_scale;
    int order;
    double cost;
    double dynamic_cost;
    bool exact_dynamic;
    int ring_order;
};
class StarGoldens : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Patterns, StarGoldens,
                         testing::Values(Golden{kOneSlow, kLarge, 7, 34.01, 230.31, true, 7},
                                         Golden{kHalfSlow, kLarge, 4, 61.90, 247.60, false, 4},
                                         Golden{kTail, kLarge, 5, 65.91, 235.40, true, 5},
                                         Golden{kSpread, kLarge, 2, 237.21, 329.18, true, 3},
                                         Golden{kOneSlow, kSmall, 7, 16.10, 96.88, true, 7},
                                         Golden{kHalfSlow, kSmall, 4, 22.71, 90.86, false, 4},
                                         Golden{kTail, kSmall, 4, 26.59, 75.81, true, 5},
                                         Golden{kSpread, kSmall, 2, 63.69, 76.22, true, 2}));

TEST_P(StarGoldens, Servers) {
    const Golden& golden = GetParam();
    const StarChoice choice = star_choice(golden.own_s, kBatch, golden.noise_scale, false);
    EXPECT_EQ(choice.order, golden.order);
    EXPECT_NEAR(choice.cost * 1000, golden.cost, 0.006);
    EXPECT_NEAR(choice.dynamic_cost * 1000, golden.dynamic_cost, 0.006);
    EXPECT_FALSE(choice.dynamic) << "as published it cannot win";
    const StarChoice exact = star_choice(golden.own_s, kBatch, golden.noise_scale, true);
    EXPECT_EQ(exact.order, golden.order);
    EXPECT_EQ(exact.dynamic, golden.exact_dynamic);
}

TEST_P(StarGoldens, RingsAndTwoModes) {
    const Golden& golden = GetParam();
    EXPECT_EQ(star_ring_order(golden.own_s, kBatch, golden.noise_scale), golden.ring_order);
    EXPECT_FALSE(keeps_ssgd(golden.own_s, kBatch, golden.noise_scale));
}

TEST(StarRules, AloneThereIsNothingToChoose) {
    const Times one{0.1};
    EXPECT_TRUE(keeps_ssgd(one, kBatch, kLarge));
    EXPECT_EQ(star_choice(one, kBatch, kLarge, true).order, 1);
    EXPECT_FALSE(star_choice(one, kBatch, kLarge, true).dynamic);
    EXPECT_EQ(star_ring_order(one, kBatch, kLarge), 1);
}

TEST(StarRules, SsgdIsKeptWhenThereIsNothingToWaitFor) {
    const Times equal(8, 0.1);
    EXPECT_TRUE(keeps_ssgd(equal, kBatch, kLarge));
    // n(8b) 1.03 <= n(7b) 1.00375 by what a larger batch saves; 1.30 is too slow.
    Times slow = equal;
    slow.back() = 0.103;
    EXPECT_TRUE(keeps_ssgd(slow, kBatch, kLarge));
    slow.back() = 0.13;
    EXPECT_FALSE(keeps_ssgd(slow, kBatch, kLarge));
}

TEST(StarRules, EqualTimesGiveAllOfThem) {
    const Times equal(8, 0.1);
    // t_i(x) is that of single pushes for x below N, so the largest x below N has the least cost.
    EXPECT_EQ(star_choice(equal, kBatch, kLarge, false).order, 7);
    EXPECT_EQ(star_ring_order(equal, kBatch, kLarge), 8);
}

TEST(StarRules, CostsOfOneChoiceAgreeWithTheChoice) {
    const StarChoice choice = star_choice(kTail, kBatch, kLarge, true);
    EXPECT_DOUBLE_EQ(star_static_cost(kTail, choice.order, kBatch, kLarge, false), choice.cost);
    EXPECT_DOUBLE_EQ(star_dynamic_cost(kTail, choice.groups, kBatch, kLarge), choice.dynamic_cost);
    // 100 ms a fifth order update by simulation.
    EXPECT_NEAR(star_static_cost(kTail, 5, kBatch, kLarge, true), (1 + kLarge / 640) * 0.1, 1e-3);
}

TEST(StarRules, WardMergesTheNearest) {
    EXPECT_THAT(star_groups(kTail, 0.05), ElementsAre(ElementsAre(0, 1, 2, 3, 4), ElementsAre(5),
                                                      ElementsAre(6), ElementsAre(7)));
    // 0 and 10 ms merge at 10; their mean of 5 and 40 at sqrt(2 * 2 / 3) * 35 = 40.4.
    const Times three{0.040, 0.010, 0.0001};
    EXPECT_THAT(star_groups(three, 0.0403), ElementsAre(ElementsAre(1, 2), ElementsAre(0)));
    EXPECT_THAT(star_groups(three, 0.0405), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(StarRules, AThousandWorkersAreGrouped) {
    Times own_s;
    for (int i = 0; i < 1024; ++i) {
        own_s.push_back(0.1 + 0.1 * (i % 4) + 1e-6 * i);
    }
    const std::vector<std::vector<int>> groups = star_groups(own_s, 0.05);
    ASSERT_THAT(groups, testing::SizeIs(4));
    EXPECT_THAT(groups.front(), testing::SizeIs(256));
}

}  // namespace
}  // namespace cohort
