#pragma once

#include "cohort/core/thread_team.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// The threads of a CPU device. Errors: DeviceError for another kind of device.
[[nodiscard]] ThreadTeam& cpu_team(Device& device);

}  // namespace cohort
