// The layers of text have no kernels for GPUs yet: each refuses.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse_text(std::string_view layer) {
    fail<DeviceError>(
        {.where = layer, .what = "this layer runs on CPUs only so far", .hint = "--device cpu"});
}

}  // namespace

MadeKernel make_cuda_kernel(const EmbeddingSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse_text("embedding");
}
MadeKernel make_cuda_kernel(const PositionSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse_text("position");
}
MadeKernel make_cuda_kernel(const LayerNormSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse_text("layer_norm");
}
MadeKernel make_cuda_kernel(const AttentionSpec& /*spec*/, const KernelContext& /*context*/) {
    refuse_text("attention");
}

}  // namespace cohort
