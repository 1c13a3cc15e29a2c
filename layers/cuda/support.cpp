#include "support.hpp"

#include "kernels.hpp"
#include "refuse.hpp"

namespace cohort {
namespace cuda {

const Library& dnn_library() {
    static const Library library("cuDNN 9", {"libcudnn.so.9", "libcudnn.so"});
    return library;
}

}  // namespace cuda

std::unique_ptr<KernelSupport> make_cuda_support(Device& /*device*/, Stream& /*stream*/,
                                                 Precision /*precision*/, bool /*deterministic*/) {
    cuda::refuse_layer("network");
}

}  // namespace cohort
