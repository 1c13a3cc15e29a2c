// The guard against plans that are too stale: losses of recorded runs, and made-up ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "cohort/sched/efficiency.hpp"
#include "support/loss_curves.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kBatch = 512;
constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kAsgd = 0.88;  ///< lag of 8 workers

TEST(StalenessGuard, StaysSilentOnAHealthyAsynchronousRun) {
    StalenessGuard guard(kBatch);
    for (const float loss : test::kHealthyLosses) {
        guard.add(static_cast<double>(loss), kBatch, kAsgd);
    }
    EXPECT_EQ(guard.lag_limit(), kNone);
    EXPECT_EQ(guard.take_reason(), "");
}

/// A loss slows down by itself, most of all at the beginning: that is not the stale plan's fault,
/// whenever that plan begins.
TEST(StalenessGuard, StaysSilentWhereverAHealthyRunBecomesAsynchronous) {
    for (std::size_t change = 0; change <= test::kHealthyLosses.size(); ++change) {
        StalenessGuard guard(kBatch);
        for (std::size_t at = 0; at < test::kHealthyLosses.size(); ++at) {
            guard.add(static_cast<double>(test::kHealthyLosses.at(at)), kBatch,
                      at < change ? 0 : kAsgd);
        }
        EXPECT_EQ(guard.lag_limit(), kNone) << "after " << change << ": " << guard.take_reason();
    }
}

TEST(StalenessGuard, EndsAStalePlanUnderWhichTheLossExplodes) {
    StalenessGuard guard(kBatch);
    constexpr int kSwitch = 80;  // reference batches of ssgd
    int at = 0;
    while (at < static_cast<int>(test::kDivergingLosses.size()) && guard.lag_limit() == kNone) {
        guard.add(static_cast<double>(test::kDivergingLosses.at(static_cast<std::size_t>(at))),
                  kBatch, at < kSwitch ? 0 : kAsgd);
        ++at;
    }
    constexpr int kUpdates = 8;  // in a reference batch
    EXPECT_LT((at - kSwitch) * kUpdates, 350) << "a few hundred updates";
    EXPECT_GT(at, kSwitch);
    EXPECT_LT(guard.lag_limit(), kAsgd);
    EXPECT_GT(guard.lag_limit(), 0.5) << "fresher plans have not been tried";
    EXPECT_THAT(guard.take_reason(), HasSubstr("training loss"));
    EXPECT_EQ(guard.take_reason(), "") << "once";
    for (int i = 0; i < 200; ++i) {  // ssgd mends it
        guard.add(0.5, kBatch, 0);
    }
    EXPECT_LT(guard.lag_limit(), kAsgd) << "it is remembered";
}

/// Made-up runs: a loss that falls, with noise, under ssgd, then something else.
class MadeUp : public testing::Test {
protected:
    void run(int batches, double lag, const std::function<double(int)>& loss) {
        for (int i = 0; i < batches; ++i) {
            guard_.add(loss(i) + noise_(dice_), kBatch, lag);
        }
    }
    StalenessGuard guard_{kBatch};
    std::mt19937_64 dice_{11};
    std::normal_distribution<double> noise_{0, 0.03};
};

double falling(int at) {
    return 0.4 + 1.6 * std::exp(-at / 60.0);
}

TEST_F(MadeUp, ALossThatStopsFallingUnderAStalePlanIsFlat) {
    run(64, 0, falling);
    run(100, 0.9, [](int) { return falling(64); });
    EXPECT_LT(guard_.lag_limit(), 0.9);
    EXPECT_THAT(guard_.take_reason(), HasSubstr("no longer falls"));
}

TEST_F(MadeUp, ALossThatStopsFallingIsFlatWhereverItWouldHaveGoneOn) {
    for (const int change : {52, 64, 76, 88}) {
        guard_ = StalenessGuard(kBatch);
        run(change, 0, falling);
        run(100, 0.9, [&](int) { return falling(change); });
        EXPECT_LT(guard_.lag_limit(), 0.9) << change;
    }
}

TEST_F(MadeUp, ALossThatClimbsUnderAStalePlanHasRisen) {
    run(200, 0.9, falling);
    run(100, 0.9, [](int at) { return falling(200) + 0.01 * at; });
    EXPECT_LT(guard_.lag_limit(), 0.9);
    EXPECT_THAT(guard_.take_reason(), HasSubstr("risen"));
}

TEST_F(MadeUp, ALossThatGoesOnFallingIsNone) {
    run(64, 0, falling);
    run(400, 0.9, [](int at) { return falling(64 + at); });
    EXPECT_EQ(guard_.lag_limit(), kNone);
}

TEST_F(MadeUp, NothingIsBlamedOnAFreshPlan) {
    run(64, 0, falling);
    run(100, 0.05, [](int at) { return falling(64) + 0.02 * at; });
    EXPECT_EQ(guard_.lag_limit(), kNone);
    run(50, 0.05, [](int) { return std::numeric_limits<double>::quiet_NaN(); });
    EXPECT_EQ(guard_.lag_limit(), kNone);
}

TEST_F(MadeUp, ALimitOnlyFalls) {
    run(64, 0, falling);
    guard_.add(std::numeric_limits<double>::infinity(), kBatch, 0.5);
    EXPECT_DOUBLE_EQ(guard_.lag_limit(), 0.45);
    EXPECT_THAT(guard_.take_reason(), HasSubstr("finite"));
    guard_.add(std::numeric_limits<double>::infinity(), kBatch, 0.9);
    EXPECT_DOUBLE_EQ(guard_.lag_limit(), 0.45);
    EXPECT_EQ(guard_.take_reason(), "");
    guard_.add(std::numeric_limits<double>::infinity(), kBatch, 0.2);
    EXPECT_DOUBLE_EQ(guard_.lag_limit(), 0.18);
}

}  // namespace
}  // namespace cohort
