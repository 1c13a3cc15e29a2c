#include "cohort/core/thread_team.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cohort/core/error.hpp"
#include "support/core/child_process.hpp"
#include "support/core/patience.hpp"

namespace cohort {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

class ThreadTeamOfSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamOfSize, ::testing::Values(1, 2, 3, 7));

TEST_P(ThreadTeamOfSize, RunsEveryMemberOnce) {
    ThreadTeam team(GetParam());
    EXPECT_EQ(team.size(), GetParam());
    std::vector<int> calls(static_cast<std::size_t>(GetParam()));
    team.run([&calls](int member) { ++calls[static_cast<std::size_t>(member)]; });
    EXPECT_THAT(calls, ::testing::Each(1));
}

TEST_P(ThreadTeamOfSize, ResultsOfManyRoundsAreVisibleToTheCaller) {
    constexpr int kRounds = 2000;
    ThreadTeam team(GetParam());
    std::vector<int> calls(static_cast<std::size_t>(GetParam()));
    for (int round = 0; round < kRounds; ++round) {
        team.run([&calls](int member) { ++calls[static_cast<std::size_t>(member)]; });
        ASSERT_THAT(calls, ::testing::Each(round + 1));
    }
}

TEST_P(ThreadTeamOfSize, StartsEveryMemberBeforeItsFirstWork) {
    std::atomic<int> starts{0};
    thread_local bool started = false;
    std::atomic<int> too_early{0};
    {
        ThreadTeam team(GetParam(), [&starts] {
            started = true;
            ++starts;
        });
        for (int round = 0; round < 3; ++round) {
            team.run([&too_early](int) { too_early += started ? 0 : 1; });
        }
    }
    EXPECT_EQ(starts, GetParam());
    EXPECT_EQ(too_early, 0);
    started = false;
}

TEST_P(ThreadTeamOfSize, StartsEveryNewCaller) {
    std::atomic<int> starts{0};
    ThreadTeam team(GetParam(), [&starts] { ++starts; });
    const SteadyClock clock;
    const Clock::Seconds limit = clock.now() + test::kPatience;
    while (starts < GetParam() && clock.now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const int members = starts;
    EXPECT_EQ(members, GetParam());
    for (int caller = 1; caller <= 3; ++caller) {  // each may get the ended one's thread id
        std::thread([&team] {
            team.adopt_caller();
            team.run([](int) {});
            team.adopt_caller();
        }).join();
        EXPECT_EQ(starts, members + caller);
    }
    team.adopt_caller();
    EXPECT_EQ(starts, members + 4);
}

TEST_P(ThreadTeamOfSize, RefusesASecondUserWhileItRuns) {
    ThreadTeam team(GetParam());
    team.run([&team](int member) {
        if (member == 0) {
            std::thread([&team] {
                EXPECT_THROW(team.run([](int) {}), std::logic_error);
                EXPECT_THROW(team.adopt_caller(), std::logic_error);
            }).join();
            EXPECT_THROW(team.run([](int) {}), std::logic_error);
            EXPECT_NO_THROW(team.adopt_caller());
        }
    });
    std::thread([&team] { EXPECT_NO_THROW(team.run([](int) {})); }).join();
}

TEST(ThreadTeam, CallerIsMemberZero) {
    ThreadTeam team(3);
    std::vector<std::thread::id> ids(3);
    team.run(
        [&ids](int member) { ids[static_cast<std::size_t>(member)] = std::this_thread::get_id(); });
    EXPECT_EQ(ids[0], std::this_thread::get_id());
}

TEST(ThreadTeam, MembersWorkAtTheSameTime) {
    ThreadTeam team(2);
    std::atomic<bool> other_started{false};
    team.run([&](int member) {
        if (member == 1) {
            other_started = true;
            return;
        }
        const SteadyClock clock;
        const Clock::Seconds limit = clock.now() + test::kPatience;
        while (!other_started && clock.now() < limit) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_TRUE(other_started) << "the caller was alone";
    });
}

TEST(ThreadTeam, CallerDoesTheWorkOfMembersThatDoNotWake) {
    std::atomic<bool> asleep{true};
    const std::thread::id caller = std::this_thread::get_id();
    ThreadTeam team(3, [&] {
        while (asleep && std::this_thread::get_id() != caller) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    for (int round = 0; round < 3; ++round) {
        std::vector<int> done(3, 0);
        team.run([&done](int member) { ++done[static_cast<std::size_t>(member)]; });
        EXPECT_EQ(done, (std::vector<int>{1, 1, 1}));
    }
    asleep = false;
}

TEST(ThreadTeam, RefusesToBeEmpty) {
    EXPECT_THROW(ThreadTeam(0), UsageError);
    EXPECT_THROW(ThreadTeam(-1), UsageError);
}

TEST(ThreadTeam, RefusesMoreThreadsThanAnyMachineNeeds) {
    EXPECT_THROW(ThreadTeam(kMaxThreads + 1), UsageError);
}

/// Address space of this process, in bytes.
std::uint64_t address_space() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(ThreadTeam, ThreadsThatCannotStartAreAnErrorAndTheOthersEnd) {
    EXPECT_TRUE(in_child([] {
        constexpr std::size_t kStack = std::size_t{1} << 30;  // two fit, a third does not
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, kStack);
        const rlim_t space = address_space() + 2 * kStack + kStack / 2;
        const rlimit limit{space, space};
        if (pthread_setattr_default_np(&attributes) != 0 || setrlimit(RLIMIT_AS, &limit) != 0) {
            return false;
        }
        try {
            const ThreadTeam team(8);
        } catch (const DeviceError& error) {
            return std::string(error.what()).find("expected 8 with the calling one, got 3;") !=
                   std::string::npos;
        }
        return false;
    }));
}

TEST(ThreadTeam, CanBeDestroyedUnused) {
    for (int i = 0; i < 50; ++i) {
        const ThreadTeam team(4);
    }
}

TEST(ThreadTeam, RethrowsTheLowestMembersErrorAfterAllAreDone) {
    ThreadTeam team(4);
    std::atomic<int> finished{0};
    EXPECT_THAT(
        [&] {
            team.run([&finished](int member) {
                if (member == 1 || member == 3) {
                    throw std::runtime_error("member " + std::to_string(member));
                }
                std::this_thread::sleep_for(milliseconds(5));
                ++finished;
            });
        },
        testing::ThrowsMessage<std::runtime_error>(testing::StrEq("member 1")));
    EXPECT_EQ(finished, 2);
}

TEST(ThreadTeam, WorksOnAfterAnError) {
    ThreadTeam team(2);
    for (int round = 0; round < 20; ++round) {
        EXPECT_THROW(team.run([](int) { throw std::runtime_error("always"); }), std::runtime_error);
        std::atomic<int> calls{0};
        EXPECT_NO_THROW(team.run([&calls](int) { ++calls; }));
        EXPECT_EQ(calls, 2);
    }
}

duration<double> cpu_time_of_process() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return duration<double>(seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

// A share of the elapsed time, not an absolute one: on a busy machine both stretch.
TEST(ThreadTeam, MembersWithoutWorkLeaveTheCoreAlone) {
    ThreadTeam team(4);
    team.run([](int) {});
    const auto cpu = cpu_time_of_process();
    const auto wall = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(milliseconds(400));
    const duration<double> elapsed = std::chrono::steady_clock::now() - wall;
    EXPECT_LT((cpu_time_of_process() - cpu) / elapsed, 0.1);
}

TEST(ThreadTeam, CallerThatWaitsForAMemberLeavesTheCoreAlone) {
    ThreadTeam team(2);
    const auto cpu = cpu_time_of_process();
    const auto wall = std::chrono::steady_clock::now();
    team.run([](int member) {
        if (member == 1) {
            std::this_thread::sleep_for(milliseconds(400));
        }
    });
    const duration<double> elapsed = std::chrono::steady_clock::now() - wall;
    EXPECT_LT((cpu_time_of_process() - cpu) / elapsed, 0.1);
}

class PartOf : public ::testing::TestWithParam<std::tuple<long long, int>> {};
INSTANTIATE_TEST_SUITE_P(CountsAndSizes, PartOf,
                         ::testing::Combine(::testing::Values(0, 1, 2, 5, 64, 1000003),
                                            ::testing::Values(1, 2, 3, 7, 64)));

TEST_P(PartOf, CoversEverythingOnceInOrderAndFairly) {
    const auto [count, size] = GetParam();
    long long next = 0;
    for (int member = 0; member < size; ++member) {
        const Part part = part_of(count, member, size);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.end - part.begin, count / size);
        EXPECT_LE(part.end - part.begin, (count + size - 1) / size);
        next = part.end;
    }
    EXPECT_EQ(next, count);
}

}  // namespace
}  // namespace cohort
