// Straggler detection both ways: who is slow is found within iterations, with when, how long, how
// slow and why; a healthy cluster stays silent however long it runs.
#include <gmock/gmock.h>

#include "support/sched/straggler_cluster.hpp"

namespace cohort {
namespace {

using test::kBatch;
using Cluster = test::StragglerCluster;
using test::kIteration;
using test::slowed;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Stragglers, AreFoundWithinThreeIterations) {
    for (const double factor : {1.25, 1.5, 3.0, 20.0}) {
        Cluster cluster(8, 0);
        cluster.rounds(40);
        cluster.plan[0] = slowed(factor);
        EXPECT_LE(cluster.rounds_until_found(3), 3) << factor;
        const StragglerEpisode& found = *cluster.detector.open()[0];
        EXPECT_EQ(found.worker, 0);
        EXPECT_FALSE(found.by_lag);
        EXPECT_NEAR(found.slowdown, factor, 0.01 * factor);
        EXPECT_EQ(found.cause, StragglerCause::kDevice);
        EXPECT_NEAR(found.begin_s, 40 * kIteration, 1e-9);
    }
}

TEST(Stragglers, AreFoundInModerateNoise) {
    int late = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Cluster cluster(8, 0.03, seed);
        cluster.rounds(100);
        cluster.plan[0] = slowed(1.25);
        late += cluster.rounds_until_found(3) > 3 ? 1 : 0;
    }
    EXPECT_LE(late, 2);  // of 100
}

TEST(Stragglers, NoiseDelaysWhatItHides) {
    // Noise, slowness, iterations within which 95 of 100 are found.
    const std::vector<std::tuple<double, double, int>> cases{
        {0.05, 1.25, 5}, {0.05, 1.5, 3}, {0.08, 1.25, 12}, {0.08, 1.5, 4}, {0.08, 2.0, 3}};
    for (const auto& [noise, factor, within] : cases) {
        int found = 0;
        for (std::uint64_t seed = 1; seed <= 100; ++seed) {
            Cluster cluster(8, noise, seed);
            cluster.rounds(100);
            cluster.plan[0] = slowed(factor);
            found += cluster.rounds_until_found(within) <= within ? 1 : 0;
        }
        EXPECT_GE(found, 95) << noise << " " << factor;
    }
}

TEST(Stragglers, AHealthyHourIsSilent) {
    constexpr int kRounds = static_cast<int>(3600 / kIteration);
    for (const double noise : {0.03, 0.05, 0.08}) {
        for (const int workers : {8, 64}) {
            for (std::uint64_t seed = 1; seed <= 3; ++seed) {
                Cluster cluster(workers, noise, seed);
                cluster.rounds(kRounds);
                EXPECT_THAT(cluster.begun, IsEmpty())
                    << noise << " " << workers << " workers, seed " << seed;
                // Of short transfers it looks at the median's, which is steadier.
                EXPECT_GT(cluster.detector.noise(), 0.7 * noise);
                EXPECT_LT(cluster.detector.noise(), 1.1 * noise);
            }
        }
    }
}

TEST(Stragglers, ASingleLateIterationIsNone) {
    for (const double factor : {1.3, 2.0, 100.0}) {
        Cluster cluster(4, 0);
        cluster.rounds(20);
        for (int i = 0; i < 10; ++i) {
            cluster.plan[2] = slowed(factor);
            cluster.round();
            cluster.plan[2] = Cluster::healthy();
            cluster.rounds(4);
        }
        EXPECT_THAT(cluster.begun, IsEmpty()) << factor;
    }
}

TEST(Stragglers, ASingleShortIterationMakesNobodyElseSlow) {
    Cluster cluster(4, 0);
    cluster.rounds(20);
    cluster.plan[2].compute_s = 0;
    cluster.round();
    cluster.plan[2] = Cluster::healthy();
    cluster.rounds(20);
    EXPECT_THAT(cluster.begun, IsEmpty());
}

TEST(Stragglers, EndWithBeginningDurationAndSlowness) {
    Cluster cluster(8, 0);
    cluster.rounds(40);
    cluster.plan[0] = slowed(2);
    cluster.rounds(10);
    cluster.plan[0] = Cluster::healthy();
    cluster.rounds(5);
    EXPECT_THAT(cluster.begun, SizeIs(1));
    ASSERT_THAT(cluster.ended, SizeIs(1));
    EXPECT_FALSE(cluster.detector.open()[0]);
    const StragglerEpisode& over = cluster.ended[0];
    EXPECT_NEAR(over.begin_s, 40 * kIteration, 1e-9);
    EXPECT_NEAR(over.duration_s(), 20 * kIteration, 1e-9);
    EXPECT_EQ(over.iterations, 10);
    EXPECT_NEAR(over.slowdown, 2, 0.01);
}

TEST(Stragglers, WhatIsBelowTheRuleIsNone) {
    Cluster cluster(8, 0);
    cluster.plan[3] = slowed(1.19);
    cluster.rounds(200);
    EXPECT_THAT(cluster.begun, IsEmpty());
    cluster.plan[3] = slowed(1.21);
    cluster.rounds(20);
    EXPECT_THAT(cluster.begun, SizeIs(1));
    cluster.plan[3] = slowed(1.15);  // between the two thresholds
    cluster.rounds(50);
    EXPECT_TRUE(cluster.detector.open()[3]);
    cluster.plan[3] = slowed(1.05);
    cluster.rounds(5);
    EXPECT_FALSE(cluster.detector.open()[3]);
}

TEST(Stragglers, HalfTheWorkersAreFoundFromTheStart) {
    Cluster cluster(8, 0.05);
    for (std::size_t worker = 0; worker < 4; ++worker) {
        cluster.plan[worker] = slowed(2);
    }
    cluster.rounds(6);
    for (std::size_t worker = 0; worker < 8; ++worker) {
        EXPECT_EQ(cluster.detector.open()[worker].has_value(), worker < 4) << worker;
    }
}

TEST(Stragglers, TheFirstRecordDoesNotCount) {
    Cluster cluster(3, 0);
    cluster.plan[1] = slowed(50);
    cluster.round();
    cluster.plan[1] = Cluster::healthy();
    cluster.rounds(10);
    EXPECT_THAT(cluster.begun, IsEmpty());
}

TEST(Stragglers, CausesAreTheResourcesThatExplainThem) {
    const auto cause_of = [](auto change) {
        Cluster cluster(8, 0.02);
        cluster.rounds(40);
        change(cluster.plan[0]);
        EXPECT_LE(cluster.rounds_until_found(10), 10);
        cluster.rounds(3);
        return cluster.detector.open()[0]->cause;
    };
    EXPECT_EQ(cause_of([](IterationRecord& one) { one.compute_s *= 2; }), StragglerCause::kDevice);
    EXPECT_EQ(cause_of([](IterationRecord& one) {
                  one.compute_s *= 2;
                  one.use.cpu_share = 0.5;
              }),
              StragglerCause::kCpu);
    EXPECT_EQ(cause_of([](IterationRecord& one) {
                  one.input_s += kIteration;
                  one.use.cpu_share = 0.3;
              }),
              StragglerCause::kCpu);
    EXPECT_EQ(cause_of([](IterationRecord& one) {
                  one.compute_s *= 4;  // a fifth less of the processors does not explain that
                  one.use.cpu_share = 0.8;
              }),
              StragglerCause::kDevice);
    EXPECT_EQ(cause_of([](IterationRecord& one) { one.input_s += kIteration; }),
              StragglerCause::kInput);
    EXPECT_EQ(cause_of([](IterationRecord& one) {
                  one.push_s *= 3;
                  one.pull_s *= 3;
              }),
              StragglerCause::kBandwidth);
}

TEST(Stragglers, AGpuThatSaysWhyItIsSlowIsBelieved) {
    const auto cause_of = [](unsigned int usual, unsigned int limits, auto change) {
        Cluster cluster(8, 0.02);
        for (IterationRecord& one : cluster.plan) {
            one.use.device_limits = static_cast<std::uint8_t>(usual);
        }
        cluster.rounds(40);
        cluster.plan[0].use.device_limits = static_cast<std::uint8_t>(limits);
        change(cluster.plan[0]);
        EXPECT_LE(cluster.rounds_until_found(10), 10);
        cluster.rounds(3);
        return cluster.detector.open()[0]->cause;
    };
    const auto computes = [](IterationRecord& one) { one.compute_s *= 2; };
    const unsigned int power = bit_of(DeviceLimit::kPower);
    const unsigned int hot = bit_of(DeviceLimit::kThermal);
    EXPECT_EQ(cause_of(0, hot, computes), StragglerCause::kGpuThermal);
    EXPECT_EQ(cause_of(0, bit_of(DeviceLimit::kHardware), computes), StragglerCause::kGpuSlowdown);
    EXPECT_EQ(cause_of(0, bit_of(DeviceLimit::kMemory), computes), StragglerCause::kGpuEcc);
    EXPECT_EQ(cause_of(0, power, computes), StragglerCause::kGpuPower);
    EXPECT_EQ(cause_of(0, bit_of(DeviceLimit::kShared), computes), StragglerCause::kGpuShared);
    EXPECT_EQ(cause_of(power, power, computes), StragglerCause::kDevice) << "as all, as ever";
    EXPECT_EQ(cause_of(power, power | hot, computes), StragglerCause::kGpuThermal);
    EXPECT_EQ(cause_of(0, hot, [](IterationRecord& one) { one.input_s += kIteration; }),
              StragglerCause::kInput);
}

/// What it was like while it was slow is not what it is usually like.
TEST(Stragglers, EpisodesThatEndedAreNoMeasureForTheNextOne) {
    Cluster cluster(8, 0.02);
    cluster.rounds(40);
    for (int episode = 0; episode < 4; ++episode) {
        cluster.plan[0].compute_s *= 4;
        cluster.rounds(30);
        ASSERT_TRUE(cluster.detector.open()[0]);
        cluster.plan[0] = Cluster::healthy();
        cluster.rounds(14);
        ASSERT_FALSE(cluster.detector.open()[0]);
    }
    cluster.plan[0].compute_s *= 1.5;
    cluster.plan[0].push_s *= 2;
    EXPECT_LE(cluster.rounds_until_found(10), 10);
    cluster.rounds(3);
    EXPECT_EQ(cluster.detector.open()[0]->cause, StragglerCause::kDevice);
}

TEST(Stragglers, WithoutABeforeTheOthersTell) {
    Cluster cluster(8, 0.02);
    for (IterationRecord& one : cluster.plan) {
        one.use.cpu_share = 0.6;  // everybody's, as where ranks share processors
    }
    cluster.plan[0].pull_s += kIteration;
    EXPECT_LE(cluster.rounds_until_found(5), 5);
    EXPECT_EQ(cluster.detector.open()[0]->cause, StragglerCause::kBandwidth);
}

TEST(Stragglers, LagTellsWhatTimesDoNot) {
    Cluster cluster(4, 0, 1, 2.0);
    cluster.rounds(10);
    cluster.plan[1].lag = 1.9;
    cluster.rounds(3);
    EXPECT_THAT(cluster.begun, IsEmpty());
    cluster.plan[1].lag = 2.1;
    cluster.rounds(3);
    ASSERT_THAT(cluster.begun, SizeIs(1));
    EXPECT_TRUE(cluster.begun[0].by_lag);
    EXPECT_EQ(cluster.begun[0].cause, StragglerCause::kLag);
    cluster.plan[1].lag = 1;
    cluster.round();
    ASSERT_THAT(cluster.ended, SizeIs(1));
    EXPECT_EQ(cluster.ended[0].iterations, 3);
}

TEST(Stragglers, ALostWorkerIsNoneAndNobodyIsComparedWithIt) {
    Cluster cluster(3, 0);
    cluster.plan[0] = slowed(0.5);  // the fastest
    cluster.rounds(10);
    EXPECT_TRUE(cluster.detector.open()[1]);
    EXPECT_TRUE(cluster.detector.open()[2]);
    cluster.detector.lost(0);
    cluster.detector.lost(1);
    EXPECT_FALSE(cluster.detector.open()[1]);
    for (int i = 0; i < 10; ++i) {
        cluster.push(2);
    }
    EXPECT_FALSE(cluster.detector.open()[2]);
    for (int i = 0; i < 10; ++i) {
        cluster.push(1);
        cluster.push(2);
    }
    EXPECT_FALSE(cluster.detector.open()[1]);
}

TEST(Stragglers, AWorkerBesideTheServersMakesNobodySlow) {
    Cluster cluster(8, 0.02);
    cluster.plan[0].push_s = 0;
    cluster.plan[0].pull_s = 0.01;
    for (std::size_t worker = 1; worker < 8; ++worker) {
        cluster.plan[worker].push_s = cluster.plan[worker].pull_s = 2 * kIteration;
    }
    cluster.rounds(100);
    EXPECT_THAT(cluster.begun, IsEmpty());
    cluster.plan[0].compute_s *= 4;  // of a fifth of tau
    EXPECT_LE(cluster.rounds_until_found(6), 6);
    EXPECT_EQ(cluster.detector.open()[0]->cause, StragglerCause::kDevice);
}

TEST(Stragglers, SmallBatchesAreNotFast) {
    Cluster cluster(4, 0);
    for (IterationRecord& one : cluster.plan) {
        one = {.samples = kBatch, .compute_s = kIteration};
    }
    cluster.plan[0] = {.samples = kBatch / 2, .compute_s = kIteration / 2};
    cluster.rounds(20);
    EXPECT_THAT(cluster.begun, IsEmpty());
}

}  // namespace
}  // namespace cohort
