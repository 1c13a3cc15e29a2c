#include "worker_ring_observer.hpp"

#include <algorithm>

#include "cohort/core/simd.hpp"

namespace cohort {
namespace {

COHORT_SIMD_CLONES void scale_floats(float* __restrict to, const float* __restrict from,
                                     std::size_t count, float factor) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        to[i] = factor * from[i];
    }
}

}  // namespace

void scale_into(std::span<float> to, std::span<const float> from, float factor) noexcept {
    scale_floats(to.data(), from.data(), from.size(), factor);
}

void RingObserver::put(std::int64_t begin, std::span<const float> gradient) {
    scale_into(buffer_.subspan(static_cast<std::size_t>(begin), gradient.size()), gradient,
               weight_);
}

void RingObserver::put_statistics(std::span<const float> batch_state) {
    const auto statistics = buffer_.last(batch_state.size());
    scale_into(statistics, batch_state, weight_);
    announced_ = static_cast<std::int64_t>(buffer_.size() - statistics.size());
    if (!statistics.empty()) {
        exchange_.ready(announced_, static_cast<std::int64_t>(buffer_.size()));
    }
}

void RingObserver::final_from(std::int64_t low) {
    exchange_.ready(low, announced_);
    announced_ = low;
}

}  // namespace cohort
