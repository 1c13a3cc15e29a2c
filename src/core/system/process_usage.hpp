#pragma once

#include <cstdint>

namespace cohort {

/// User and system CPU seconds of this process so far, all threads.
[[nodiscard]] double process_cpu_seconds() noexcept;

/// Largest resident size of this process so far, bytes; 0 when the system does not say.
[[nodiscard]] std::uint64_t process_peak_bytes();

}  // namespace cohort
