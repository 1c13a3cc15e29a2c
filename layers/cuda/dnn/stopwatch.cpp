#include "layers/cuda/dnn/stopwatch.hpp"

#include <algorithm>

#include "tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

constexpr int kRuns = 5;

class StopEvent {
public:
    StopEvent() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
    StopEvent(const StopEvent&) = delete;
    StopEvent& operator=(const StopEvent&) = delete;
    ~StopEvent() { cudaEventDestroy(event_); }
    void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
    [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }

private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace

double fastest_seconds(cudaStream_t stream, const std::function<void()>& queue) {
    StopEvent before;
    StopEvent after;
    double fastest = 0;
    for (int run = 0; run <= kRuns; ++run) {
        before.record(stream);
        queue();
        after.record(stream);
        check(cudaEventSynchronize(after.get()), "cudaEventSynchronize");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, before.get(), after.get()),
              "cudaEventElapsedTime");
        const double seconds = static_cast<double>(milliseconds) * 1e-3;
        fastest = run <= 1 ? seconds : std::min(fastest, seconds);
    }
    return fastest;
}

}  // namespace cohort::cuda
