#pragma once

#include <string_view>

#include "cohort/core/error.hpp"

namespace cohort::cuda {

/// For a layer that has no CUDA kernel.
[[noreturn]] inline void refuse_layer(std::string_view layer) {
    fail<DeviceError>({.where = layer,
                       .what = "this version has no CUDA kernel of this layer",
                       .hint = "--device cpu"});
}

}  // namespace cohort::cuda
