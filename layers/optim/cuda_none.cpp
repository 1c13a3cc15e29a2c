// Stands in for cuda/ in a build without the CUDA toolkit: the same symbols, each refuses.
#include "cohort/core/error.hpp"
#include "layers/optim/device_math.hpp"
#include "layers/optim/updates.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse(const Device& device) {
    fail<DeviceError>({.where = "optimizer",
                       .what = "no update rule runs on this device",
                       .expected = "the CPU",
                       .got = device.description()});
}

}  // namespace

std::unique_ptr<Updates> make_cuda_updates(const FlatLayout& /*layout*/, std::int64_t /*begin*/,
                                           std::int64_t /*end*/, Device& device,
                                           Stream& /*stream*/) {
    refuse(device);
}

std::unique_ptr<DeviceMath> make_cuda_math(Device& device, Stream& /*stream*/) {
    refuse(device);
}

}  // namespace cohort
