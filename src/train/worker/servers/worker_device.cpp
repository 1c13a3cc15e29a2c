#include "train/worker/servers/worker_device.hpp"

#include "cohort/core/error.hpp"

namespace cohort {

std::span<const float> WorkerDevice::upload(std::span<const float> from) {
    const std::size_t most =
        (replica_.parameters().size() + replica_.state().size()) * sizeof(float);
    check_invariant(from.size_bytes() <= most, "what is uploaded goes into a round's buffer");
    if (uploaded_.bytes() == 0) {
        uploaded_ = replica_.device().allocate(most);
    }
    replica_.stream().copy(uploaded_.data(), from.data(), from.size_bytes());
    return {uploaded_.floats(), from.size()};
}

}  // namespace cohort
