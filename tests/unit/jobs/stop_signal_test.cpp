#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "jobs/cli/stop_signal.hpp"
#include "support/core/patience.hpp"

namespace cohort {
namespace {

bool comes_true(const std::function<bool()>& condition) {
    const SteadyClock clock;
    const Clock::Seconds limit = clock.now() + test::kPatience;
    while (!condition() && clock.now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
}

/// Exit status of a child process that runs `action`.
int child_status(const std::function<int()>& action) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        std::_Exit(action());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(StopSignal, IsSilentWithoutASignal) {
    const StopSignal stop;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(stop.requested());
}

TEST(StopSignal, EachOfTheThreeSignalsIsARequest) {
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
        EXPECT_EQ(child_status([number] {
                      const StopSignal stop;
                      kill(getpid(), number);
                      return comes_true([&] { return stop.requested(); }) ? 7 : 1;
                  }),
                  7)
            << number;
    }
}

TEST(StopSignal, SecondInterruptEndsAtOnce) {
    EXPECT_EQ(child_status([] {
                  const StopSignal stop;
                  kill(getpid(), SIGINT);
                  if (!comes_true([&] { return stop.requested(); })) {
                      return 1;
                  }
                  kill(getpid(), SIGINT);
                  std::this_thread::sleep_for(test::kPatience);
                  return 2;
              }),
              130);
}

TEST(StopSignal, LaterSecondTermEndsAtOnce) {
    EXPECT_EQ(child_status([] {
                  const StopSignal stop;
                  kill(getpid(), SIGTERM);
                  if (!comes_true([&] { return stop.requested(); })) {
                      return 1;
                  }
                  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                  kill(getpid(), SIGTERM);
                  std::this_thread::sleep_for(test::kPatience);
                  return 2;
              }),
              143);
}

/// Twice within a second; where this process was kept from running for longer than that between
/// the two, they were not sent at once.
TEST(StopSignal, TermSentTwiceAtOnceIsOneRequest) {
    const auto twice_at_once = [] {
        const SteadyClock clock;
        const StopSignal stop;
        const Clock::Seconds first = clock.now();
        kill(getpid(), SIGTERM);
        comes_true([&] { return stop.requested(); });
        if (clock.now() - first > Clock::Seconds(0.5)) {
            return 8;
        }
        kill(getpid(), SIGTERM);
        kill(getpid(), SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return 7;
    };
    int status = 8;
    for (int tries = 0; tries < 100 && status == 8; ++tries) {
        status = child_status(twice_at_once);
    }
    EXPECT_EQ(status, 7);
}

}  // namespace
}  // namespace cohort
