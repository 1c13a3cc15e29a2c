#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/core/thread_team.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// The threads of a CPU device. Errors: DeviceError for another kind of device.
[[nodiscard]] ThreadTeam& cpu_team(Device& device);

/// Size of one core's second-level cache; 1 MiB when the machine does not say.
[[nodiscard]] std::size_t cpu_l2_bytes();

/// Checks that the host has this much memory: Linux grants more memory than exists and kills
/// processes that use it. Errors: OutOfMemory with the requested and the available bytes.
void check_host_memory(std::uint64_t bytes, std::string_view where, std::string_view hint);

}  // namespace cohort
