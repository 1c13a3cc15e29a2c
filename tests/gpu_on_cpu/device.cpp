// A GPU that the CPU plays: memory is the host's, work is done when it is queued, recordings are
// lists of work. It stands in the place of core/tensor/cuda/ and of the CUDA runtime.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/tensor/device.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/gpu_code.hpp"
#include "core/tensor/cuda/stream.hpp"
#include "machine.hpp"
#include "support/gpu/cuda_on_cpu.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kMemory = std::uint64_t{2} << 30;  // bytes that there are
constexpr std::size_t kAlignment = 256;
std::atomic<std::uint64_t> used_memory{0};

class OnCpuEvent final : public Event {
public:
    [[nodiscard]] bool done() const override { return true; }
    void wait() const override {}
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
        return std::chrono::duration<double>(at_ - dynamic_cast<const OnCpuEvent&>(earlier).at_)
            .count();
    }

private:
    std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

using Work = std::vector<std::function<void()>>;

class OnCpuRecording final : public Recording {
public:
    explicit OnCpuRecording(Work work) : work_(std::move(work)) {
        ++on_cpu::played_machine().recordings;
    }
    ~OnCpuRecording() override { --on_cpu::played_machine().recordings; }
    void queue() override {
        on_cpu::asked.work += work_.size();
        for (const std::function<void()>& piece : work_) {
            piece();
        }
    }
    [[nodiscard]] std::size_t size() const override { return work_.size(); }

private:
    Work work_;
};

class OnCpuStream final : public Stream {
public:
    void copy(void* to, const void* from, std::size_t bytes) override {
        on_cpu::submit([=] { std::memcpy(to, from, bytes); });
    }
    void fill_zero(void* to, std::size_t bytes) override {
        on_cpu::submit([=] { std::memset(to, 0, bytes); });
    }
    [[nodiscard]] std::unique_ptr<Event> record() override {
        check_invariant(on_cpu::recorded == nullptr, "an event was recorded within a recording");
        return std::make_unique<OnCpuEvent>();
    }
    void wait_for(const Event& /*event*/) override {}
    void synchronize() override {
        check_invariant(on_cpu::recorded == nullptr, "somebody waits within a recording");
        ++on_cpu::asked.waits;
    }
    [[nodiscard]] bool begin_recording() override {
        check_invariant(on_cpu::recorded == nullptr, "two recordings at once");
        on_cpu::recorded = &work_;
        return true;
    }
    [[nodiscard]] std::unique_ptr<Recording> end_recording() override {
        on_cpu::recorded = nullptr;
        return std::make_unique<OnCpuRecording>(std::exchange(work_, {}));
    }

private:
    Work work_;
};

/// The bytes lie before the memory itself, so that they can be taken off when it is freed.
void free_counted(void* data) noexcept {
    std::byte* start = static_cast<std::byte*>(data) - kAlignment;
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, start, sizeof bytes);
    used_memory -= bytes;
    std::free(start);
}

class OnCpuDevice final : public Device {
public:
    OnCpuDevice() { facts_ = {.index = 0, .name = "CPU", .bus = "0", .multiprocessors = 3}; }
    [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCuda; }
    [[nodiscard]] std::string description() const override { return "cuda:0: CPU"; }
    [[nodiscard]] Buffer allocate(std::size_t bytes) override {
        check_invariant(on_cpu::recorded == nullptr, "memory is allocated within a recording");
        const std::uint64_t free = kMemory - used_memory;
        if (bytes > free) {
            throw OutOfMemory(error_message({.where = description(), .what = "out of memory"}),
                              bytes, free);
        }
        const std::size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        auto* start = static_cast<std::byte*>(std::aligned_alloc(kAlignment, padded + kAlignment));
        std::memset(start, 0xFF, padded + kAlignment);  // NaN: what is read must be written first
        const std::uint64_t counted = bytes;
        std::memcpy(start, &counted, sizeof counted);
        used_memory += bytes;
        return {start + kAlignment, bytes, free_counted};
    }
    [[nodiscard]] Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
    [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
        return std::make_unique<OnCpuStream>();
    }
    [[nodiscard]] DeviceMemory memory() const override { return {kMemory - used_memory, kMemory}; }
    [[nodiscard]] const cuda::GpuFacts& facts() const { return facts_; }

private:
    cuda::GpuFacts facts_;
};

}  // namespace

namespace on_cpu {

PlayedMachine& played_machine() {
    static PlayedMachine machine;
    return machine;
}

}  // namespace on_cpu

CudaStatus cuda_status() {
    return {.compiled = true,
            .device_count = static_cast<int>(on_cpu::played_machine().gpus.size()),
            .detail = "the CPU in a GPU's place"};
}

std::unique_ptr<Device> make_cuda_device(int index) {
    if (index >= cuda_status().device_count) {
        fail<DeviceError>({.where = "cuda:" + std::to_string(index), .what = "no such GPU"});
    }
    if (const std::string lack = cuda::lack_of_code(index); !lack.empty()) {
        throw DeviceError(lack);
    }
    return std::make_unique<OnCpuDevice>();
}

namespace cuda {

std::string built_for() {
    return "80-real 90";
}

std::unique_ptr<Stream> make_cuda_stream(int /*gpu*/, Priority /*priority*/) {
    return std::make_unique<OnCpuStream>();
}
void* native_stream(Stream& stream) {
    return &dynamic_cast<OnCpuStream&>(stream);
}
const GpuFacts& gpu_facts(const Device& device) {
    return dynamic_cast<const OnCpuDevice&>(device).facts();
}
void use(const Device& /*device*/) {
}
void use(int /*gpu*/) {
}
void check(int result, const char* operation, std::source_location /*where*/) {
    if (result != 0) {
        fail<DeviceError>({.where = operation, .what = "error " + std::to_string(result)});
    }
}

}  // namespace cuda
}  // namespace cohort

// What the backend calls of the CUDA runtime besides.
extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    const auto [major, minor] =
        cohort::on_cpu::played_machine().gpus.at(static_cast<std::size_t>(device));
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? major : minor;
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t /*stream*/) {
    cohort::on_cpu::submit([=] { std::memset(to, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t /*stream*/) {
    cohort::on_cpu::submit([=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind /*kind*/, cudaStream_t /*stream*/) {
    cohort::on_cpu::submit([=] {
        for (std::size_t row = 0; row < height; ++row) {
            std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                        static_cast<const std::byte*>(from) + row * from_pitch, width);
        }
    });
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int /*device*/) {
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* /*pointer*/) {
    *attributes = {};
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = reinterpret_cast<cudaEvent_t>(new std::chrono::steady_clock::time_point);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<std::chrono::steady_clock::time_point*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*stream*/) {
    *reinterpret_cast<std::chrono::steady_clock::time_point*>(event) =
        std::chrono::steady_clock::now();
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) {
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    using Point = std::chrono::steady_clock::time_point;
    *milliseconds = std::chrono::duration<float, std::milli>(*reinterpret_cast<Point*>(end) -
                                                             *reinterpret_cast<Point*>(start))
                        .count();
    return cudaSuccess;
}

}  // extern "C"
