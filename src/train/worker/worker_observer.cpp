#include "train/worker/worker_observer.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/profiler_range.hpp"
#include "layers/optim/vector_math.hpp"

namespace cohort {

GradientObserver::GradientObserver(const StepContext& parts, std::function<bool()> give_up,
                                   bool goes_on, Pieces pieces)
    : parts_(parts),
      give_up_(std::move(give_up)),
      place_(parts.device == nullptr     ? Place::kHere
             : pieces == Pieces::kDevice ? Place::kStays
                                         : Place::kCopied),
      low_(parts.replica.graph().parameters().total()) {
    check_invariant(parts.device != nullptr || parts.replica.device().kind() == DeviceKind::kCpu,
                    "gradients in a device's memory are read with its help");
    if (device() != nullptr && std::exchange(device()->summing, false)) {
        (void)device()->math->take_squares();  // of a step that was given up
    }
    if (!goes_on) {
        parts_.injector.begin_step();
    }
}

bool GradientObserver::should_interrupt() {
    parts_.injector.pause(give_up_);
    send_together();
    if (begun_ && place_ == Place::kCopied) {
        take_copies(false);
    }
    return give_up_ && give_up_();
}

/// All forward passes are over when the first gradient is announced.
void GradientObserver::gradient_ready(std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kAlign = FlatLayout::kAlignment;
    parts_.injector.pause();
    end = (end + kAlign - 1) / kAlign * kAlign;
    const bool first = !std::exchange(begun_, true);
    if (place_ == Place::kHere) {
        if (first) {
            begin_leaving(parts_.replica.batch_state());
        }
        take(begin, end, parts_.replica.gradients());
        return;
    }
    if (first && place_ == Place::kCopied) {
        parts_.device->copies.begin();
        parts_.device->copies.add_statistics(parts_.replica.batch_state());
    }
    if (together_.begin != end && together_.end != begin) {
        send_together();
        together_ = {begin, end};
    }
    together_ = {std::min(together_.begin, begin), std::max(together_.end, end)};
}

/// What was announced since the last call is final in the stream's order: nothing of the step has
/// been queued behind it.
void GradientObserver::send_together() {
    const auto [begin, end] = std::exchange(together_, {});
    if (begin == end) {
        return;
    }
    if (place_ == Place::kCopied) {
        parts_.device->copies.add({begin, end}, parts_.replica.gradients());
        return;
    }
    if (!leaving_) {
        begin_leaving(parts_.replica.batch_state());
    }
    take(begin, end, parts_.replica.gradients());
}

void GradientObserver::begin_leaving(std::span<const float> batch_state) {
    leaving_ = true;
    leaving_since_ = clock_.now();
    put_statistics(batch_state);
}

/// Hands on what has arrived on the host; with `all` what is still in flight too.
void GradientObserver::take_copies(bool all) {
    GradientCopies& copies = parts_.device->copies;
    while (const auto range = copies.next(all)) {
        if (!leaving_) {
            begin_leaving(copies.statistics());
        }
        take(range->begin, range->end, copies.gradients());
    }
}

void GradientObserver::take(std::int64_t begin, std::int64_t end,
                            std::span<const float> gradients) {
    const auto piece =
        gradients.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    {
        const ProfilerRange range("push");
        put(begin, piece);
    }
    if (device() != nullptr) {
        device()->math->add_squares(piece);
        device()->summing = true;
    } else {
        squares_ += cohort::sum_of_squares(piece);
    }
    late_[end] = begin;
    const std::int64_t before = low_;
    for (auto next = late_.find(low_); next != late_.end(); next = late_.find(low_)) {
        low_ = next->second;
        late_.erase(next);
    }
    if (low_ < before) {
        final_from(low_);
    }
}

void GradientObserver::finish() {
    parts_.injector.pause();
    send_together();
    if (place_ == Place::kCopied) {
        take_copies(true);
    }
    if (device() != nullptr) {
        squares_ = device()->math->take_squares();
        device()->summing = false;
    }
    check_invariant(low_ == 0, "a step announces its whole gradient");
}

double GradientObserver::leaving_s() const {
    return (clock_.now() - leaving_since_).count();
}

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
