// CUDA as a device: memory, and properties of GPUs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/log.hpp"
#include "core/source_place.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/gpu_code.hpp"
#include "core/tensor/cuda/stream.hpp"
#include "core/units.hpp"

namespace cohort {
namespace {

using cuda::check;

/// Frees memory of GPU `gpu`, also on a thread that has never used that GPU.
template <std::size_t gpu>
void free_device(void* data) noexcept {
    static_cast<void>(cudaSetDevice(static_cast<int>(gpu)));
    static_cast<void>(cudaFree(data));
}
template <std::size_t gpu>
void free_host(void* data) noexcept {
    static_cast<void>(cudaSetDevice(static_cast<int>(gpu)));
    static_cast<void>(cudaFreeHost(data));
}

struct Frees {
    Buffer::Free device;
    Buffer::Free host;
};

template <std::size_t... gpus>
constexpr std::array<Frees, sizeof...(gpus)> frees_of(std::index_sequence<gpus...> /*all*/) {
    return {{{free_device<gpus>, free_host<gpus>}...}};
}

/// A Buffer carries no more than a function: one for each GPU.
constexpr auto kFrees = frees_of(std::make_index_sequence<cuda::kMostGpus>());

/// Used where the driver pins no memory, as containers may forbid it: copies work, but slower and
/// not while the host continues.
Buffer plain_host_memory(std::size_t bytes, const char* reason) {
    static std::once_flag said;
    std::call_once(said, [&] {
        log_warn("The GPU's driver pins no host memory ({}): copies to and from it are slower",
                 reason);
    });
    constexpr std::size_t kAlignment = 64;
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* data = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
    if (data == nullptr) {
        throw OutOfMemory(error_message({.where = "host memory",
                                         .what = "out of memory: asked for " + format_bytes(bytes),
                                         .hint = "a smaller --batch"}),
                          bytes, 0);
    }
    return {data, bytes, [](void* p) noexcept { std::free(p); }};
}

class CudaDevice final : public Device {
public:
    explicit CudaDevice(int index) : index_(index) {
        cuda::use(index);
        // A rank that waits for its GPU must not burn a core.
        check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
        cudaDeviceProp properties{};
        check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
        char bus[32] = {};
        check(cudaDeviceGetPCIBusId(bus, sizeof bus, index), "cudaDeviceGetPCIBusId");
        facts_ = {.index = index,
                  .name = properties.name,
                  .bus = bus,
                  .multiprocessors = properties.multiProcessorCount};
    }
    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
    [[nodiscard]] std::string description() const override {
        return "cuda:" + std::to_string(index_) + ": " + facts_.name;
    }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override {
        if (bytes == 0) {
            return {};
        }
        cuda::use(index_);
        void* data = nullptr;
        const cudaError_t result = cudaMalloc(&data, bytes);
        if (result == cudaErrorMemoryAllocation) {
            static_cast<void>(cudaGetLastError());  // it does not stick
            const std::uint64_t free = memory().free_bytes;
            throw OutOfMemory(
                error_message({.where = description(),
                               .what = "out of memory: asked for " + format_bytes(bytes) + ", " +
                                       format_bytes(free) + " free",
                               .hint = "a smaller --batch"}),
                bytes, free);
        }
        check(result, "cudaMalloc");
        return {data, bytes, frees().device};
    }
    [[nodiscard]] Buffer allocate_host(std::size_t bytes) override {
        cuda::use(index_);
        void* data = nullptr;
        const cudaError_t result = cudaMallocHost(&data, bytes);
        if (result != cudaSuccess) {
            static_cast<void>(cudaGetLastError());  // it does not stick
            return plain_host_memory(bytes, cudaGetErrorString(result));
        }
        return {data, bytes, frees().host};
    }
    [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
        return cuda::make_cuda_stream(index_);
    }
    [[nodiscard]] DeviceMemory memory() const override {
        cuda::use(index_);
        std::size_t free = 0;
        std::size_t total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        return {free, total};
    }
    [[nodiscard]] const cuda::GpuFacts& facts() const { return facts_; }

private:
    [[nodiscard]] const Frees& frees() const { return kFrees[static_cast<std::size_t>(index_)]; }

    int index_;
    cuda::GpuFacts facts_;
};

std::string toolkit_version() {
    return std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
}

}  // namespace

CudaStatus cuda_status() {
    CudaStatus status{.compiled = true, .device_count = 0, .detail = ""};
    int count = 0;
    const cudaError_t result = cudaGetDeviceCount(&count);
    static_cast<void>(cudaGetLastError());
    if (result == cudaSuccess) {
        status.device_count = count;
        status.detail = "CUDA " + toolkit_version() + ", " + std::to_string(count) + " GPU" +
                        (count == 1 ? "" : "s");
    } else {
        status.detail =
            "CUDA " + toolkit_version() + ", no usable GPU (" + cudaGetErrorString(result) + ")";
    }
    return status;
}

std::unique_ptr<Device> make_cuda_device(int index) {
    const CudaStatus status = cuda_status();
    if (index >= std::min(status.device_count, cuda::kMostGpus)) {
        fail<DeviceError>({.where = "cuda:" + std::to_string(index),
                           .what = "no such GPU: " + status.detail,
                           .hint = "--device cpu"});
    }
    if (const std::string lack = cuda::lack_of_code(index); !lack.empty()) {
        throw DeviceError(lack);
    }
    return std::make_unique<CudaDevice>(index);
}

namespace cuda {

std::string built_for() {
    return COHORT_CUDA_ARCHITECTURES;
}

const GpuFacts& gpu_facts(const Device& device) {
    const auto* of_cuda = dynamic_cast<const CudaDevice*>(&device);
    if (of_cuda == nullptr) {
        fail<DeviceError>({.where = "cuda",
                           .what = "not a CUDA device",
                           .expected = "cuda",
                           .got = device.description()});
    }
    return of_cuda->facts();
}

void use(const Device& device) {
    use(gpu_facts(device).index);
}

void check(int result, const char* operation, std::source_location where) {
    if (result == cudaSuccess) {
        return;
    }
    static_cast<void>(
        cudaGetLastError());  // said here: not once more by the next check of a launch
    const auto error = static_cast<cudaError_t>(result);
    const std::string what = std::string(cudaGetErrorName(error)) + ": " +
                             cudaGetErrorString(error) + " (" + source_place(where) + ")";
    if (error == cudaErrorMemoryAllocation) {  // the runtime's own memory, of unknown size
        throw OutOfMemory(
            error_message({.where = operation, .what = what, .hint = "a smaller --batch"}), 0, 0);
    }
    fail<DeviceError>({.where = operation, .what = what});
}

void check_launch(const char* kernel, std::source_location where) {
    check(cudaGetLastError(), kernel, where);
}

}  // namespace cuda

}  // namespace cohort
