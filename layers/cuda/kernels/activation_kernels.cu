#include "layers/cuda/kernels/activation_kernels.hpp"
#include "layers/cuda/rules/activation_rules.hpp"
#include "tensor/cuda/element_map.cuh"

namespace cohort::cuda {
namespace {

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

}  // namespace

void activate(cudaStream_t stream, ActivationKind kind, const TensorFormat& format,
              std::int64_t samples, void* y, const void* x) {
    const std::int64_t count = samples * format.sample_floats();
    if (kind == ActivationKind::kSigmoid) {
        launch_map(stream, "sigmoid", format.type, count, sigmoid_of(format), y, x);
    } else if (kind == ActivationKind::kTanh) {
        launch_map(stream, "tanh", format.type, count, Tanh{}, y, x);
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
    } else {
        launch_map(stream, "gelu backward", format.type, count, GeluSlope{}, gradient_out, values,
                   gradient);
    }
}

}  // namespace cohort::cuda
