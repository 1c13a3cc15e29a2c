#include <gtest/gtest.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using test::OptimizerRun;
using test::random_floats;

OptimizerOptions sgd(double momentum, bool nesterov = false) {
    OptimizerOptions options;
    options.momentum = momentum;
    options.nesterov = nesterov;
    return options;
}

/// Fractions of 1/32 .. 2, whole ones among them.
std::vector<double> mixed_fractions() {
    return {1, 0.125, 0.5, 1.0 / 3, 2, 0.03125, 1, 0.7, 0.9, 1.25, 0.0625, 0.4, 1, 1, 0.2};
}

TEST(Sgd, WorkedByHandHeavyBall) {
    OptimizerRun run(sgd(0.5), {1.0F});
    run.update({1.0F}, 1, 0.1);  // vel 1
    EXPECT_FLOAT_EQ(run.theta[0], 0.9F);
    EXPECT_FLOAT_EQ(run.slot(0)[0], 0.5F);
    run.update({1.0F}, 1, 0.1);  // vel 1.5
    EXPECT_FLOAT_EQ(run.theta[0], 0.75F);
    run.update({0.0F}, 1, 0.1);  // vel 0.75
    EXPECT_FLOAT_EQ(run.theta[0], 0.675F);
}

TEST(Sgd, WorkedByHandHalfBatches) {
    // m = 1/4: m^(1/2) = 1/2. vel 0 -> 2/3 -> 1.
    OptimizerRun run(sgd(0.25), {0.0F});
    run.update({1.0F}, 0.5, 0.3);
    EXPECT_NEAR(run.theta[0], -0.4 * (0.5 - 0.25 * 2 / 3), 1e-7);
    EXPECT_NEAR(run.slot(0)[0], 0.75 * 2 / 3, 1e-7);
    run.update({1.0F}, 0.5, 0.3);
    EXPECT_NEAR(run.theta[0], -0.3, 1e-7);
    EXPECT_NEAR(run.slot(0)[0], 0.75, 1e-7);
}

TEST(Sgd, WholeBatchesAreTextbookHeavyBallBitForBit) {
    // 1 - m = 1/4 scales exactly, so normalised storage changes no bit of the textbook's loop.
    const std::vector<float> start = random_floats(67, 0);
    for (const bool nesterov : {false, true}) {
        OptimizerRun run(sgd(0.75, nesterov), start);
        std::vector<float> theta = start;
        std::vector<float> velocity(theta.size());
        for (std::uint64_t step = 1; step <= 50; ++step) {
            const std::vector<float> g = random_floats(67, step);
            run.update(g, 1, 0.1);
            for (std::size_t i = 0; i < theta.size(); ++i) {
                velocity[i] = 0.75F * velocity[i] + g[i];
                theta[i] -= 0.1F * (nesterov ? g[i] + 0.75F * velocity[i] : velocity[i]);
            }
        }
        EXPECT_EQ(run.theta, theta) << "nesterov " << nesterov;
    }
}

TEST(Sgd, WholeBatchesAreTheNormalisedRuleBitForBit) {
    const std::vector<float> start = random_floats(67, 0);
    const auto m = static_cast<float>(0.9);
    const auto rest = static_cast<float>(1 - 0.9);
    const auto scale = static_cast<float>(0.05 / (1 - 0.9));
    for (const bool nesterov : {false, true}) {
        OptimizerRun run(sgd(0.9, nesterov), start);
        std::vector<float> theta = start;
        std::vector<float> u(theta.size());
        for (std::uint64_t step = 1; step <= 50; ++step) {
            const std::vector<float> g = random_floats(67, step);
            run.update(g, 1, 0.05);
            for (std::size_t i = 0; i < theta.size(); ++i) {
                u[i] = m * u[i] + rest * g[i];
                theta[i] -= scale * (nesterov ? rest * g[i] + m * u[i] : u[i]);
            }
        }
        EXPECT_EQ(run.theta, theta) << "nesterov " << nesterov;
    }
}

TEST(Sgd, FractionalRuleOfSyncMdInDouble) {
    for (const bool nesterov : {false, true}) {
        const double m = 0.9;
        const double eta = 0.02;
        const std::vector<float> start = random_floats(33, 0);
        OptimizerRun run(sgd(m, nesterov), start);
        std::vector<double> theta(start.begin(), start.end());
        std::vector<double> vel(start.size());
        std::uint64_t key = 0;
        for (const double f : mixed_fractions()) {
            const std::vector<float> g = random_floats(33, ++key);
            run.update(g, f, eta);
            for (std::size_t i = 0; i < theta.size(); ++i) {
                const double next = std::pow(m, f) * vel[i] + (1 - std::pow(m, f)) / (1 - m) * g[i];
                const double back = (nesterov ? m * m : m) * (next - vel[i]);
                theta[i] -= eta * (f * g[i] - back) / (1 - m);
                vel[i] = next;
            }
        }
        for (std::size_t i = 0; i < theta.size(); ++i) {
            EXPECT_NEAR(run.theta[i], theta[i], 2e-6);
            EXPECT_NEAR(run.slot(0)[i], (1 - m) * vel[i], 2e-6);
        }
    }
}

TEST(Sgd, GlideFreePointMovesWithTheGradientAlone) {
    // z = theta - eta m/(1-m) vel obeys z' = z - eta f g/(1-m), whatever the fractions.
    const double m = 0.9;
    const double eta = 0.05;
    OptimizerRun run(sgd(m), {0.3F, -1.0F, 2.0F});
    const auto z_of = [&](std::size_t i) {
        return run.theta[i] - eta * m / ((1 - m) * (1 - m)) * double{run.slot(0)[i]};
    };
    std::vector<double> z = {z_of(0), z_of(1), z_of(2)};
    std::uint64_t key = 100;
    for (int round = 0; round < 10; ++round) {
        for (const double f : mixed_fractions()) {
            const std::vector<float> g = random_floats(3, ++key);
            run.update(g, f, eta);
            for (std::size_t i = 0; i < z.size(); ++i) {
                z[i] -= eta * f * g[i] / (1 - m);
                ASSERT_NEAR(z_of(i), z[i], 5e-5) << "after f " << f;
            }
        }
    }
}

TEST(Sgd, EqualFractionsAddUpToAWholeBatch) {
    for (const bool nesterov : {false, true}) {
        for (const int parts : {2, 3, 7, 8, 32}) {
            const std::vector<float> start = random_floats(19, 0);
            OptimizerRun whole(sgd(0.9, nesterov), start);
            OptimizerRun split(sgd(0.9, nesterov), start);
            for (std::uint64_t step = 1; step <= 5; ++step) {
                const std::vector<float> g = random_floats(19, step);
                whole.update(g, 1, 0.1);
                for (int part = 0; part < parts; ++part) {
                    split.update(g, 1.0 / parts, 0.1);
                }
            }
            for (std::size_t i = 0; i < start.size(); ++i) {
                EXPECT_NEAR(split.slot(0)[i], whole.slot(0)[i], 2e-6) << parts;
                EXPECT_NEAR(split.theta[i], whole.theta[i], 1e-5) << parts;
            }
        }
    }
}

TEST(Sgd, ZeroMomentumIsPlainDescentInEveryFraction) {
    OptimizerRun run(sgd(0), {1.0F});
    run.update({2.0F}, 1, 0.1);
    EXPECT_FLOAT_EQ(run.theta[0], 0.8F);
    run.update({-1.0F}, 0.5, 0.1);
    EXPECT_FLOAT_EQ(run.theta[0], 0.85F);
}

TEST(Sgd, ChangeOfMomentumIsContinuous) {
    // At constant gradient u = g; with eta/(1-m) kept, the step does not change when m does.
    OptimizerRun run(sgd(0.9), {0.0F});
    for (int step = 0; step < 400; ++step) {
        run.update({0.5F}, 1, 0.01);
    }
    const float before = run.slot(0)[0];
    EXPECT_NEAR(before, 0.5F, 1e-6);
    run.optimizer->set_momentum(0.6);
    EXPECT_EQ(run.slot(0)[0], before);
    for (const double f : {1.0, 0.25}) {
        const float theta = run.theta[0];
        run.update({0.5F}, f, 0.04);
        EXPECT_NEAR(theta - run.theta[0], 0.5 * f * 0.1, 1e-5);
        EXPECT_NEAR(run.slot(0)[0], 0.5F, 1e-6);
    }
}

TEST(Sgd, CoupledDecayJoinsTheMeanGradient) {
    OptimizerOptions options = sgd(0.5);
    options.weight_decay = 0.25;
    OptimizerRun run(options, {2.0F});
    run.update({1.0F}, 1, 0.1);  // g = 1 + 0.25 * 2
    EXPECT_FLOAT_EQ(run.theta[0], 2.0F - 0.15F);
    EXPECT_FLOAT_EQ(run.slot(0)[0], 0.75F);
}

TEST(Sgd, DecoupledDecayShrinksParametersOnly) {
    OptimizerOptions options = sgd(0.5);
    options.weight_decay = 0.1;
    options.decoupled = true;
    OptimizerRun run(options, {2.0F});
    run.update({0.0F}, 1, 0.5);
    EXPECT_FLOAT_EQ(run.theta[0], 2.0F * 0.95F);
    EXPECT_EQ(run.slot(0)[0], 0.0F);
    run.update({0.0F}, 0.5, 0.5);
    run.update({0.0F}, 0.5, 0.5);
    EXPECT_FLOAT_EQ(run.theta[0], 2.0F * 0.95F * 0.95F);
    EXPECT_THROW(run.update({0.0F}, 1, 10), UsageError);
}

}  // namespace
}  // namespace cohort
