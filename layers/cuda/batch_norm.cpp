#include "kernels.hpp"
#include "refuse.hpp"

namespace cohort {

MadeKernel make_cuda_kernel(const BatchNormSpec& /*spec*/, const KernelContext& /*context*/) {
    cuda::refuse_layer("batch_norm");
}

}  // namespace cohort
