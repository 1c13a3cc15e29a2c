#include "comm/world/watchdog.hpp"

#include <fmt/format.h>

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
    : steps_(steps), cause_(std::move(cause)), limit_(limit), end_(std::move(end)), thread_([this] {
          watch();
      }) {
}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    stop_asked_.notify_all();
    thread_.join();
}

bool Watchdog::stopped_within(std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex_);
    return stop_asked_.wait_for(lock, pause, [this] { return stop_; });
}

void Watchdog::watch() {
    std::uint64_t seen = steps_.load();
    auto last_look = std::chrono::steady_clock::now();
    auto last_step = last_look;
    while (!stopped_within(kWatchPeriod)) {
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
