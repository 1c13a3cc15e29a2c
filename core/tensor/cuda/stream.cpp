// Streams, events and recordings of a GPU.
#include "core/tensor/cuda/stream.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/brief_wait.hpp"

namespace cohort::cuda {
namespace {

/// CUDA's events are recorded some times per step and cost a driver call each to make: they are
/// used again. Thread safe: events are released by the threads that wait for them.
class EventPool {
public:
    explicit EventPool(int gpu) : gpu_(gpu) {}
    EventPool(const EventPool&) = delete;
    EventPool& operator=(const EventPool&) = delete;
    ~EventPool() {
        static_cast<void>(cudaSetDevice(gpu_));
        for (auto* event : free_) {
            static_cast<void>(cudaEventDestroy(event));
        }
    }
    [[nodiscard]] cudaEvent_t take() {
        {
            const std::lock_guard lock(mutex_);
            if (!free_.empty()) {
                auto* event = free_.back();
                free_.pop_back();
                return event;
            }
            free_.reserve(++made_);  // so that giving back needs no memory
        }
        use(gpu_);
        cudaEvent_t event = nullptr;
        // Who waits for it sleeps. With times: the default.
        check(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "cudaEventCreate");
        return event;
    }
    void give_back(cudaEvent_t event) noexcept {
        const std::lock_guard lock(mutex_);
        free_.push_back(event);
    }
    [[nodiscard]] int gpu() const noexcept { return gpu_; }

private:
    int gpu_;
    std::mutex mutex_;
    std::vector<cudaEvent_t> free_;
    std::size_t made_ = 0;
};

/// What a query came to. Errors: DeviceError.
bool is_ready(cudaError_t state, const char* query) {
    if (state == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError());  // else the next check of a launch finds it
        return false;
    }
    check(state, query);
    return true;
}

class CudaEvent final : public Event {
public:
    CudaEvent(std::shared_ptr<EventPool> pool, cudaStream_t stream)
        : pool_(std::move(pool)), event_(pool_->take()) {
        const cudaError_t recorded = cudaEventRecord(event_, stream);
        if (recorded != cudaSuccess) {
            pool_->give_back(event_);
            check(recorded, "cudaEventRecord");
        }
    }
    ~CudaEvent() override { pool_->give_back(event_); }
    [[nodiscard]] bool done() const override {
        use(pool_->gpu());
        return is_ready(cudaEventQuery(event_), "cudaEventQuery");
    }
    void wait() const override {
        if (!done_soon([&] { return done(); })) {
            check(cudaEventSynchronize(event_), "cudaEventSynchronize");
        }
    }
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
        const auto* other = dynamic_cast<const CudaEvent*>(&earlier);
        check_invariant(other != nullptr, "events of two devices compared");
        use(pool_->gpu());
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, other->event_, event_), "cudaEventElapsedTime");
        return milliseconds * 1e-3;
    }
    [[nodiscard]] cudaEvent_t get() const { return event_; }

private:
    std::shared_ptr<EventPool> pool_;
    cudaEvent_t event_;
};

/// A CUDA graph, instantiated.
class CudaRecording final : public Recording {
public:
    /// @param graph  belongs to the caller
    CudaRecording(int gpu, cudaStream_t stream, cudaGraph_t graph) : gpu_(gpu), stream_(stream) {
        check(cudaGraphGetNodes(graph, nullptr, &size_), "cudaGraphGetNodes");
        check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    }
    ~CudaRecording() override {
        static_cast<void>(cudaSetDevice(gpu_));
        static_cast<void>(cudaGraphExecDestroy(executable_));
    }
    void queue() override {
        use(gpu_);
        check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
    }
    [[nodiscard]] std::size_t size() const override { return size_; }

private:
    int gpu_;
    cudaStream_t stream_;
    cudaGraphExec_t executable_ = nullptr;
    std::size_t size_ = 0;
};

class CudaStream final : public Stream {
public:
    CudaStream(int gpu, Priority priority) : gpu_(gpu), events_(std::make_shared<EventPool>(gpu)) {
        use(gpu);
        int least = 0;  // a larger number
        int highest = 0;
        check(cudaDeviceGetStreamPriorityRange(&least, &highest),
              "cudaDeviceGetStreamPriorityRange");
        check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                           priority == Priority::kHighest ? highest : least),
              "cudaStreamCreate");
    }
    ~CudaStream() override {
        static_cast<void>(cudaSetDevice(gpu_));
        static_cast<void>(cudaStreamDestroy(stream_));
    }
    void copy(void* to, const void* from, std::size_t bytes) override {
        if (bytes > 0) {
            use(gpu_);
            check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
        }
    }
    void fill_zero(void* to, std::size_t bytes) override {
        if (bytes > 0) {
            use(gpu_);
            check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
        }
    }
    [[nodiscard]] std::unique_ptr<Event> record() override {
        use(gpu_);
        return std::make_unique<CudaEvent>(events_, stream_);
    }
    void wait_for(const Event& event) override {
        if (const auto* of_gpu = dynamic_cast<const CudaEvent*>(&event)) {
            use(gpu_);
            check(cudaStreamWaitEvent(stream_, of_gpu->get(), 0), "cudaStreamWaitEvent");
        } else {
            event.wait();
        }
    }
    void synchronize() override {
        use(gpu_);
        if (!done_soon([&] { return is_ready(cudaStreamQuery(stream_), "cudaStreamQuery"); })) {
            check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
        }
    }
    [[nodiscard]] bool begin_recording() override {
        use(gpu_);
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
        return true;
    }
    [[nodiscard]] std::unique_ptr<Recording> end_recording() override {
        use(gpu_);
        cudaGraph_t graph = nullptr;
        const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
        const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owned(
            graph, [](cudaGraph_t unused) { static_cast<void>(cudaGraphDestroy(unused)); });
        check(ended, "cudaStreamEndCapture");
        return std::make_unique<CudaRecording>(gpu_, stream_, graph);
    }
    [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

private:
    int gpu_;
    cudaStream_t stream_ = nullptr;
    std::shared_ptr<EventPool> events_;
};

}  // namespace

void use(int gpu) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
}

std::unique_ptr<Stream> make_cuda_stream(int gpu, Priority priority) {
    return std::make_unique<CudaStream>(gpu, priority);
}

void* native_stream(Stream& stream) {
    auto* of_cuda = dynamic_cast<CudaStream*>(&stream);
    if (of_cuda == nullptr) {
        fail<DeviceError>({.where = "cuda", .what = "a stream of another device"});
    }
    return of_cuda->get();
}

}  // namespace cohort::cuda
