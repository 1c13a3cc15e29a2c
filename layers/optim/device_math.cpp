#include "layers/optim/device_math.hpp"

#include <utility>

#include "layers/optim/vector_math.hpp"

namespace cohort {
namespace {

class CpuMath final : public DeviceMath {
public:
    void scale_into(std::span<float> to, std::span<const float> from, float factor) override {
        cohort::scale_into(to, from, factor);
    }
    void add_scaled(std::span<float> to, std::span<const float> from, float factor) override {
        cohort::add_scaled(to, from, factor);
    }
    void add_squares(std::span<const float> piece) override { squares_ += sum_of_squares(piece); }
    double take_squares() override { return std::exchange(squares_, 0); }

private:
    double squares_ = 0;
};

}  // namespace

std::unique_ptr<DeviceMath> make_device_math(Device& device, Stream& stream) {
    if (device.kind() == DeviceKind::kCuda) {
        return make_cuda_math(device, stream);
    }
    return std::make_unique<CpuMath>();
}

}  // namespace cohort
