#pragma once

#include <memory>

#include "cohort/tensor/device.hpp"

namespace cohort::cuda {

/// GPUs with a higher number are refused: memory knows by its deleter which GPU it belongs to.
inline constexpr int kMostGpus = 64;

[[nodiscard]] std::unique_ptr<Stream> make_cuda_stream(int gpu);

}  // namespace cohort::cuda
