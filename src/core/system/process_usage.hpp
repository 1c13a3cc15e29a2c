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

}  // namespace cohort
