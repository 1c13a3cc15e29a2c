#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/resource_use.hpp"
#include "core/system/load_probe.hpp"
#include "core/tensor/gpu_probe.hpp"

namespace cohort {

/// What happened between two readings, without the rank's own transfers.
[[nodiscard]] ResourceUse use_between(const LoadCounters& before, const LoadCounters& after);

/// What a worker finds out about its load, and what that costs it. Reads the kernel's counters at
/// most every 100 ms, the GPU's every second; between two readings the last figures hold. One
/// thread.
class IterationMeter {
public:
    IterationMeter() = default;
    /// @param bus  PCI address of the worker's GPU, see make_gpu_probe; empty: it has none
    explicit IterationMeter(std::string bus) : gpu_bus_(std::move(bus)) {}

    /// Processors, host and GPU, as of the last reading.
    [[nodiscard]] ResourceUse use();
    /// Seconds that use() took since the last call of this.
    [[nodiscard]] double take_cost_s() noexcept;

private:
    void look();
    void look_at_gpu(double now_s);

    SteadyClock clock_;
    std::string gpu_bus_;
    std::unique_ptr<GpuProbe> gpu_;     ///< null also where NVML is missing
    double gpu_at_s_ = 0;               ///< time of its reading; 0: none yet
    std::unique_ptr<LoadProbe> probe_;  ///< once it is needed
    std::optional<LoadCounters> last_;
    LoadCounters host_last_;  ///< the first one with the host's figures that last_ has
    ResourceUse use_;
    double cost_s_ = 0;
};

}  // namespace cohort
