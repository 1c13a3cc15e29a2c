#include "worker_device.hpp"

namespace cohort {

std::span<const float> WorkerDevice::upload(std::span<const float> from) {
    if (uploaded_.bytes() < from.size_bytes()) {
        replica_.stream().synchronize();  // it may still be read
        uploaded_ = {};
        uploaded_ = replica_.device().allocate(from.size_bytes());
    }
    replica_.stream().copy(uploaded_.data(), from.data(), from.size_bytes());
    return {uploaded_.floats(), from.size()};
}

}  // namespace cohort
