#include "cohort/tensor/cuda.hpp"
#include "element_kernels.hpp"
#include "elements.cuh"

namespace cohort::cuda {
namespace {

constexpr int kMostBlocks = 132 * 8;  // fills the largest GPU this is compiled for

__device__ std::int64_t first_element() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t stride() {
    return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

template <class T>
__global__ void add_kernel(T* to, const T* from, std::int64_t count) {
    for (std::int64_t i = first_element(); i < count; i += stride()) {
        to[i] = from_float<T>(to_float(to[i]) + to_float(from[i]));
    }
}

template <class To, class From>
__global__ void cast_kernel(To* to, const From* from, std::int64_t count) {
    for (std::int64_t i = first_element(); i < count; i += stride()) {
        to[i] = from_float<To>(to_float(from[i]));
    }
}

__global__ void unscale_kernel(float* values, std::int64_t count, StepValues* step) {
    const float inverse = 1.0F / step->loss_scale;
    bool finite = true;
    for (std::int64_t i = first_element(); i < count; i += stride()) {
        const float value = values[i];
        finite = finite && isfinite(value);
        values[i] = value * inverse;
    }
    if (!finite) {
        step->overflow = 1;  // every thread that writes writes the same
    }
}

}  // namespace

void add_elements(cudaStream_t stream, ElementType type, void* to, const void* from,
                  std::int64_t count) {
    const Launch launch = launch_for(count, kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        add_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            static_cast<T*>(to), static_cast<const T*>(from), count);
    });
    check_launch("add");
}

void cast_elements(cudaStream_t stream, ElementType to_type, void* to, ElementType from_type,
                   const void* from, std::int64_t count) {
    const Launch launch = launch_for(count, kMostBlocks);
    with_type(to_type, [&](auto to_zero) {
        with_type(from_type, [&](auto from_zero) {
            using To = decltype(to_zero);
            using From = decltype(from_zero);
            cast_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
                static_cast<To*>(to), static_cast<const From*>(from), count);
        });
    });
    check_launch("cast");
}

void unscale_elements(cudaStream_t stream, float* values, std::int64_t count, StepValues* step) {
    const Launch launch = launch_for(count, kMostBlocks);
    unscale_kernel<<<launch.blocks, launch.threads, 0, stream>>>(values, count, step);
    check_launch("unscale");
}

}  // namespace cohort::cuda
