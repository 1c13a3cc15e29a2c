#pragma once

#include <chrono>

namespace cohort::cuda {

/// How long a thread polls for its device before it sleeps. To be woken costs a sleeping thread
/// some tens of microseconds (an interrupt, then the scheduler), again and again in the steps of
/// small networks. One that polls for about that long first loses at most as much again where it
/// has to sleep in the end (Karlin et al. 1991), and an idle rank burns no more than this per wait.
inline constexpr std::chrono::microseconds kPolling{50};

/// Polls until `done` says true or kPolling has passed. @return what it said last
template <class Clock = std::chrono::steady_clock, class Done>
[[nodiscard]] bool done_soon(Done&& done) {
    const auto end = Clock::now() + kPolling;
    do {
        if (done()) {
            return true;
        }
    } while (Clock::now() < end);
    return false;
}

}  // namespace cohort::cuda
