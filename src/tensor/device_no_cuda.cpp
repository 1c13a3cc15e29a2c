// Stands in for device_cuda.cpp in a build without the CUDA toolkit: the same symbols.
#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

std::unique_ptr<Device> make_cuda_device(int index) {
    fail<DeviceError>({.where = "cuda:" + std::to_string(index),
                       .what = "this build has no CUDA backend",
                       .hint = "--device cpu, or a build with -DCOHORT_CUDA=ON"});
}

CudaStatus cuda_status() {
    return {.compiled = false, .device_count = 0, .detail = "built without the CUDA toolkit"};
}

}  // namespace cohort
