// What is told of stragglers: those that last, once when they begin and once when they are over.
#include <gmock/gmock.h>

#include "support/sched/straggler_cluster.hpp"

namespace cohort {
namespace {

using Cluster = test::StragglerCluster;
using test::kIteration;
using test::slowed;
using testing::IsEmpty;
using testing::SizeIs;

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
