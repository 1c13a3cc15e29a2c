#pragma once

#include <cstdint>
#include <vector>

#include "cohort/layers/window.hpp"
#include "layers/cpu/level/pool_task.hpp"

namespace cohort {

/// Windows along one axis.
class PoolAxis {
public:
    PoolAxis(const WindowAxis& window, std::int64_t inputs, std::int64_t outputs);

    [[nodiscard]] std::int64_t kernel() const noexcept { return kernel_; }
    /// What the loops read; as long as this lives.
    [[nodiscard]] PoolLine line() const;

private:
    std::int64_t dilation_;
    std::int64_t kernel_;
    std::vector<PoolTaps> outputs_;
    std::vector<PoolUse> uses_;  ///< input by input
    std::vector<std::int64_t> first_use_;
};

}  // namespace cohort
