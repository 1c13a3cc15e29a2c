// Where parameters will be after a lag: against steps that are really made without gradients, and
// against the formula in double precision.
#include "layers/optim/look_ahead.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using test::OptimizerRun;
using test::random_floats;

constexpr double kLr = 0.1;

std::vector<float> ahead_of(const OptimizerRun& run, double lag) {
    std::vector<float> ahead(run.theta.size());
    look_ahead(run.theta, run.optimizer->look_ahead(), kLr, lag, ahead);
    return ahead;
}

TEST(LookAhead, IsWhereHeavyBallGlidesTo) {
    OptimizerOptions options;
    options.momentum = 0.9;
    OptimizerRun run(options, {1.0F, -2.0F});
    run.update({0.5F, 1.0F}, 1, kLr);
    run.update({0.25F, -3.0F}, 0.5, kLr);
    for (const double lag : {0.0, 1.0, 3.0, 0.5}) {
        const std::vector<float> ahead = ahead_of(run, lag);
        OptimizerRun later(options, run.theta);
        std::copy(run.slot(0).begin(), run.slot(0).end(), later.slot(0).begin());
        for (double left = lag; left > 0; left -= 0.5) {
            later.update({0.0F, 0.0F}, 0.5, kLr);
        }
        EXPECT_NEAR(ahead[0], later.theta[0], 1e-6) << lag;
        EXPECT_NEAR(ahead[1], later.theta[1], 1e-6) << lag;
    }
}

/// L steps without gradients: the first moment is beta1 times the one before in each, biases and
/// the second moment stay.
TEST(LookAhead, IsWhereAdamwsFirstMomentCarries) {
    constexpr std::size_t kSize = 21;  // whole vectors and a rest
    constexpr double kBeta1 = 0.3;
    constexpr double kBeta2 = 0.8;
    constexpr double kEpsilon = 1e-3;
    constexpr int kUpdates = 5;
    OptimizerRun run(
        {.kind = OptimizerKind::kAdamW, .beta1 = kBeta1, .beta2 = kBeta2, .epsilon = kEpsilon},
        random_floats(kSize, 0));
    std::vector<double> m(kSize);
    std::vector<double> v(kSize);
    for (int t = 1; t <= kUpdates; ++t) {
        std::vector<float> g = random_floats(kSize, static_cast<std::uint64_t>(t));
        if (t == kUpdates) {
            g.front() = 1000;  // a first moment above the root of the second
        }
        run.update(g, 1, kLr);
        for (std::size_t i = 0; i < kSize; ++i) {
            m[i] = kBeta1 * m[i] + (1 - kBeta1) * g[i];
            v[i] = kBeta2 * v[i] + (1 - kBeta2) * g[i] * g[i];
        }
    }
    EXPECT_GT(m[0] / (1 - std::pow(kBeta1, kUpdates)),
              1.05 * std::sqrt(v[0] / (1 - std::pow(kBeta2, kUpdates))));
    for (const int lag : {0, 1, 2, 7}) {
        const std::vector<float> ahead = ahead_of(run, lag);
        for (std::size_t i = 0; i < kSize; ++i) {
            const double mean = m[i] / (1 - std::pow(kBeta1, kUpdates));
            const double root = std::sqrt(v[i] / (1 - std::pow(kBeta2, kUpdates)));
            double theta = run.theta[i];
            for (int step = 1; step <= lag; ++step) {
                theta -= kLr * std::pow(kBeta1, step) * mean /
                         (std::max(root, std::fabs(mean)) + kEpsilon);
            }
            EXPECT_NEAR(ahead[i], theta, 2e-6) << i << " after " << lag;
        }
    }
}

TEST(LookAhead, KnowsNoMovementBeforeAdamwsFirstReferenceBatch) {
    OptimizerRun run({.kind = OptimizerKind::kAdamW}, {1.0F, -2.0F});
    EXPECT_EQ(ahead_of(run, 3), run.theta);
    run.update({0.5F, 1.0F}, 0.5, kLr);
    EXPECT_EQ(ahead_of(run, 3), run.theta);
    run.update({0.5F, 1.0F}, 0.5, kLr);
    EXPECT_LT(ahead_of(run, 3)[0], run.theta[0]);
    EXPECT_LT(ahead_of(run, 3)[1], run.theta[1]);
}

TEST(LookAhead, APartAloneHasTheBitsOfTheWhole) {
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        OptimizerRun run({.kind = kind}, random_floats(37, 0));
        run.update(random_floats(37, 1), 1, kLr);
        std::vector<float> parts = run.theta;  // in place
        const LookAhead state = run.optimizer->look_ahead();
        for (const auto& [at, n] : {std::pair(0U, 16U), std::pair(16U, 3U), std::pair(19U, 18U)}) {
            const std::span<float> part = std::span(parts).subspan(at, n);
            look_ahead(part, state.part(at, n), kLr, 1.5, part);
        }
        EXPECT_EQ(parts, ahead_of(run, 1.5));
    }
}

TEST(LookAhead, NoLagOrNoMomentumChangesNothing) {
    EXPECT_EQ(look_ahead_factor(0.1, 0.9, 0), 0);
    EXPECT_EQ(look_ahead_factor(0.1, 0, 5), 0);
    // eta vel m (1 - m^L) / (1 - m) with u = (1 - m) vel
    EXPECT_NEAR(look_ahead_factor(0.1, 0.5, 2), 0.1 * 0.5 * 0.75 / 0.25, 1e-15);
    OptimizerRun plain({.momentum = 0}, {1.0F});
    plain.update({0.5F}, 1, kLr);
    EXPECT_EQ(ahead_of(plain, 3), plain.theta);
    std::vector<float> out(1);
    EXPECT_THROW(look_ahead(std::vector<float>{1, 2}, {}, kLr, 1, out), ShapeError);
    EXPECT_THROW(
        look_ahead(out, {.first = plain.theta, .second = std::vector<float>{1, 2}}, kLr, 1, out),
        ShapeError);
}

}  // namespace
}  // namespace cohort
