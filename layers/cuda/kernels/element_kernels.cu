#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/element_kernels.hpp"
#include "layers/cuda/rules/activation_rules.hpp"

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
struct Fold {
    float step;
    __device__ float operator()(std::int64_t /*i*/, float state, float batch) const {
        return __fadd_rn(state, __fmul_rn(step, __fsub_rn(batch, state)));
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
struct Relu6 {
    COHORT_HD float operator()(std::int64_t /*i*/, float x) const { return relu6(x); }
};
struct Relu6Slope {
    COHORT_HD float operator()(std::int64_t /*i*/, float y, float gradient) const {
        return relu6_slope(y, gradient);
    }
};

struct Gelu {
    COHORT_HD float operator()(std::int64_t /*i*/, float x) const { return gelu(x); }
};
struct GeluSlope {
    COHORT_HD float operator()(std::int64_t /*i*/, float x, float gradient) const {
        return gelu_slope(x, gradient);
    }
};
/// sigmoid(0) is not 0, but padding channels must stay zero.
struct Sigmoid {
    std::int64_t channels;
    std::int64_t block;
    COHORT_HD float operator()(std::int64_t i, float x) const {
        return channels == block || i % block < channels ? sigmoid(x) : 0.0F;
    }
};
struct SigmoidSlope {
    COHORT_HD float operator()(std::int64_t /*i*/, float y, float gradient) const {
        return sigmoid_slope(y, gradient);
    }
};
struct Tanh {
    COHORT_HD float operator()(std::int64_t /*i*/, float x) const { return tanhf(x); }
};
struct TanhSlope {
    COHORT_HD float operator()(std::int64_t /*i*/, float y, float gradient) const {
        return tanh_slope(y, gradient);
    }
};

Sigmoid sigmoid_of(const TensorFormat& format) {
    const bool padded = format.shape.rank() == 3 && format.block > format.shape[0];
    return padded ? Sigmoid{format.shape[0], format.block} : Sigmoid{1, 1};
}

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

void fold_elements(cudaStream_t stream, float* state, const float* batch, std::int64_t count,
                   float step) {
    launch_map_of(stream, "fold", count, Fold{step}, state, static_cast<const float*>(state),
                  batch);
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

void activate(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
              std::int64_t samples, void* y, const void* x) {
    const std::int64_t count = samples * format.sample_floats();
    if (kind == ActivationKind::kSigmoid) {
        launch_map(stream, "sigmoid", format.type, count, sigmoid_of(format), y, x);
    } else if (kind == ActivationKind::kTanh) {
        launch_map(stream, "tanh", format.type, count, Tanh{}, y, x);
    } else if (kind == ActivationKind::kRelu6) {
        launch_map(stream, "relu6", format.type, count, Relu6{}, y, x);
    } else {
        launch_map(stream, "gelu", format.type, count, Gelu{}, y, x);
    }
}

void activate_backward(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
                       std::int64_t samples, void* gradient_out, const void* values,
                       const void* gradient) {
    const std::int64_t count = samples * format.sample_floats();
    if (kind == ActivationKind::kSigmoid) {
        launch_map(stream, "sigmoid backward", format.type, count, SigmoidSlope{}, gradient_out,
                   values, gradient);
    } else if (kind == ActivationKind::kTanh) {
        launch_map(stream, "tanh backward", format.type, count, TanhSlope{}, gradient_out, values,
                   gradient);
    } else if (kind == ActivationKind::kRelu6) {
        launch_map(stream, "relu6 backward", format.type, count, Relu6Slope{}, gradient_out, values,
                   gradient);
    } else {
        launch_map(stream, "gelu backward", format.type, count, GeluSlope{}, gradient_out, values,
                   gradient);
    }
}

}  // namespace cohort::cuda
