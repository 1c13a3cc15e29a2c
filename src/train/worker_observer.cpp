#include "worker_observer.hpp"

#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/optim/vector_math.hpp"

namespace cohort {

GradientObserver::GradientObserver(const StepParts& parts, std::function<bool()> give_up,
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
    parts_.injector.pause();
    if (begun_ && place_ == Place::kCopied) {
        take_copies(false);
    }
    return give_up_ && give_up_();
}

void GradientObserver::gradient_ready(std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kAlign = FlatLayout::kAlignment;
    parts_.injector.pause();
    Replica& replica = parts_.replica;
    const bool first = !std::exchange(begun_, true);
    const std::int64_t aligned = (end + kAlign - 1) / kAlign * kAlign;
    // All forward passes are over when the first gradient is announced.
    if (place_ == Place::kCopied) {
        GradientCopies& copies = parts_.device->copies;
        if (first) {
            copies.begin();
            copies.add_statistics(replica.batch_state());
        }
        copies.add({begin, aligned}, replica.gradients());
        take_copies(false);
        return;
    }
    if (first) {
        begin_leaving(replica.batch_state());
    }
    take(begin, aligned, replica.gradients());
}

void GradientObserver::begin_leaving(std::span<const float> batch_state) {
    leaving_ = true;
    leaving_since_ = clock_.now();
    put_statistics(batch_state);
}

/// Hands on what has arrived on the host; with `all` what is still on its way too.
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
    put(begin, piece);
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

}  // namespace cohort
