// Slowness on purpose: its text form, and how a step is stretched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>
#include <vector>

#include "cohort/core/error.hpp"
#include "train/faults/injection.hpp"
#include "train/faults/rank_faults.hpp"

namespace cohort {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(ParseInjections, TakesEntries) {
    EXPECT_THAT(parse_injections(""), IsEmpty());
    EXPECT_THAT(parse_injections("rank=3,cpu=0.3,from=10s,to=40s"),
                ElementsAre(Injection{.rank = 3, .cpu = 0.3, .from_s = 10, .to_s = 40.0}));
    EXPECT_THAT(parse_injections("cpu=1,rank=0;rank=2,cpu=0.25,to=1500ms"),
                ElementsAre(Injection{.rank = 0}, Injection{.rank = 2, .cpu = 0.25, .to_s = 1.5}));
}

TEST(ParseInjections, TakesEveryKindOfFault) {
    EXPECT_THAT(
        parse_injections("rank=2,bw=20MB/s,from=1s;rank=5,delay=50ms,p=0.02;rank=4,kill=12s;"
                         "rank=6,freeze=5s..20s;rank=1,cpu=0.5,bw=1.5kB/s,delay=1s,kill=0s"),
        ElementsAre(
            Injection{.rank = 2, .bytes_per_second = 20e6, .from_s = 1},
            Injection{.rank = 5, .delay_s = 0.05, .probability = 0.02},
            Injection{.rank = 4, .kill_s = 12.0},
            Injection{.rank = 6, .freeze_from_s = 5.0, .freeze_to_s = 20},
            Injection{
                .rank = 1, .cpu = 0.5, .bytes_per_second = 1500, .delay_s = 1, .kill_s = 0.0}));
}

TEST(ParseInjections, RefusesEverythingElseWithTheGrammar) {
    for (const char* text : {"rank=1",
                             "cpu=0.5",
                             "rank=1,cpu=0",
                             "rank=1,cpu=1.1",
                             "rank=1,cpu=nan",
                             "rank=-1,cpu=0.5",
                             "rank=1,cpu=0.5,from=10",
                             "rank=1,cpu=0.5,from=-1s",
                             "rank=1,cpu=0.5,from=infs",
                             "rank=1,cpu=0.5,from=5s,to=5s",
                             "rank=1,rank=2,cpu=0.5",
                             "rank=1,cpu=0.5,speed=2",
                             "rank=1;cpu=0.5",
                             "rank=1,cpu=0.5;;rank=2,cpu=0.5",
                             "rank=1 ,cpu=0.5",
                             "rank=1x,cpu=0.5",
                             "rank,cpu=0.5",
                             ";",
                             "rank=1,bw=20",
                             "rank=1,bw=0MB/s",
                             "rank=1,bw=20 MB/s",
                             "rank=1,delay=50",
                             "rank=1,p=0.5",
                             "rank=1,delay=1s,p=0",
                             "rank=1,delay=1s,p=2",
                             "rank=1,kill=12",
                             "rank=1,kill=1s,to=3s",
                             "rank=1,freeze=5s",
                             "rank=1,freeze=5s..5s",
                             "rank=1,freeze=5..6s",
                             "rank=1,freeze=6s..5s"}) {
        EXPECT_THAT([&] { static_cast<void>(parse_injections(text)); },
                    ThrowsMessage<UsageError>(
                        AllOf(HasSubstr("rank=R and some of cpu=F"), HasSubstr("--inject"))))
            << text;
    }
}

TEST(RankFaults, ComeInTheOrderOfTimeWithTheSmallestLimit) {
    const auto all = parse_injections(
        "rank=1,bw=4MB/s,from=1s,to=9s;rank=1,bw=2MB/s,from=3s,to=5s;rank=2,kill=1s;"
        "rank=1,freeze=4s..6s;rank=1,kill=12s;rank=1,cpu=0.5");
    using Kind = RankFault::Kind;
    EXPECT_THAT(rank_faults(all, 1),
                ElementsAre(RankFault{1, Kind::kPace, 4e6}, RankFault{3, Kind::kPace, 2e6},
                            RankFault{4, Kind::kFreeze, 2}, RankFault{5, Kind::kPace, 4e6},
                            RankFault{9, Kind::kPace, 0}, RankFault{12, Kind::kKill, 0}));
    EXPECT_THAT(rank_faults(all, 0), IsEmpty());
}

TEST(RankFaults, WaitForTheBeginningAndEndWithTheThread) {
    std::atomic<bool> begun{false};
    std::atomic<int> paces{0};
    const auto faults = rank_faults(parse_injections("rank=0,bw=1MB/s;rank=0,kill=3600s"), 0);
    {
        const FaultThread thread(
            faults, [&] { return begun.load(); }, [&](double) { ++paces; });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(paces, 0);
        begun = true;
        while (paces == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    EXPECT_EQ(paces, 1);
}

/// A child that is to be frozen, or to kill itself, at once; its parent sees what happens to it.
class FaultyChild {
public:
    explicit FaultyChild(const std::string& inject) : pid_(::fork()) {
        if (pid_ == 0) {
            const FaultThread thread(
                rank_faults(parse_injections(inject), 0), [] { return true; }, [](double) {});
            std::this_thread::sleep_for(std::chrono::seconds(60));
            ::_exit(0);
        }
    }
    FaultyChild(const FaultyChild&) = delete;
    FaultyChild& operator=(const FaultyChild&) = delete;
    ~FaultyChild() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    /// The next change of its state.
    [[nodiscard]] int next() const {
        int status = 0;
        EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED | WCONTINUED), pid_);
        return status;
    }

private:
    pid_t pid_;
};

TEST(RankFaults, FreezeStopsTheProcessAndWakesItAgain) {
    const FaultyChild child("rank=0,freeze=0s..0.2s");
    EXPECT_TRUE(WIFSTOPPED(child.next()));
    EXPECT_TRUE(WIFCONTINUED(child.next()));
}

TEST(RankFaults, KillIsAKill) {
    int status = 0;
    const pid_t pid = ::fork();
    if (pid == 0) {
        const FaultThread thread(
            rank_faults(parse_injections("rank=0,kill=0s"), 0), [] { return true; }, [](double) {});
        std::this_thread::sleep_for(std::chrono::seconds(60));
        ::_exit(0);
    }
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

/// A thread that computes and sleeps in virtual time, each sleep `over` longer than asked.
struct Machine {
    explicit Machine(const std::vector<Injection>& all, int rank = 1, double over = 0)
        : injector(all, rank, 7, wall, busy, [this, over](Clock::Seconds time) {
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

TEST(Injector, DelaysAShareOfTheMiniBatchesAlwaysTheSameOnes) {
    const auto slept = [](std::uint64_t seed, int rank, const std::vector<Injection>& all) {
        auto wall = std::make_shared<VirtualClock>();
        auto busy = std::make_shared<VirtualClock>();
        Injector injector(all, rank, seed, wall, busy,
                          [&](Clock::Seconds time) { wall->advance(time); });
        injector.start();
        std::vector<int> late;
        for (int step = 0; step < 1000; ++step) {
            const Clock::Seconds before = wall->now();
            injector.begin_step();
            injector.pause();
            injector.pause();
            const double seconds = (wall->now() - before).count();
            if (seconds > 0) {
                EXPECT_NEAR(seconds, 0.05, 1e-9);
                late.push_back(step);
            }
        }
        return late;
    };
    const auto rare = parse_injections("rank=1,delay=50ms,p=0.1;rank=2,delay=50ms,p=0.1");
    const auto late = slept(7, 1, rare);
    EXPECT_THAT(static_cast<double>(late.size()), DoubleNear(100, 40));
    EXPECT_EQ(late, slept(7, 1, rare));
    EXPECT_NE(late, slept(8, 1, rare));
    EXPECT_NE(late, slept(7, 2, rare));
    EXPECT_EQ(slept(7, 1, parse_injections("rank=1,delay=50ms")).size(), 1000U);
    EXPECT_EQ(slept(7, 1, parse_injections("rank=1,delay=50ms,to=1s")).size(), 20U);
}

TEST(Injector, SamplesThatTakeLongerMakeLargeBatchesLonger) {
    Machine machine({{.rank = 1, .sample_s = 0.002, .to_s = 1}, {.rank = 2, .sample_s = 1}});
    const auto seconds_of = [&](std::vector<std::int64_t> parts) {
        const Clock::Seconds before = machine.wall->now();
        machine.injector.begin_step();
        for (const std::int64_t samples : parts) {
            machine.injector.begin_samples(samples);
            machine.compute(0.01);
            machine.compute(0.01);
        }
        return (machine.wall->now() - before).count();
    };
    EXPECT_NEAR(seconds_of({32}), 0.02 + 0.064, 1e-9);
    EXPECT_NEAR(seconds_of({8}), 0.02 + 0.016, 1e-9);
    EXPECT_NEAR(seconds_of({16, 16}), 0.04 + 0.064, 1e-9) << "a mini-batch in halves";
    machine.wall->advance(Clock::Seconds(1));
    EXPECT_NEAR(seconds_of({32}), 0.02, 1e-9);
}

TEST(Injector, ADelayIsNotStretched) {
    const auto clock = std::make_shared<VirtualClock>();  // as with a GPU: waiting is being busy
    Injector injector(parse_injections("rank=1,delay=1s;rank=1,cpu=0.5"), 1, 7, clock, clock,
                      [&](Clock::Seconds time) { clock->advance(time); });
    injector.start();
    injector.begin_step();
    clock->advance(Clock::Seconds(3));
    injector.pause();
    EXPECT_NEAR(clock->now().count(), 3 + 1 + 3, 1e-9);
}

/// What the mini-batches of a worker are delayed by, by a recording of three workers.
struct Replayed {
    explicit Replayed(int worker)
        : injector({}, worker + 1, 7, clock, clock, [this](auto time) { clock->advance(time); }) {
        const RecordedTimes times{{0.1, 0.2, 0.3}, {1.1, 1.2, 1.3}, {2.1, 2.2, 2.3}};
        injector.replay({times, 1}, worker);
        injector.start();
    }
    double next() {
        const Clock::Seconds before = clock->now();
        injector.begin_step();
        injector.pause();
        injector.pause();
        return (clock->now() - before).count();
    }

    std::shared_ptr<VirtualClock> clock = std::make_shared<VirtualClock>();
    Injector injector;
};

TEST(Injector, ReplaysARecordingByWorkerAndMoment) {
    Replayed first(0);
    Replayed last(2);
    Replayed further(3);
    EXPECT_FALSE(first.injector.idle());
    std::vector<double> times;
    for (int step = 0; step < 7; ++step) {
        times.push_back(first.next());
        EXPECT_NEAR(last.next(), times.back() + 0.2, 1e-9) << "the same row, its own column";
        EXPECT_NEAR(std::fmod(further.next(), 1), 0.1, 1e-9) << "the columns again";
    }
    for (std::size_t step = 1; step < times.size(); ++step) {
        EXPECT_NEAR(std::fmod(times[step] - times[step - 1] + 3, 3), 1, 1e-9) << "row after row";
    }
    Replayed later(0);
    later.injector.replay_at(5);
    EXPECT_NEAR(later.next(), times[5], 1e-9);
    EXPECT_NEAR(later.next(), times[6], 1e-9);
}

TEST(Injector, ADelayEndsSoonWhenTheMiniBatchIsGivenUp) {
    Replayed worker(1);
    int questions = 0;
    worker.injector.begin_step();
    worker.injector.pause([&] { return ++questions > 4; });
    EXPECT_NEAR(worker.clock->now().count(), 4 * 0.005, 1e-9);
    worker.injector.pause();
    EXPECT_NEAR(worker.clock->now().count(), 4 * 0.005, 1e-9) << "the rest is not owed";
    EXPECT_GT(worker.next(), 0.19);
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
