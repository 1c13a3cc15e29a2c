#include "comm/world/progress_loop.hpp"

#include <sched.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

/// After something moved the thread only yields for this long, then it sleeps.
constexpr auto kYieldFor = 50us;
constexpr std::chrono::microseconds kShortestSleep = 50us;
constexpr std::chrono::microseconds kLongestSleep = 2ms;
/// Where all ranks share a node and nothing is in flight, every arrival rings the bell.
constexpr std::chrono::microseconds kLongestSleepBell = 20ms;
/// While chunks move between hosts, which cannot ring.
constexpr std::chrono::microseconds kLongestSleepMoving = 250us;
constexpr auto kMovingFor = 20ms;
constexpr auto kLookEvery = 100ms;

}  // namespace

void ProgressLoop::add_poller(Poller& poller) {
    commands_.post([this, &poller] {
        pollers_.push_back(&poller);
        poller.members_changed();
    });
}

void ProgressLoop::remove_poller(Poller& poller) {
    try {
        commands_.run([this, &poller] { std::erase(pollers_, &poller); });
    } catch (const PeerError&) {
        return;  // the thread has ended, and polls nothing
    }
}

void ProgressLoop::members_changed() {
    for (Poller* poller : pollers_) {
        poller->members_changed();
    }
}

void ProgressLoop::stop(bool at_once) noexcept {
    stopping_ = true;
    at_once_ = at_once;
}

void ProgressLoop::run(const Duties& duties) {
    last_moved_ = std::chrono::steady_clock::now();
    pause_ = kShortestSleep;
    Instant last_look = last_moved_;
    while (true) {
        const std::uint32_t seen = network_.bells.rung();
        const bool moved = step(duties);
        steps_.fetch_add(1, std::memory_order_relaxed);
        const Instant now = std::chrono::steady_clock::now();
        if (now - last_look > kLookEvery) {
            const Instant::duration since = now - last_look;
            last_look = now;
            duties.look_after(now, since);
        }
        if (moved) {
            last_moved_ = now;
            pause_ = kShortestSleep;
        } else if (may_end()) {
            return;
        } else if (now - last_moved_ < kYieldFor) {
            ::sched_yield();
        } else {
            sleep(seen, now);
        }
    }
}

bool ProgressLoop::step(const Duties& duties) {
    network_.pacer.forget_refusals();
    bool moved = commands_.execute();
    duties.after_commands();
    if (network_.control) {
        moved = network_.control->poll(duties.deliver) || moved;
    }
    moved = network_.transfers->poll() || moved;
    for (Poller* poller : pollers_) {
        moved = poller->poll() || moved;
    }
    return moved;
}

bool ProgressLoop::may_end() {
    return stopping_ && (at_once_ || network_.all_left()) && commands_.close();
}

void ProgressLoop::sleep(std::uint32_t seen, Instant now) {
    network_.bells.sleep(seen, pause_);
    if (network_.bells.rung() != seen) {  // a message is near: it may take some more looks
        last_moved_ = std::chrono::steady_clock::now();
        pause_ = kShortestSleep;
        return;
    }
    const auto longest = longest_sleep(now);
    pause_ = std::min(longest == kLongestSleepMoving ? pause_ * 9 / 8 : pause_ * 3 / 2, longest);
}

std::chrono::microseconds ProgressLoop::longest_sleep(Instant now) const {
    const bool moving =
        network_.moving() ||
        std::ranges::any_of(pollers_, [](const Poller* poller) { return poller->moving(); });
    auto longest = moving && now - last_moved_ < kMovingFor ? kLongestSleepMoving : kLongestSleep;
    if (!moving && pollers_.empty() && network_.map().nodes() == 1) {
        longest = kLongestSleepBell;
    }
    if (const auto paced = network_.pacer.next()) {
        const auto wait = std::chrono::duration_cast<std::chrono::microseconds>(*paced - now);
        longest = std::clamp(wait, kShortestSleep, longest);
    }
    return longest;
}

}  // namespace cohort
