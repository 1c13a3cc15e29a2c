#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "cohort/tensor/device.hpp"

namespace cohort::cuda {

/// GPUs with a higher number are refused: memory knows by its deleter which GPU it belongs to.
inline constexpr int kMostGpus = 64;

/// A thread starts on GPU 0 whatever the others use: set it before anything that depends on it,
/// else a context is made on GPU 0 as well.
void use_gpu(int index);

/// CUDA's events are recorded some times per step and cost a driver call each to make: they are
/// used again. Thread safe: events are released by the threads that wait for them.
class EventPool {
public:
    explicit EventPool(int gpu) : gpu_(gpu) {}
    EventPool(const EventPool&) = delete;
    EventPool& operator=(const EventPool&) = delete;
    ~EventPool();
    [[nodiscard]] cudaEvent_t take();
    void give_back(cudaEvent_t event) noexcept;
    [[nodiscard]] int gpu() const noexcept { return gpu_; }

private:
    int gpu_;
    std::mutex mutex_;
    std::vector<cudaEvent_t> free_;
    std::size_t made_ = 0;
};

class CudaStream final : public Stream {
public:
    explicit CudaStream(int gpu);
    ~CudaStream() override;
    void copy(void* to, const void* from, std::size_t bytes) override;
    void fill_zero(void* to, std::size_t bytes) override;
    [[nodiscard]] std::unique_ptr<Event> record() override;
    void wait_for(const Event& event) override;
    void synchronize() override;
    [[nodiscard]] bool begin_recording() override;
    [[nodiscard]] std::unique_ptr<Recording> end_recording() override;
    [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

private:
    int gpu_;
    cudaStream_t stream_ = nullptr;
    std::shared_ptr<EventPool> events_;
};

}  // namespace cohort::cuda
