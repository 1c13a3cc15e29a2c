// The noise scale and what the desk asks for it: numbers worked out by hand, problems whose noise
// is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cohort/sched/noise_scale.hpp"
#include "sched/engine/fire_sum.hpp"
#include "sched/session/gradient_statistics.hpp"

namespace cohort {
namespace {

using Vector = std::vector<double>;

double squares_of(const Vector& g) {
    double sum = 0;
    for (const double x : g) {
        sum += x * x;
    }
    return sum;
}

struct MiniBatch {
    double samples = 0;
    Vector gradient;
};

Vector mean_of(const std::vector<MiniBatch>& batches) {
    Vector mean(batches.front().gradient.size(), 0.0);
    double samples = 0;
    for (const MiniBatch& one : batches) {
        samples += one.samples;
        for (std::size_t i = 0; i < mean.size(); ++i) {
            mean[i] += one.samples * one.gradient[i];
        }
    }
    for (double& x : mean) {
        x /= samples;
    }
    return mean;
}

void add(NoiseScale& scale, const std::vector<MiniBatch>& batches) {
    std::vector<GradientNorm> norms;
    for (const MiniBatch& one : batches) {
        norms.push_back({.squares = squares_of(one.gradient), .samples = one.samples});
    }
    scale.add(norms, squares_of(mean_of(batches)));
}

TEST(NoiseScale, GoldenNumbers) {
    NoiseScale equal;
    NoiseScale uneven;
    for (int i = 0; i < 5; ++i) {
        add(equal, {{64, {3, 0}}, {64, {1, 2}}});
        add(uneven, {{2, {1, 0}}, {2, {0, 1}}, {4, {1, 1}}});
    }
    EXPECT_DOUBLE_EQ(equal.signal(), 3);
    EXPECT_DOUBLE_EQ(equal.noise(), 256);
    EXPECT_NEAR(equal.samples(), 85.3333, 1e-4);
    EXPECT_DOUBLE_EQ(uneven.noise(), 1.5);
    EXPECT_DOUBLE_EQ(uneven.signal(), 0.9375);
    EXPECT_DOUBLE_EQ(uneven.samples(), 1.6);
}

/// Gradients of b samples: G plus noise of the covariance Sigma / b.
class KnownProblem {
public:
    static constexpr int kDimensions = 60;
    static constexpr double kSignal = 4;   // |G|^2
    static constexpr double kNoise = 800;  // tr(Sigma)

    MiniBatch draw(double samples) {
        std::normal_distribution<double> normal;
        MiniBatch batch{.samples = samples, .gradient = Vector(kDimensions)};
        for (int i = 0; i < kDimensions; ++i) {
            // Unequal directions: the first third has three quarters of the noise.
            const double variance = kNoise * (i < 20 ? 0.75 / 20 : 0.25 / 40);
            batch.gradient[static_cast<std::size_t>(i)] =
                std::sqrt(kSignal / kDimensions) + std::sqrt(variance / samples) * normal(dice_);
        }
        return batch;
    }

private:
    std::mt19937_64 dice_{7};
};

TEST(NoiseScale, OfAKnownProblemIsFoundFromAnyMiniBatches) {
    const double phi = KnownProblem::kNoise / KnownProblem::kSignal;
    const std::vector<std::vector<double>> shapes{{32, 32}, {64, 64, 64, 64}, {8, 16, 64, 128}};
    for (const std::vector<double>& shape : shapes) {
        KnownProblem problem;
        NoiseScale scale(0.001);
        for (int i = 0; i < 4000; ++i) {
            std::vector<MiniBatch> batches;
            for (const double samples : shape) {
                batches.push_back(problem.draw(samples));
            }
            add(scale, batches);
        }
        EXPECT_NEAR(scale.samples(), phi, 0.1 * phi) << shape.size() << " mini-batches";
    }
}

TEST(NoiseScale, SaysNothingTooEarlyAndSkipsWhatSaysNothing) {
    NoiseScale scale;
    for (int i = 0; i < 4; ++i) {
        add(scale, {{64, {3, 0}}, {64, {1, 2}}});
        EXPECT_EQ(scale.samples(), 0) << i;
    }
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinite = std::numeric_limits<double>::infinity();
    const std::vector<GradientNorm> one{{1e9, 64}};
    const std::vector<GradientNorm> two{{9, 64}, {5, 64}};
    const std::vector<GradientNorm> broken{{infinite, 64}, {5, 64}};
    const std::vector<GradientNorm> none{{0, 64}, {0, 64}};
    scale.add(one, 1e9);
    scale.add(two, nan);
    scale.add(broken, 5);
    scale.add(none, 0);
    EXPECT_EQ(scale.count(), 4);
    add(scale, {{64, {3, 0}}, {64, {1, 2}}});
    EXPECT_NEAR(scale.samples(), 85.3333, 1e-4);
}

/// Single measurements of a weak signal are often negative: only their mean is judged.
TEST(NoiseScale, IsLargeWhereTheSignalDoesNotRiseAboveTheNoise) {
    NoiseScale scale;
    for (int i = 0; i < 10; ++i) {
        add(scale, {{64, {1, 0}}, {64, {-1, 0}}});  // |gbar|^2 = 0
    }
    EXPECT_LT(scale.signal(), 0);
    EXPECT_DOUBLE_EQ(scale.samples(), NoiseScale::kMost * 128);
    for (int i = 0; i < 400; ++i) {
        add(scale, {{64, {3, 0}}, {64, {1, 2}}});
    }
    EXPECT_NEAR(scale.samples(), 85.3333, 0.5) << "it follows";
}

FiredPush push_of(std::int64_t samples, std::int64_t version, double norm = 1, double lag = 0,
                  double weight = 1) {
    return {.ticket = {.version = version, .samples = samples, .gradient_norm = norm},
            .lag = lag,
            .weight = weight};
}

Fire fire_of(std::int64_t version, std::vector<FiredPush> pushes, Work work = Work::kGradient) {
    Fire fire{.version = version, .work = work, .pushes = std::move(pushes)};
    for (const FiredPush& push : fire.pushes) {
        fire.samples += push.ticket.samples;
    }
    return fire;
}

TEST(NormsOf, WantTwoPlainGradientsOfOneVersion) {
    const SyncPlan plan;
    SyncPlan compensated;
    compensated.delay_compensation = 0.1;
    const Fire good = fire_of(1, {push_of(2, 0, 3), push_of(4, 0, 1)});
    const std::vector<GradientNorm> norms = norms_of(good, plan);
    ASSERT_EQ(norms.size(), 2U);
    EXPECT_EQ(norms[0].squares, 9);
    EXPECT_EQ(norms[0].samples, 2);
    EXPECT_EQ(norms[1].samples, 4);
    EXPECT_THAT(norms_of(good, compensated), testing::IsEmpty());
    EXPECT_THAT(norms_of(fire_of(1, {push_of(64, 0)}), plan), testing::IsEmpty());
    EXPECT_THAT(norms_of(fire_of(3, {push_of(64, 2), push_of(64, 1)}), plan), testing::IsEmpty());
    EXPECT_THAT(norms_of(fire_of(1, {push_of(64, 0), push_of(64, 0, 1, 0, 0.5)}), plan),
                testing::IsEmpty());
    EXPECT_THAT(norms_of(fire_of(1, {push_of(64, 0), push_of(64, 0)}, Work::kDelta), plan),
                testing::IsEmpty());
}

constexpr GradientStatsPolicy kNobody;
constexpr GradientStatsPolicy kAdaScale{.every_update = true};
constexpr GradientStatsPolicy kChooser{.now_and_then = true};

TEST(GradientStatistics, AsksAsOftenAsSomebodyWantsToKnow) {
    const SyncPlan plan;
    GradientStatistics desk;
    const auto asked = [&](const GradientStatsPolicy& wish) {
        int count = 0;
        for (int i = 0; i < 80; ++i) {
            static std::int64_t version = 0;
            ++version;
            if (desk.ask(fire_of(version, {push_of(64, version - 1), push_of(64, version - 1)}),
                         plan, wish)) {
                ++count;
                desk.answered(version, 1);
            }
        }
        return count;
    };
    EXPECT_EQ(asked(kNobody), 0);
    EXPECT_EQ(asked(kAdaScale), 80);
    EXPECT_EQ(asked(kChooser), 80 / GradientStatistics::kEvery);
    EXPECT_EQ(desk.measured(), 80 + 80 / GradientStatistics::kEvery);
    EXPECT_FALSE(desk.halve(plan, 64, kChooser)) << "updates tell enough";
}

/// Choosers wait for the first measurements: they come early.
TEST(GradientStatistics, TheFirstMeasurementsComeSoon) {
    const SyncPlan plan;
    GradientStatistics desk;
    std::int64_t version = 0;
    while (desk.noise_scale() == 0) {
        ASSERT_LT(version, 2 * GradientStatistics::kFew);
        ++version;
        const FiredPush push = push_of(64, version - 1);
        if (desk.ask(fire_of(version, {push, push}), plan, kChooser)) {
            desk.answered(version, 0.9);
        }
    }
}

/// Every push is of another version: leases are halved, every kEvery-th of them.
TEST(GradientStatistics, HalvesLeasesWhereNoTwoPushesShareAVersion) {
    const SyncPlan plan;
    GradientStatistics desk;
    std::int64_t version = 0;
    int halved = 0;
    for (int i = 0; i < 100; ++i) {
        ++version;
        EXPECT_FALSE(desk.ask(fire_of(version, {push_of(64, version - 2)}), plan, kChooser));
        if (desk.halve(plan, 64, kChooser)) {
            ++halved;
            desk.halves(64, {9, 5}, 5);
        }
    }
    EXPECT_EQ(halved, 100 / GradientStatistics::kEvery)
        << "from the moment that it is clear that there are none";
    EXPECT_NEAR(desk.noise_scale(), 85.3333 / 2, 1e-3) << "as if each half had had 32 samples";
    SyncPlan deltas;
    deltas.work = Work::kDelta;
    for (int i = 0; i < 20; ++i) {
        EXPECT_FALSE(desk.halve(deltas, 64, kChooser));
        EXPECT_FALSE(desk.halve(plan, 1, kChooser)) << "a sample has no halves";
        EXPECT_FALSE(desk.halve(plan, 64, kNobody));
    }
}

/// A ring's round is asked about when it is granted; what its members computed comes later.
TEST(GradientStatistics, NormsMayComeWithTheAnswer) {
    const SyncPlan plan;
    GradientStatistics before;
    GradientStatistics after;
    for (std::int64_t version = 1; version <= 80; ++version) {
        const double norm = version % 2 == 0 ? 3 : 2;
        const Fire computed =
            fire_of(version, {push_of(64, version - 1, norm), push_of(64, version - 1, 2.5)});
        const Fire granted =
            fire_of(version, {push_of(64, version - 1, 0), push_of(64, version - 1, 0)});
        ASSERT_TRUE(before.ask(computed, plan, kAdaScale));
        ASSERT_TRUE(after.ask(granted, plan, kAdaScale));
        before.answered(version, 4);
        after.answered(version, 4, std::vector<double>{norm, 2.5});
    }
    EXPECT_GT(before.noise_scale(), 0);
    EXPECT_EQ(after.noise_scale(), before.noise_scale());
}

/// A void round's version is that of the next one, which need not be asked about.
TEST(GradientStatistics, WhatDoesNotComeAboutIsForgotten) {
    const SyncPlan plan;
    GradientStatistics desk;
    const Fire fire = fire_of(1, {push_of(64, 0), push_of(64, 0)});
    ASSERT_TRUE(desk.ask(fire, plan, kAdaScale));
    desk.withdrawn(1);
    EXPECT_THROW(desk.answered(1, 1), std::logic_error);
    EXPECT_EQ(desk.measured(), 0);
}

}  // namespace
}  // namespace cohort
