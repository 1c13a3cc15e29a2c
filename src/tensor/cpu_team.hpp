#pragma once

#include "cohort/core/thread_team.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// The threads of a CPU device. Errors: DeviceError for another kind of device.
[[nodiscard]] ThreadTeam& cpu_team(Device& device);

/// Size of one core's second-level cache; 1 MiB when the machine does not say.
[[nodiscard]] std::size_t cpu_l2_bytes();

}  // namespace cohort
