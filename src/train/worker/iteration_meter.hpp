#pragma once

#include <memory>
#include <optional>

#include "cohort/core/clock.hpp"
#include "cohort/core/resource_use.hpp"
#include "core/system/load_probe.hpp"

namespace cohort {

/// What happened between two readings, without the rank's own transfers.
[[nodiscard]] ResourceUse use_between(const LoadCounters& before, const LoadCounters& after);

/// What a worker finds out about its load, and what that costs it. Reads the kernel's counters at
/// most every 100 ms; between two readings the last figures hold. One thread.
class IterationMeter {
public:
    /// Processors and host, as of the last reading.
    [[nodiscard]] ResourceUse use();
    /// Seconds that use() took since the last call of this.
    [[nodiscard]] double take_cost_s() noexcept;

private:
    void look();

    SteadyClock clock_;
    std::unique_ptr<LoadProbe> probe_;  ///< once it is needed
    std::optional<LoadCounters> last_;
    LoadCounters host_last_;  ///< the first one with the host's figures that last_ has
    ResourceUse use_;
    double cost_s_ = 0;
};

}  // namespace cohort
