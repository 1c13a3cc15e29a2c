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

namespace cohort {
namespace {

bool comes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) {
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
                  std::this_thread::sleep_for(std::chrono::seconds(20));
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
                  std::this_thread::sleep_for(std::chrono::seconds(20));
                  return 2;
              }),
              143);
}

TEST(StopSignal, TermSentTwiceAtOnceIsOneRequest) {
    EXPECT_EQ(child_status([] {
                  const StopSignal stop;
                  kill(getpid(), SIGTERM);
                  comes_true([&] { return stop.requested(); });
                  kill(getpid(), SIGTERM);
                  kill(getpid(), SIGUSR1);
                  std::this_thread::sleep_for(std::chrono::milliseconds(50));
                  return 7;
              }),
              7);
}

}  // namespace
}  // namespace cohort
