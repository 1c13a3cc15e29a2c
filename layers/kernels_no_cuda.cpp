// Stands in for the CUDA kernels in a build that has none: the same symbols, each refuses.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse() {
    fail<DeviceError>(
        {.where = "cuda", .what = "this version has no CUDA layers", .hint = "--device cpu"});
}

}  // namespace

MadeKernel make_cuda_kernel(const ConvSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const LinearSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const LstmSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const LastPositionSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const BatchNormSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const ActivationKind& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const PoolSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const DropoutSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const AddSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const ConcatSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const FlattenSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const EmbeddingSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const PositionSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const LayerNormSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_kernel(const AttentionSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
MadeKernel make_cuda_linear_loss(const LinearSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse();
}
std::unique_ptr<LossKernel> make_cuda_loss(LossKind /*kind*/, const KernelContext& /*context*/,
                                           const LossExtents& /*extents*/) {
    refuse();
}
std::unique_ptr<KernelSupport> make_cuda_support(Device& /*device*/, Stream& /*stream*/,
                                                 Precision /*precision*/, bool /*deterministic*/) {
    refuse();
}
void fold_on_cuda(Device& /*device*/, Stream& /*stream*/, float* /*state*/, const float* /*batch*/,
                  std::int64_t /*count*/, float /*step*/) {
    refuse();
}

}  // namespace cohort
