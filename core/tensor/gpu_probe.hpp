#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cohort/core/interface.hpp"

namespace cohort {

/// What NVIDIA's management library (NVML) says of a GPU.
struct GpuState {
    double clock_share = 1;   ///< SM clock / its maximum, 0..1
    double celsius = 0;       ///< of the chip; 0: not known
    double others_busy = 0;   ///< share of the time in which other processes computed on it
    std::uint8_t limits = 0;  ///< DeviceLimit as bits: what has held it back since the last reading
};

/// Asks NVML, which takes a millisecond or so; callers limit how often. One thread.
class GpuProbe : public Interface {
public:
    /// What the library refuses to tell stays as GpuState begins.
    [[nodiscard]] virtual GpuState read() = 0;
};

/// @param bus  PCI address of the GPU, "0000:1b:00.0". @return null where the library cannot be
/// loaded or does not know the GPU: nothing is known then. Opens the library at the first call.
[[nodiscard]] std::unique_ptr<GpuProbe> make_gpu_probe(const std::string& bus);

}  // namespace cohort
