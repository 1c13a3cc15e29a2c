// Which GPUs can be used: those that there is code for, beside the libraries.
#include "core/tensor/cuda/gpu_code.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/stream.hpp"
#include "core/tensor/cuda_library.hpp"

namespace cohort {
namespace cuda {
namespace {

/// One entry of the list: "80", "80-real", "90-virtual", "90a", "100f-real".
bool runs(std::string_view entry, std::pair<int, int> gpu) {
    int number = 0;
    const char* end = entry.data() + entry.size();
    const auto [stop, error] = std::from_chars(entry.data(), end, number);
    if (error != std::errc{}) {
        return true;
    }
    const std::string_view rest(stop, end);
    const std::pair built(number / 10, number % 10);
    if (rest.starts_with('a')) {  // for that GPU alone
        return gpu == built;
    }
    const bool later_minor = gpu.first == built.first && gpu.second >= built.second;
    if (rest.starts_with('f') || rest.ends_with("-real")) {
        return later_minor;
    }
    return gpu >= built;
}

}  // namespace

bool has_code_for(std::string_view architectures, int major, int minor) {
    constexpr std::string_view kBetween = " ;,";
    bool any = false;
    for (std::size_t at = architectures.find_first_not_of(kBetween);
         at != std::string_view::npos && !any;) {
        const std::size_t end =
            std::min(architectures.find_first_of(kBetween, at), architectures.size());
        any = runs(architectures.substr(at, end - at), {major, minor});
        at = architectures.find_first_not_of(kBetween, end);
    }
    return any;
}

std::string lack_of_code(int index) {
    int major = 0;
    int minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index),
          "cudaDeviceGetAttribute");
    if (has_code_for(built_for(), major, minor)) {
        return "";
    }
    return error_message(
        {.where = "cuda:" + std::to_string(index),
         .what = "this program was not built for that GPU",
         .expected = "one that runs code for " + built_for(),
         .got = "compute capability " + std::to_string(major) + "." + std::to_string(minor),
         .hint = "--device cpu, or a build with its COHORT_CUDA_ARCHITECTURES"});
}

const Library& dnn_library() {
    static const Library library("cuDNN 9", {"libcudnn.so.9", "libcudnn.so"});
    return library;
}

const Library& blas_library() {
    static const Library library("cuBLASLt",
                                 {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
    return library;
}

}  // namespace cuda

UsableGpus usable_gpus() {
    const CudaStatus status = cuda_status();
    UsableGpus gpus{.count = 0, .reported = status.device_count, .detail = status.detail};
    try {
        std::string lack;
        int count = 0;
        for (; count < std::min(gpus.reported, cuda::kMostGpus); ++count) {
            lack = cuda::lack_of_code(count);
            if (!lack.empty()) {
                break;
            }
        }
        if (count == 0) {
            if (!lack.empty()) {
                gpus.detail = lack;
            }
            return gpus;
        }
        // Functions that older versions lack.
        static_cast<void>(cuda::dnn_library().symbol("cudnnGetLastErrorString"));
        static_cast<void>(cuda::blas_library().symbol("cublasLtGetStatusName"));
        gpus.count = count;
    } catch (const DeviceError& error) {
        gpus.detail = error.what();
    }
    return gpus;
}

}  // namespace cohort
