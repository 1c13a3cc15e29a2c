#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace cohort::cuda {

/// Seconds that the stream takes for what `queue` queues: one run to warm up, then the fastest of
/// some. Waits for the stream. Errors: DeviceError when the work fails.
[[nodiscard]] double fastest_seconds(cudaStream_t stream, const std::function<void()>& queue);

}  // namespace cohort::cuda
