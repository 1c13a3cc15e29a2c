// CUDA as a device: memory, streams, events and copies. CUDA headers stay in this file.
#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/core/units.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {
namespace {

void check(cudaError_t result, const char* operation,
           std::source_location where = std::source_location::current()) {
    if (result == cudaSuccess) {
        return;
    }
    fail<DeviceError>({.where = operation,
                       .what = std::string(cudaGetErrorName(result)) + ": " +
                               cudaGetErrorString(result) + " (" + where.file_name() + ":" +
                               std::to_string(where.line()) + ")"});
}

/// A thread starts on GPU 0 whatever the others use: set it before anything that depends on it.
void use_device(int index) {
    check(cudaSetDevice(index), "cudaSetDevice");
}

class CudaEvent final : public Event {
public:
    CudaEvent(int device, cudaStream_t stream) {
        use_device(device);
        check(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "cudaEventCreate");
        check(cudaEventRecord(event_, stream), "cudaEventRecord");
    }
    ~CudaEvent() override { cudaEventDestroy(event_); }
    [[nodiscard]] bool done() const override {
        const cudaError_t state = cudaEventQuery(event_);
        if (state == cudaErrorNotReady) {
            return false;
        }
        check(state, "cudaEventQuery");
        return true;
    }
    void wait() const override { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
        const auto* other = dynamic_cast<const CudaEvent*>(&earlier);
        check_invariant(other != nullptr, "events of two devices compared");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, other->event_, event_), "cudaEventElapsedTime");
        return milliseconds * 1e-3;
    }
    [[nodiscard]] cudaEvent_t get() const { return event_; }

private:
    cudaEvent_t event_ = nullptr;
};

class CudaStream final : public Stream {
public:
    explicit CudaStream(int device) : device_(device) {
        use_device(device);
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    ~CudaStream() override { cudaStreamDestroy(stream_); }
    void copy(void* to, const void* from, std::size_t bytes) override {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
    }
    void fill_zero(void* to, std::size_t bytes) override {
        check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
    }
    [[nodiscard]] std::unique_ptr<Event> record() override {
        return std::make_unique<CudaEvent>(device_, stream_);
    }
    void wait_for(const Event& event) override {
        if (const auto* cuda = dynamic_cast<const CudaEvent*>(&event)) {
            check(cudaStreamWaitEvent(stream_, cuda->get(), 0), "cudaStreamWaitEvent");
        } else {
            event.wait();
        }
    }
    void synchronize() override { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

private:
    int device_;
    cudaStream_t stream_ = nullptr;
};

class CudaDevice final : public Device {
public:
    explicit CudaDevice(int index) : index_(index) {
        use_device(index);
        // A rank that waits for its GPU must not burn a core.
        check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
        check(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties");
    }
    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
    [[nodiscard]] std::string description() const override {
        return "cuda:" + std::to_string(index_) + ": " + properties_.name;
    }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override {
        use_device(index_);
        void* data = nullptr;
        const cudaError_t result = cudaMalloc(&data, bytes);
        if (result == cudaErrorMemoryAllocation) {
            fail<DeviceError>({.where = description(),
                               .what = "out of memory: asked for " + format_bytes(bytes) + ", " +
                                       format_bytes(memory().free_bytes) + " free",
                               .hint = "a smaller --batch"});
        }
        check(result, "cudaMalloc");
        return {data, bytes, [](void* p) noexcept { cudaFree(p); }};
    }
    [[nodiscard]] Buffer allocate_host(std::size_t bytes) override {
        use_device(index_);
        void* data = nullptr;
        check(cudaMallocHost(&data, bytes), "cudaMallocHost");
        return {data, bytes, [](void* p) noexcept { cudaFreeHost(p); }};
    }
    [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
        return std::make_unique<CudaStream>(index_);
    }
    [[nodiscard]] DeviceMemory memory() const override {
        use_device(index_);
        std::size_t free = 0;
        std::size_t total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        return {free, total};
    }

private:
    int index_;
    cudaDeviceProp properties_{};
};

std::string toolkit_version() {
    return std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
}

}  // namespace

CudaStatus cuda_status() {
    CudaStatus status{.compiled = true, .device_count = 0, .detail = ""};
    int count = 0;
    const cudaError_t result = cudaGetDeviceCount(&count);
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
    if (index >= status.device_count) {
        fail<DeviceError>({.where = "cuda:" + std::to_string(index),
                           .what = "no such GPU: " + status.detail,
                           .hint = "--device cpu"});
    }
    return std::make_unique<CudaDevice>(index);
}

}  // namespace cohort
