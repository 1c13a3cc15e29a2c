#include "comm/world/watchdog.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "comm/base/running_time.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchPeriod = 100ms;
constexpr auto kStuckAfter = 500ms;

}  // namespace

Watchdog::Watchdog(const std::atomic<std::uint64_t>& steps, Cause cause,
                   std::chrono::duration<double> limit, std::function<void(const Failure&)> end)
    : steps_(steps),
      cause_(std::move(cause)),
      limit_(limit),
      end_(std::move(end)),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {
}

void Watchdog::watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any asleep;
    std::unique_lock lock(mutex);
    std::uint64_t seen = steps_.load();
    auto last_look = std::chrono::steady_clock::now();
    auto last_step = last_look;
    while (!asleep.wait_for(lock, stop, kWatchPeriod, [&] { return stop.stop_requested(); })) {
        const auto now = std::chrono::steady_clock::now();
        const std::uint64_t steps = steps_.load();
        if (steps != seen || now - last_look > kOwnPause) {
            last_step = now;
        }
        seen = steps;
        last_look = now;
        const std::chrono::duration<double> stuck = now - last_step;
        if (stuck < kStuckAfter) {
            continue;
        }
        if (const auto failure = cause_(stuck)) {
            end_(*failure);
        } else if (stuck > limit_) {
            end_({.reason = fmt::format("the communication thread has not come back from a call "
                                        "for {:.1f} s",
                                        stuck.count()),
                  .origin = -1});
        }
    }
}

}  // namespace cohort
