#include <gtest/gtest.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using test::OptimizerRun;
using test::random_floats;

constexpr std::size_t kFirst = 0;
constexpr std::size_t kSecond = 1;
constexpr std::size_t kPartial = 2;

OptimizerOptions adamw() {
    OptimizerOptions options;
    options.kind = OptimizerKind::kAdamW;
    return options;
}

TEST(AdamW, WholeBatchesAreTheTextbookInDouble) {
    OptimizerOptions options = adamw();
    options.weight_decay = 0.01;
    options.decoupled = true;
    const std::vector<float> start = random_floats(37, 0);
    OptimizerRun run(options, start);
    std::vector<double> theta(start.begin(), start.end());
    std::vector<double> m(start.size());
    std::vector<double> v(start.size());
    for (int t = 1; t <= 40; ++t) {
        const std::vector<float> g = random_floats(37, static_cast<std::uint64_t>(t));
        run.update(g, 1, 0.003);
        for (std::size_t i = 0; i < theta.size(); ++i) {
            m[i] = 0.9 * m[i] + 0.1 * g[i];
            v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            const double first = m[i] / (1 - std::pow(0.9, t));
            const double second = v[i] / (1 - std::pow(0.999, t));
            theta[i] = theta[i] * (1 - 0.003 * 0.01) - 0.003 * first / (std::sqrt(second) + 1e-8);
        }
    }
    for (std::size_t i = 0; i < theta.size(); ++i) {
        EXPECT_NEAR(run.theta[i], theta[i], 5e-6);
        EXPECT_EQ(run.slot(kPartial)[i], 0.0F);
    }
}

TEST(AdamW, FirstStepIsTheLearningRate) {
    for (const double f : {1.0, 0.25}) {
        OptimizerRun run(adamw(), {1.0F, 1.0F});
        run.update({0.01F, -300.0F}, f, 0.1);
        EXPECT_NEAR(run.theta[0], 1 - 0.1 * f, 1e-6);
        EXPECT_NEAR(run.theta[1], 1 + 0.1 * f, 1e-6);
    }
}

TEST(AdamW, EqualFractionsOfOneGradientAddUpToAWholeBatch) {
    for (const int parts : {2, 3, 8, 10}) {
        OptimizerRun whole(adamw(), {1.0F});
        OptimizerRun split(adamw(), {1.0F});
        for (int step = 0; step < 6; ++step) {
            whole.update({0.7F}, 1, 0.01);
            for (int part = 0; part < parts; ++part) {
                split.update({0.7F}, 1.0 / parts, 0.01);
            }
        }
        EXPECT_NEAR(split.theta[0], whole.theta[0], 5e-6) << parts;
        EXPECT_NEAR(split.slot(kFirst)[0], whole.slot(kFirst)[0], 1e-6) << parts;
        EXPECT_NEAR(split.slot(kSecond)[0], whole.slot(kSecond)[0], 1e-8) << parts;
        EXPECT_NEAR(split.slot(kPartial)[0], 0, 1e-6) << parts;
        EXPECT_EQ(split.scalar("partial_fraction"), 0) << parts;
        EXPECT_NEAR(split.scalar("second_moment_weight"), std::pow(0.999, 6), 1e-12) << parts;
    }
}

TEST(AdamW, SecondMomentSeesWholeBatchesNotTheirNoise) {
    // Two halves of a batch that cancel: the batch's mean gradient is 0, and so is its square.
    OptimizerRun run(adamw(), {0.0F});
    run.update({1.0F}, 0.5, 0.01);
    EXPECT_EQ(run.slot(kSecond)[0], 0.0F);
    run.update({-1.0F}, 0.5, 0.01);
    EXPECT_EQ(run.slot(kSecond)[0], 0.0F);
    EXPECT_EQ(run.slot(kPartial)[0], 0.0F);
    EXPECT_NEAR(run.scalar("second_moment_weight"), 0.999, 1e-15);
}

TEST(AdamW, PartsThatCancelMoveNoFurtherThanTheLearningRate) {
    for (const float second : {-1.0F, -0.999F, 0.0F}) {
        for (const int parts : {2, 3, 8}) {
            OptimizerRun run(adamw(), {0.0F});
            for (int step = 0; step < 5 * parts; ++step) {
                const float before = run.theta[0];
                run.update({step % 2 == 0 ? 1.0F : second}, 1.0 / parts, 0.01);
                EXPECT_LE(std::abs(run.theta[0] - before), 0.01001 / parts) << parts << " parts";
            }
        }
    }
}

TEST(AdamW, RemainderStartsTheNextBatch) {
    OptimizerRun run(adamw(), {0.0F});
    run.update({1.0F}, 0.75, 0.01);
    EXPECT_FLOAT_EQ(run.slot(kPartial)[0], 0.75F);
    run.update({3.0F}, 0.75, 0.01);  // 0.25 of it completes a batch of 1.5, 0.5 is left
    EXPECT_FLOAT_EQ(run.slot(kSecond)[0], 0.001F * 2.25F);
    EXPECT_FLOAT_EQ(run.slot(kPartial)[0], 1.5F);
    EXPECT_DOUBLE_EQ(run.scalar("partial_fraction"), 0.5);
    run.update({5.0F}, 0.25, 0.01);  // still accumulating
    EXPECT_FLOAT_EQ(run.slot(kSecond)[0], 0.001F * 2.25F);
    EXPECT_FLOAT_EQ(run.slot(kPartial)[0], 2.75F);
}

TEST(AdamW, FractionAboveOneCountsEveryBatch) {
    OptimizerRun run(adamw(), {0.0F});
    run.update({2.0F}, 2.5, 0.01);
    EXPECT_NEAR(run.slot(kSecond)[0], (1 - 0.999 * 0.999) * 4, 1e-7);
    EXPECT_FLOAT_EQ(run.slot(kPartial)[0], 1.0F);
    EXPECT_DOUBLE_EQ(run.scalar("partial_fraction"), 0.5);
    EXPECT_NEAR(run.theta[0], -0.025, 1e-6);
}

TEST(AdamW, CoupledDecayJoinsTheGradient) {
    OptimizerOptions options = adamw();
    options.weight_decay = 0.5;
    OptimizerRun run(options, {2.0F});
    run.update({1.0F}, 1, 0.01);
    EXPECT_FLOAT_EQ(run.slot(kFirst)[0], 0.2F);
}

TEST(AdamW, NesterovIsRefused) {
    OptimizerOptions options = adamw();
    options.nesterov = true;
    EXPECT_THROW(OptimizerRun(options, {1.0F}), UsageError);
}

}  // namespace
}  // namespace cohort
