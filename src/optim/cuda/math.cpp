// Sums over vectors on a GPU.
#include "optim/cuda/math_kernels.hpp"
#include "optim/cuda_optim.hpp"
#include "tensor/cuda.hpp"

namespace cohort {
namespace {

class CudaMath final : public DeviceMath {
public:
    CudaMath(Device& device, Stream& stream)
        : device_(device),
          stream_(stream),
          native_(static_cast<cudaStream_t>(cuda::native_stream(stream))),
          sums_(device.allocate((cuda::kMostSquareSums + 1) * sizeof(double))),
          result_(device.allocate_host(sizeof(double))) {
        stream_.fill_zero(total(), sizeof(double));
    }

    void scale_into(std::span<float> to, std::span<const float> from, float factor) override {
        cuda::use(device_);
        cuda::launch_scale(native_, to.data(), from.data(), static_cast<std::int64_t>(to.size()),
                           factor);
    }
    void add_scaled(std::span<float> to, std::span<const float> from, float factor) override {
        cuda::use(device_);
        cuda::launch_add_scaled(native_, to.data(), from.data(),
                                static_cast<std::int64_t>(to.size()), factor);
    }
    void add_squares(std::span<const float> piece) override {
        cuda::use(device_);
        cuda::launch_add_squares(native_, piece.data(), static_cast<std::int64_t>(piece.size()),
                                 total() + 1, total());
    }
    double take_squares() override {
        cuda::use(device_);
        stream_.copy(result_.data(), total(), sizeof(double));
        stream_.fill_zero(total(), sizeof(double));
        stream_.synchronize();
        return *static_cast<const double*>(result_.data());
    }

private:
    /// The running sum; partial sums follow it.
    [[nodiscard]] double* total() const { return static_cast<double*>(sums_.data()); }

    Device& device_;
    Stream& stream_;
    cudaStream_t native_;
    Buffer sums_;
    Buffer result_;  ///< pinned
};

}  // namespace

std::unique_ptr<DeviceMath> make_cuda_math(Device& device, Stream& stream) {
    return std::make_unique<CudaMath>(device, stream);
}

}  // namespace cohort
