#include "kernels.hpp"
#include "refuse.hpp"

namespace cohort {

MadeKernel make_cuda_kernel(const ConcatSpec& /*spec*/, const KernelContext& /*context*/) {
    cuda::refuse_layer("concat");
}

}  // namespace cohort
