// CUDA as a device: memory, streams, events, copies and recordings.
#include <cuda_runtime_api.h>

#include <string>

#include "cohort/core/error.hpp"
#include "cohort/core/units.hpp"
#include "cohort/tensor/cuda.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {
namespace {

using cuda::check;

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

/// A CUDA graph, instantiated.
class CudaRecording final : public Recording {
public:
    /// @param graph  belongs to the caller
    CudaRecording(int device, cudaStream_t stream, cudaGraph_t graph)
        : device_(device), stream_(stream) {
        check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    }
    ~CudaRecording() override { cudaGraphExecDestroy(executable_); }
    void queue() override {
        use_device(device_);
        check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
    }

private:
    int device_;
    cudaStream_t stream_;
    cudaGraphExec_t executable_ = nullptr;
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
    [[nodiscard]] bool begin_recording() override {
        use_device(device_);
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
        return true;
    }
    [[nodiscard]] std::unique_ptr<Recording> end_recording() override {
        cudaGraph_t graph = nullptr;
        const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
        const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owned(
            graph, [](cudaGraph_t unused) { cudaGraphDestroy(unused); });
        check(ended, "cudaStreamEndCapture");
        return std::make_unique<CudaRecording>(device_, stream_, graph);
    }
    [[nodiscard]] cudaStream_t get() const { return stream_; }

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
        cudaDeviceProp properties{};
        check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
        char bus[32] = {};
        check(cudaDeviceGetPCIBusId(bus, sizeof bus, index), "cudaDeviceGetPCIBusId");
        facts_ = {.index = index,
                  .name = properties.name,
                  .bus = bus,
                  .major = properties.major,
                  .minor = properties.minor,
                  .multiprocessors = properties.multiProcessorCount,
                  .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize)};
        check(cudaDriverGetVersion(&facts_.driver), "cudaDriverGetVersion");
    }
    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
    [[nodiscard]] std::string description() const override {
        return "cuda:" + std::to_string(index_) + ": " + facts_.name;
    }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override {
        use_device(index_);
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
    [[nodiscard]] const cuda::GpuFacts& facts() const { return facts_; }

private:
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

namespace cuda {

void* native_stream(Stream& stream) {
    auto* of_cuda = dynamic_cast<CudaStream*>(&stream);
    if (of_cuda == nullptr) {
        fail<DeviceError>({.where = "cuda", .what = "a stream of another device"});
    }
    return of_cuda->get();
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
    use_device(gpu_facts(device).index);
}

void check(int result, const char* operation, std::source_location where) {
    if (result == cudaSuccess) {
        return;
    }
    const auto error = static_cast<cudaError_t>(result);
    fail<DeviceError>({.where = operation,
                       .what = std::string(cudaGetErrorName(error)) + ": " +
                               cudaGetErrorString(error) + " (" + where.file_name() + ":" +
                               std::to_string(where.line()) + ")"});
}

void check_launch(const char* kernel, std::source_location where) {
    check(cudaGetLastError(), kernel, where);
}

}  // namespace cuda

}  // namespace cohort
