// Stands in for core/tensor/cuda/device.cpp in a build without the CUDA toolkit: the same symbols.
#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/gpu_probe.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse(const std::string& where) {
    fail<DeviceError>({.where = where,
                       .what = "this build has no CUDA backend",
                       .hint = "--device cpu, or a build with -DCOHORT_CUDA=ON"});
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) {
    refuse("cuda:" + std::to_string(index));
}

CudaStatus cuda_status() {
    return {.compiled = false, .device_count = 0, .detail = "built without the CUDA toolkit"};
}

UsableGpus usable_gpus() {
    return {.count = 0, .reported = 0, .detail = cuda_status().detail};
}

std::unique_ptr<GpuProbe> make_gpu_probe(const std::string& /*bus*/) {
    return nullptr;
}

namespace cuda {

void* native_stream(Stream& /*stream*/) {
    refuse("cuda");
}
const GpuFacts& gpu_facts(const Device& /*device*/) {
    refuse("cuda");
}
void use(const Device& /*device*/) {
    refuse("cuda");
}
void check_launch(const char* /*kernel*/, std::source_location /*where*/) {
}

}  // namespace cuda
}  // namespace cohort
