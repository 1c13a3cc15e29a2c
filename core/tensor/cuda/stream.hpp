#pragma once

#include <cstdint>
#include <memory>

#include "cohort/tensor/device.hpp"

namespace cohort::cuda {

/// GPUs with a higher number are refused: memory knows by its deleter which GPU it belongs to.
inline constexpr int kMostGpus = 64;

/// Of a stream's work among that of all streams of its GPU, when blocks are to be placed.
enum class Priority : std::uint8_t { kUsual, kHighest };
[[nodiscard]] std::unique_ptr<Stream> make_cuda_stream(int gpu,
                                                       Priority priority = Priority::kUsual);

}  // namespace cohort::cuda
