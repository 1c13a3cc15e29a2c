#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

/// User and system CPU seconds of this process so far, all threads.
[[nodiscard]] double process_cpu_seconds() noexcept;

/// Largest resident size of this process so far, bytes; 0 when the system does not say.
[[nodiscard]] std::uint64_t process_peak_bytes();

/// Makes the calling thread, and threads that it starts later, yield to others. When the system
/// refuses, a warning says so.
/// @param who       "the evaluator's thread", for the warning
/// @param niceness  1..19
void lower_thread_priority(std::string_view who, int niceness);

/// Lets the calling thread run soon after it is woken, before threads that compute without a pause,
/// for a thread that works for some microseconds at a time: it asks for time slices of 0.1 ms, and
/// Linux 6.12 and later (EEVDF) then gives it earlier deadlines, though not a larger share of the
/// processor. Elsewhere nothing changes.
void ask_for_short_slices() noexcept;

}  // namespace cohort
