// Slowness on purpose: its text form, and how a step is stretched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "injection.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseInjections, TakesEntries) {
    EXPECT_THAT(parse_injections(""), IsEmpty());
    EXPECT_THAT(parse_injections("rank=3,cpu=0.3,from=10s,to=40s"),
                ElementsAre(Injection{3, 0.3, 10, 40.0}));
    EXPECT_THAT(parse_injections("cpu=1,rank=0;rank=2,cpu=0.25,to=1.5s"),
                ElementsAre(Injection{0, 1, 0, std::nullopt}, Injection{2, 0.25, 0, 1.5}));
}

TEST(ParseInjections, RefusesEverythingElseWithTheGrammar) {
    for (const char* text :
         {"rank=1", "cpu=0.5", "rank=1,cpu=0", "rank=1,cpu=1.1", "rank=1,cpu=nan",
          "rank=-1,cpu=0.5", "rank=1,cpu=0.5,from=10", "rank=1,cpu=0.5,from=-1s",
          "rank=1,cpu=0.5,from=infs", "rank=1,cpu=0.5,from=5s,to=5s", "rank=1,rank=2,cpu=0.5",
          "rank=1,cpu=0.5,speed=2", "rank=1;cpu=0.5", "rank=1,cpu=0.5;;rank=2,cpu=0.5",
          "rank=1 ,cpu=0.5", "rank=1x,cpu=0.5", "rank,cpu=0.5", ";"}) {
        try {
            static_cast<void>(parse_injections(text));
            ADD_FAILURE() << "accepted: " << text;
        } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), HasSubstr("rank=R,cpu=F"));
            EXPECT_THAT(error.what(), HasSubstr("--inject"));
        }
    }
}

/// A thread that computes and sleeps in virtual time, each sleep `over` longer than asked.
struct Machine {
    explicit Machine(const std::vector<Injection>& all, int rank = 1, double over = 0)
        : injector(all, rank, wall, busy, [this, over](Clock::Seconds time) {
              wall->advance(time + Clock::Seconds(over));
              ++sleeps;
          }) {
        wall->advance(Clock::Seconds(1000));
        injector.start();
    }
    /// @param shared  wall seconds per busy second: 2 when another program takes half
    void compute(double seconds, double shared = 1) {
        busy->advance(Clock::Seconds(seconds));
        wall->advance(Clock::Seconds(seconds * shared));
        injector.pause();
    }
    double wall_of(int pieces, double seconds, double shared = 1) {
        const Clock::Seconds before = wall->now();
        injector.begin_step();
        for (int i = 0; i < pieces; ++i) {
            compute(seconds, shared);
        }
        return (wall->now() - before).count();
    }

    std::shared_ptr<VirtualClock> wall = std::make_shared<VirtualClock>();
    std::shared_ptr<VirtualClock> busy = std::make_shared<VirtualClock>();
    int sleeps = 0;
    Injector injector;
};

TEST(Injector, StretchesComputeToTheShare) {
    Machine machine({{.rank = 1, .cpu = 0.25}});
    EXPECT_NEAR(machine.wall_of(10, 0.01), 0.4, 1e-9);
    EXPECT_EQ(machine.sleeps, 10);
}

TEST(Injector, LeavesOtherRanksAlone) {
    Machine machine({{.rank = 2, .cpu = 0.25}});
    EXPECT_TRUE(machine.injector.idle());
    EXPECT_NEAR(machine.wall_of(10, 0.01), 0.1, 1e-9);
    EXPECT_EQ(machine.sleeps, 0);
}

TEST(Injector, AddsTheSameOnABusyMachine) {
    Machine machine({{.rank = 1, .cpu = 0.5}});
    EXPECT_NEAR(machine.wall_of(10, 0.01, 3), 0.3 + 0.1, 1e-9);
}

TEST(Injector, CarriesSmallDebtsOnAndPaysOversleepingBack) {
    Machine small({{.rank = 1, .cpu = 0.5}});
    EXPECT_NEAR(small.wall_of(1000, 1e-4), 0.2, 1.1e-3);
    EXPECT_LE(small.sleeps, 100);
    Machine heavy_sleeper({{.rank = 1, .cpu = 0.5}}, 1, 5e-3);
    EXPECT_NEAR(heavy_sleeper.wall_of(1000, 1e-3), 2.0, 7e-3);
}

TEST(Injector, HeedsTheTimesSinceTrainingBegan) {
    Machine machine({{.rank = 1, .cpu = 0.5, .from_s = 1, .to_s = 3}});
    EXPECT_NEAR(machine.wall_of(9, 0.1), 0.9, 1e-9);
    machine.wall_of(1, 0.1);  // reaches 1 s: from here on
    EXPECT_NEAR(machine.wall_of(5, 0.1), 1.0, 1e-9);
    machine.wall_of(10, 0.1);
    EXPECT_NEAR(machine.wall_of(5, 0.1), 0.5, 1e-9);
}

TEST(Injector, TheSlowestOfThoseActiveCounts) {
    Machine machine({{.rank = 1, .cpu = 0.5}, {.rank = 1, .cpu = 0.2}, {.rank = 1, .cpu = 0.8}});
    EXPECT_NEAR(machine.wall_of(4, 0.01), 0.2, 1e-9);
}

TEST(Injector, WhatHappensBetweenStepsIsNotStretched) {
    Machine machine({{.rank = 1, .cpu = 0.5}});
    machine.wall_of(1, 0.01);
    machine.busy->advance(Clock::Seconds(5));
    EXPECT_NEAR(machine.wall_of(1, 0.01), 0.02, 1e-9);
}

TEST(ThreadCpuClock, StandsStillWhileTheThreadSleepsAndMovesWhileItComputes) {
    const ThreadCpuClock cpu;
    const SteadyClock wall;
    const Clock::Seconds start = wall.now();
    const Clock::Seconds before = cpu.now();
    double sink = 1;
    while ((cpu.now() - before).count() < 0.01) {
        sink = std::sqrt(sink + 1);
    }
    EXPECT_GE((wall.now() - start).count(), 0.009);
    EXPECT_GT(sink, 0);
}

}  // namespace
}  // namespace cohort
