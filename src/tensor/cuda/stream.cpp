// Streams, events and recordings of a GPU.
#include "tensor/cuda/stream.hpp"

#include <utility>

#include "cohort/core/error.hpp"
#include "tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

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
        use_gpu(pool_->gpu());
        const cudaError_t state = cudaEventQuery(event_);
        if (state == cudaErrorNotReady) {
            static_cast<void>(cudaGetLastError());  // else the next check of a launch finds it
            return false;
        }
        check(state, "cudaEventQuery");
        return true;
    }
    void wait() const override {
        use_gpu(pool_->gpu());
        check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    }
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
        const auto* other = dynamic_cast<const CudaEvent*>(&earlier);
        check_invariant(other != nullptr, "events of two devices compared");
        use_gpu(pool_->gpu());
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
        check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    }
    ~CudaRecording() override {
        static_cast<void>(cudaSetDevice(gpu_));
        static_cast<void>(cudaGraphExecDestroy(executable_));
    }
    void queue() override {
        use_gpu(gpu_);
        check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
    }

private:
    int gpu_;
    cudaStream_t stream_;
    cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

void use_gpu(int index) {
    check(cudaSetDevice(index), "cudaSetDevice");
}

EventPool::~EventPool() {
    static_cast<void>(cudaSetDevice(gpu_));
    for (auto* event : free_) {
        static_cast<void>(cudaEventDestroy(event));
    }
}

cudaEvent_t EventPool::take() {
    {
        const std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            auto* event = free_.back();
            free_.pop_back();
            return event;
        }
        free_.reserve(++made_);  // so that giving back needs no memory
    }
    use_gpu(gpu_);
    cudaEvent_t event = nullptr;
    // Who waits for it sleeps. With times: the default.
    check(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "cudaEventCreate");
    return event;
}

void EventPool::give_back(cudaEvent_t event) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(event);
}

CudaStream::CudaStream(int gpu) : gpu_(gpu), events_(std::make_shared<EventPool>(gpu)) {
    use_gpu(gpu);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

CudaStream::~CudaStream() {
    static_cast<void>(cudaSetDevice(gpu_));
    static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) {
        use_gpu(gpu_);
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
    }
}

void CudaStream::fill_zero(void* to, std::size_t bytes) {
    if (bytes > 0) {
        use_gpu(gpu_);
        check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
    }
}

std::unique_ptr<Event> CudaStream::record() {
    use_gpu(gpu_);
    return std::make_unique<CudaEvent>(events_, stream_);
}

void CudaStream::wait_for(const Event& event) {
    if (const auto* of_gpu = dynamic_cast<const CudaEvent*>(&event)) {
        use_gpu(gpu_);
        check(cudaStreamWaitEvent(stream_, of_gpu->get(), 0), "cudaStreamWaitEvent");
    } else {
        event.wait();
    }
}

void CudaStream::synchronize() {
    use_gpu(gpu_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

bool CudaStream::begin_recording() {
    use_gpu(gpu_);
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    return true;
}

std::unique_ptr<Recording> CudaStream::end_recording() {
    use_gpu(gpu_);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owned(
        graph, [](cudaGraph_t unused) { static_cast<void>(cudaGraphDestroy(unused)); });
    check(ended, "cudaStreamEndCapture");
    return std::make_unique<CudaRecording>(gpu_, stream_, graph);
}

}  // namespace cohort::cuda
