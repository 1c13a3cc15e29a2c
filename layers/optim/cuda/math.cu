// Sums over vectors on a GPU. Compiled without contraction into fused multiply-add, as on the CPU.
#include "core/tensor/cuda/element_map.cuh"
#include "core/tensor/cuda/reduce.cuh"
#include "layers/optim/device_math.hpp"

namespace cohort {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostSums = 1024;  // of blocks, added up by the last

struct Scale {
    float factor;
    COHORT_HD float operator()(std::int64_t /*i*/, float x) const { return factor * x; }
};
struct AddScaled {
    float factor;
    COHORT_HD float operator()(std::int64_t /*i*/, float sum, float x) const {
        return sum + factor * x;
    }
};

/// *total += the sum of squares, by the last block. @param partial  [blocks]
__global__ void square_sums_kernel(const float* values, std::int64_t count, double* partial,
                                   double* total, unsigned* arrivals) {
    double sum = 0;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const double x = values[i];
        sum += x * x;
    }
    sum = block_sum<kThreads>(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
    if (!is_last_block(arrivals, gridDim.x)) {
        return;
    }
    sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
        sum += __ldcg(partial + i);
    }
    sum = block_sum<kThreads>(sum);
    if (threadIdx.x == 0) {
        *total += sum;
    }
}

class CudaMath final : public DeviceMath {
public:
    CudaMath(Device& device, Stream& stream)
        : device_(device),
          stream_(stream),
          native_(static_cast<cudaStream_t>(native_stream(stream))),
          sums_(device.allocate((kMostSums + 1) * sizeof(double) + sizeof(unsigned))),
          result_(device.allocate_host(sizeof(double))) {
        stream_.fill_zero(sums_.data(), sums_.bytes());
    }

    void scale_into(std::span<float> to, std::span<const float> from, float factor) override {
        use(device_);
        launch_map_of(native_, "scale", static_cast<std::int64_t>(to.size()), Scale{factor},
                      to.data(), from.data());
    }
    void add_scaled(std::span<float> to, std::span<const float> from, float factor) override {
        use(device_);
        launch_map_of(native_, "add scaled", static_cast<std::int64_t>(to.size()),
                      AddScaled{factor}, to.data(), to.data(), from.data());
    }
    void add_squares(std::span<const float> piece) override {
        constexpr std::int64_t kPerThread = 16;
        if (piece.empty()) {
            return;
        }
        use(device_);
        const auto count = static_cast<std::int64_t>(piece.size());
        const Launch launch = launch_for((count + kPerThread - 1) / kPerThread, kMostSums);
        square_sums_kernel<<<launch.blocks, kThreads, 0, native_>>>(
            piece.data(), count, total() + 1, total(),
            reinterpret_cast<unsigned*>(total() + 1 + kMostSums));
        check_launch("sums of squares");
    }
    double take_squares() override {
        use(device_);
        stream_.copy(result_.data(), total(), sizeof(double));
        stream_.fill_zero(total(), sizeof(double));
        stream_.synchronize();
        return *static_cast<const double*>(result_.data());
    }

private:
    [[nodiscard]] double* total() const { return static_cast<double*>(sums_.data()); }

    Device& device_;
    Stream& stream_;
    cudaStream_t native_;
    Buffer sums_;    ///< the running sum, sums of blocks, a counter of blocks
    Buffer result_;  ///< pinned
};

}  // namespace
}  // namespace cuda

std::unique_ptr<DeviceMath> make_cuda_math(Device& device, Stream& stream) {
    return std::make_unique<cuda::CudaMath>(device, stream);
}

}  // namespace cohort
