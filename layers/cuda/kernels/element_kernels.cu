#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/rules/activation_rules.hpp"
#include "tensor/cuda/element_map.cuh"

namespace cohort::cuda {
namespace {

struct Sum {
    COHORT_HD float operator()(std::int64_t /*i*/, float a, float b) const { return a + b; }
};
struct ReluOfSum {
    COHORT_HD float operator()(std::int64_t /*i*/, float a, float b) const {
        return relu_of(a + b);
    }
};
struct Relu {
    COHORT_HD float operator()(std::int64_t /*i*/, float x) const { return relu_of(x); }
};
struct ReluMask {
    COHORT_HD float operator()(std::int64_t /*i*/, float y, float gradient) const {
        return relu_slope(y, gradient);
    }
};

template <class To, class From>
__global__ void cast_kernel(To* to, const From* from, std::int64_t count) {
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        to[i] = from_float<To>(to_float(from[i]));
    }
}

__global__ void unscale_kernel(float* values, std::int64_t count, StepValues* step) {
    const float inverse = 1.0F / step->loss_scale;
    bool finite = true;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
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
    launch_map(stream, "add", type, count, Sum{}, to, static_cast<const void*>(to), from);
}

void cast_elements(cudaStream_t stream, ElementType to_type, void* to, ElementType from_type,
                   const void* from, std::int64_t count) {
    if (count == 0) {
        return;
    }
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
    if (count == 0) {
        return;
    }
    const Launch launch = launch_for(count, kMostBlocks);
    unscale_kernel<<<launch.blocks, launch.threads, 0, stream>>>(values, count, step);
    check_launch("unscale");
}

void relu_elements(cudaStream_t stream, ElementType type, void* y, const void* x,
                   std::int64_t count) {
    launch_map(stream, "relu", type, count, Relu{}, y, x);
}

void relu_mask_elements(cudaStream_t stream, ElementType type, void* gradient_out, const void* y,
                        const void* gradient, std::int64_t count) {
    launch_map(stream, "relu backward", type, count, ReluMask{}, gradient_out, y, gradient);
}

void add_two_elements(cudaStream_t stream, ElementType type, void* y, const void* a, const void* b,
                      std::int64_t count, bool relu) {
    if (relu) {
        launch_map(stream, "add+relu", type, count, ReluOfSum{}, y, a, b);
    } else {
        launch_map(stream, "add", type, count, Sum{}, y, a, b);
    }
}

}  // namespace cohort::cuda
