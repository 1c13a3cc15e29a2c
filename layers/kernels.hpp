#pragma once

#include <memory>
#include <vector>

#include "cohort/layers/layer.hpp"
#include "layers/cpu/bf16_borders.hpp"

// What layers are made of. A layer's file has its kernel for the CPU; those for GPUs come from
// `cuda/`, or from kernels_no_cuda.cpp, which has the same symbols and refuses.
namespace cohort {

struct ConvSpec {
    ConvOptions options;
    bool relu = false;
};
/// Height and width of a convolution's output; 0 where the kernel does not fit.
struct ConvExtents {
    std::int64_t height;
    std::int64_t width;
};
[[nodiscard]] ConvExtents conv_extents(const ConvOptions& options, const Shape& input);

struct LinearSpec {
    LinearOptions options;
    bool relu = false;
};
struct LstmSpec {
    LstmOptions options;
};
struct LastPositionSpec {};
struct EmbeddingSpec {
    EmbeddingOptions options;
    std::int64_t vocabulary = 0;
};
struct PositionSpec {
    PositionOptions options;
};
/// The table of sines and cosines, [T,F]; see position.cpp.
[[nodiscard]] std::vector<float> position_waves(const Shape& shape);

struct LayerNormSpec {
    LayerNormOptions options;
};
struct AttentionSpec {
    AttentionOptions options;
};
struct BatchNormSpec {
    BatchNormOptions options;
    bool add = false;  ///< a second input is added before the ReLU
    bool relu = false;
};
struct PoolSpec {
    PoolKind kind = PoolKind::kMax;
    PoolOptions options;
};
/// The whole image for a global average.
[[nodiscard]] Window2d pool_window(const PoolSpec& spec, const Shape& input);
[[nodiscard]] Shape pooled_shape(const PoolSpec& spec, const Shape& input);

struct DropoutSpec {
    float probability = 0;
    std::uint32_t stream = 0;
};
struct AddSpec {
    bool relu = false;
};
struct ConcatSpec {};
struct FlattenSpec {};

using MadeKernel = std::unique_ptr<Kernel>;

MadeKernel make_cuda_kernel(const ConvSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const LinearSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const LstmSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const LastPositionSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const BatchNormSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const ActivationKind& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const PoolSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const DropoutSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const AddSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const ConcatSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const FlattenSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const EmbeddingSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const PositionSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const LayerNormSpec& spec, const KernelContext& context);
MadeKernel make_cuda_kernel(const AttentionSpec& spec, const KernelContext& context);

/// A layer's kernel for the CPU. One that computes from bfloat16 tensors says from which:
/// `static bool takes_bf16(const Spec&, const KernelContext&)`; the others are given borders.
template <class CpuKernel, class Spec>
[[nodiscard]] MadeKernel make_cpu_kernel(const Spec& spec, const KernelContext& context) {
    bool as_is = context.precision != Precision::kBf16;
    if constexpr (requires { CpuKernel::takes_bf16(spec, context); }) {
        as_is = as_is || CpuKernel::takes_bf16(spec, context);
    }
    if (as_is) {
        return std::make_unique<CpuKernel>(spec, context);
    }
    return make_bf16_borders(std::make_unique<CpuKernel>(spec, single_precision(context)), context);
}

// Layer::attributes().
[[nodiscard]] LayerAttributes attributes_of(const ConvSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const LinearSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const LstmSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const LastPositionSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const BatchNormSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const ActivationKind& spec);
[[nodiscard]] LayerAttributes attributes_of(const PoolSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const DropoutSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const AddSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const ConcatSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const FlattenSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const EmbeddingSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const PositionSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const LayerNormSpec& spec);
[[nodiscard]] LayerAttributes attributes_of(const AttentionSpec& spec);

/// A layer that its specification says all about. @tparam CpuKernel  made of specification and
/// context
template <class Spec, class CpuKernel>
class SpecLayer : public Layer {
public:
    explicit SpecLayer(const Spec& spec = {}) : spec_(spec) {}
    [[nodiscard]] LayerAttributes attributes() const final { return attributes_of(spec_); }
    [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelContext& context) const final {
        if (context.device.kind() == DeviceKind::kCuda) {
            return make_cuda_kernel(spec_, context);
        }
        return make_cpu_kernel<CpuKernel>(spec_, context);
    }

protected:
    Spec spec_;
};

/// What one sample adds to the loss.
struct LossExtents {
    std::int64_t rows = 1;     ///< labels; 1 for squared errors
    std::int64_t outputs = 0;  ///< per row: classes, or numbers with a target each
};
/// A linear layer on a sequence and its softmax cross entropy; see Layer::compile_with_loss.
[[nodiscard]] MadeKernel make_cuda_linear_loss(const LinearSpec& spec,
                                               const KernelContext& context);
[[nodiscard]] std::unique_ptr<LossKernel> make_cuda_loss(LossKind kind,
                                                         const KernelContext& context,
                                                         const LossExtents& extents);
[[nodiscard]] std::unique_ptr<KernelSupport> make_cuda_support(Device& device, Stream& stream,
                                                               Precision precision,
                                                               bool deterministic);

/// See fold_into.
void fold_on_cuda(Device& device, Stream& stream, float* state, const float* batch,
                  std::int64_t count, float step);

/// ShapeError unless kernel, stride and dilation are 1 or more and paddings 0 or more.
void check_window(std::string_view layer, const Window2d& window);

/// The only input's shape; ShapeError unless there is exactly one of that rank (0: any rank).
const Shape& only_input(std::string_view layer, std::span<const Shape> inputs, int rank);

}  // namespace cohort
