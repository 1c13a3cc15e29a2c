#include "train/worker/ring/worker_ring_observer.hpp"

#include "optim/vector_math.hpp"

namespace cohort {

/// values, weighted, and what is added to them, from `begin` of the buffer on.
void RingObserver::fill(std::size_t begin, std::span<const float> values) {
    const std::span<float> to = buffer_.subspan(begin, values.size());
    if (device() != nullptr) {
        device()->math->scale_into(to, values, weight_);
    } else {
        scale_into(to, values, weight_);
    }
    for (const AddedPush& added : added_) {
        const std::span<const float> push(added.values.get() + begin, values.size());
        if (device() != nullptr) {
            device()->math->add_scaled(to, device()->upload(push), added.weight);
        } else {
            add_scaled(to, push, added.weight);
        }
    }
}

void RingObserver::put(std::int64_t begin, std::span<const float> gradient) {
    fill(static_cast<std::size_t>(begin), gradient);
}

void RingObserver::put_statistics(std::span<const float> batch_state) {
    const std::size_t parameters = buffer_.size() - batch_state.size();
    fill(parameters, batch_state);
    announced_ = static_cast<std::int64_t>(parameters);
    if (!batch_state.empty()) {
        exchange_.ready(announced_, static_cast<std::int64_t>(buffer_.size()));
    }
}

void RingObserver::final_from(std::int64_t low) {
    exchange_.ready(low, announced_);
    announced_ = low;
}

}  // namespace cohort
