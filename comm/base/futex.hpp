#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace cohort {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// Sleeps while `word` is `expected`, until another thread wakes this one. May return without a
/// reason. The word may lie in memory that processes share.
inline void futex_sleep(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                        const timespec* limit = nullptr) noexcept {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, limit,
            nullptr, 0);
}

/// The same, for at most `limit`.
inline void futex_sleep(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                        std::chrono::microseconds limit) noexcept {
    const timespec time{.tv_sec = limit.count() / 1'000'000,
                        .tv_nsec = limit.count() % 1'000'000 * 1000};
    futex_sleep(word, expected, &time);
}

/// Wakes all threads that sleep on `word`, in all processes.
inline void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
}

}  // namespace cohort
