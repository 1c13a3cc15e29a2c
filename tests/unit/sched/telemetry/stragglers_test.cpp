// Straggler detection both ways: who is slow is found within iterations, with when, how long, how
// slow and why; a healthy cluster stays silent however long it runs.
#include "cohort/sched/stragglers.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "cohort/core/rng.hpp"
#include "cohort/sched/straggler_news.hpp"

namespace cohort {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kBatch = 64;
constexpr double kIteration = 0.25;

/// Workers whose iterations take parts of the time each, with log-normal noise, in rounds.
class Cluster {
public:
    Cluster(int workers, double noise, std::uint64_t seed = 1, double lag_bound = 0)
        : detector(workers, kBatch, lag_bound),
          news(workers),
          noise_(noise),
          random_(seed, RngPurpose::kTest),
          plan(static_cast<std::size_t>(workers), healthy()),
          now_(plan.size(), 0) {}

    static IterationRecord healthy() {
        return {.samples = kBatch,
                .input_s = 0.1 * kIteration,
                .compute_s = 0.7 * kIteration,
                .push_s = 0.1 * kIteration,
                .pull_s = 0.1 * kIteration};
    }
    void push(std::size_t worker) {
        IterationRecord record = plan[worker];
        const double factor = std::exp(noise_ * random_.next_normal());
        record.worker = static_cast<int>(worker);
        for (double* part : {&record.input_s, &record.compute_s, &record.push_s, &record.pull_s}) {
            *part *= factor;
        }
        now_[worker] += record.own_s();
        record.arrived_s = now_[worker];
        const std::optional<StragglerEpisode> before = detector.open()[worker];
        detector.add(record);
        const std::optional<StragglerEpisode>& after = detector.open()[worker];
        if (before && !after) {
            ended.push_back(*before);
        } else if (after && !before) {
            begun.push_back(*after);
        }
        news.add(static_cast<int>(worker), after);
    }
    void round() {
        for (std::size_t worker = 0; worker < plan.size(); ++worker) {
            push(worker);
        }
    }
    void rounds(int count) {
        for (int i = 0; i < count; ++i) {
            round();
        }
    }
    /// Rounds until worker 0 is found slow; `most` when it is not.
    int rounds_until_found(int most) {
        for (int i = 1; i <= most; ++i) {
            round();
            if (detector.open()[0]) {
                return i;
            }
        }
        return most + 1;
    }
    double now(std::size_t worker) const { return now_[worker]; }

    StragglerDetector detector;
    std::vector<StragglerEpisode> begun;  ///< as they were then
    std::vector<StragglerEpisode> ended;
    StragglerNews news;

private:
    double noise_;
    Rng random_;

public:
    std::vector<IterationRecord> plan;

private:
    std::vector<double> now_;
};

/// Everything takes `factor` as long.
IterationRecord slowed(double factor) {
    IterationRecord record = Cluster::healthy();
    record.compute_s += (factor - 1) * kIteration;
    return record;
}

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

using Kind = StragglerNews::Kind;

TEST(StragglerNews, ASlowWorkerIsToldOnceWhenItHasLastedAndOnceWhenItIsOver) {
    Cluster cluster(8, 0.05);
    cluster.rounds(40);
    cluster.plan[3] = slowed(2);
    cluster.rounds(StragglerNews::kLasting - 1);
    EXPECT_THAT(cluster.news.take(), IsEmpty());
    cluster.rounds(285);
    cluster.plan[3] = Cluster::healthy();
    cluster.rounds(100);
    const auto news = cluster.news.take();
    ASSERT_THAT(news, SizeIs(2));
    EXPECT_EQ(news[0].kind, Kind::kBegun);
    EXPECT_GE(news[0].episode.iterations, StragglerNews::kLasting);
    EXPECT_LE(news[0].episode.iterations, StragglerNews::kLasting + 4);
    EXPECT_EQ(news[1].kind, Kind::kEnded);
    const StragglerEpisode& over = news[1].episode;
    EXPECT_EQ(over.worker, 3);
    EXPECT_EQ(over.cause, StragglerCause::kDevice);
    EXPECT_NEAR(static_cast<double>(over.iterations), 300, 4);
    EXPECT_NEAR(over.slowdown, 2, 0.15);
    EXPECT_NEAR(over.begin_s, 40 * kIteration, 2);
    EXPECT_NEAR(over.duration_s(), 600 * kIteration, 6);
    EXPECT_EQ(cluster.news.brief().episodes, 0);
}

/// Ranks that outnumber the processors: who does not run waits for a turn or several, a while long.
TEST(StragglerNews, TwoBusyCoresTellNothing) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Cluster cluster(8, 0.1, seed);
        Rng random(seed, RngPurpose::kTest, 1);
        std::vector<int> waits(8, 0);  // iterations for which a worker still has no processor
        for (int round = 0; round < 2000; ++round) {
            for (std::size_t worker = 0; worker < 8; ++worker) {
                if (waits[worker] == 0 && random.next_uniform() < 0.1F) {
                    waits[worker] = 1 + static_cast<int>(random.next_below(4));
                }
                waits[worker] = std::max(waits[worker] - 1, 0);
                cluster.plan[worker] = slowed(waits[worker] > 0 ? 4 : 1);
            }
            cluster.round();
        }
        EXPECT_THAT(cluster.news.take(), IsEmpty()) << seed;
        EXPECT_GT(cluster.begun.size(), 500U) << "the detector answers at once";
        for (int worker = 0; worker < 8; ++worker) {
            cluster.news.left(worker);
        }
        EXPECT_EQ(cluster.news.brief().episodes, static_cast<std::int64_t>(cluster.begun.size()));
        EXPECT_THAT(cluster.news.take(), IsEmpty());
    }
}

TEST(StragglerNews, AMomentOfHealthEndsNothing) {
    Cluster cluster(4, 0);
    cluster.rounds(40);
    for (int turn = 0; turn < 10; ++turn) {
        cluster.plan[0] = slowed(turn == 7 ? 4 : 2);
        cluster.rounds(20);
        cluster.plan[0] = Cluster::healthy();
        cluster.rounds(4);
    }
    EXPECT_THAT(cluster.ended, SizeIs(10)) << "the detector's";
    cluster.rounds(StragglerNews::kLasting);
    const auto news = cluster.news.take();
    ASSERT_THAT(news, SizeIs(2));
    EXPECT_EQ(news[1].kind, Kind::kEnded);
    EXPECT_EQ(news[1].episode.iterations, 200);
    EXPECT_NEAR(news[1].episode.slowdown, 2.2, 0.01);
    EXPECT_NEAR(news[1].episode.begin_s, 40 * kIteration, 1e-9);
}

TEST(StragglerNews, WhatIsLeftAtTheEndIsTold) {
    Cluster cluster(4, 0);
    cluster.plan[1] = slowed(3);
    cluster.rounds(30);
    cluster.plan[2] = slowed(3);
    cluster.rounds(5);
    for (int worker = 0; worker < 4; ++worker) {
        cluster.news.left(worker);
    }
    const auto news = cluster.news.take();
    ASSERT_THAT(news, SizeIs(2));
    EXPECT_EQ(news[0].episode.worker, 1);
    EXPECT_EQ(news[1].episode.worker, 1);
    EXPECT_EQ(news[1].kind, Kind::kLeft);
    EXPECT_EQ(cluster.news.brief().episodes, 1) << "worker 2";
    EXPECT_EQ(cluster.news.brief().iterations, 4) << "those since the detector saw it";
}

}  // namespace
}  // namespace cohort
