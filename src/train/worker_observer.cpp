#include "worker_observer.hpp"

#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/optim/vector_math.hpp"

namespace cohort {
namespace {

std::vector<float> host_copy(Stream& stream, std::span<const float> from) {
    std::vector<float> to(from.size());
    stream.copy(to.data(), from.data(), from.size_bytes());
    stream.synchronize();
    return to;
}

}  // namespace

GradientObserver::GradientObserver(Replica& replica, Injector& injector,
                                   std::function<bool()> give_up, bool goes_on)
    : replica_(replica),
      injector_(injector),
      give_up_(std::move(give_up)),
      on_host_(replica.device().kind() == DeviceKind::kCpu),
      low_(replica.graph().parameters().total()) {
    if (!goes_on) {
        injector_.begin_step();
    }
}

bool GradientObserver::should_interrupt() {
    injector_.pause();
    return give_up_ && give_up_();
}

void GradientObserver::gradient_ready(std::int64_t begin, std::int64_t end) {
    injector_.pause();
    if (!on_host_) {
        return;
    }
    // All forward passes are over when the first gradient is announced.
    if (!begun_) {
        begun_ = true;
        begun_at_ = clock_.now();
        put_statistics(replica_.batch_state());
    }
    constexpr std::int64_t kAlign = FlatLayout::kAlignment;
    take(begin, (end + kAlign - 1) / kAlign * kAlign, replica_.gradients());
}

void GradientObserver::take(std::int64_t begin, std::int64_t end,
                            std::span<const float> gradients) {
    const auto piece =
        gradients.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    put(begin, piece);
    squares_ += cohort::sum_of_squares(piece);
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
    injector_.pause();
    if (!on_host_) {
        Stream& stream = replica_.stream();
        begun_at_ = clock_.now();
        put_statistics(host_copy(stream, replica_.batch_state()));
        take(0, low_, host_copy(stream, replica_.gradients()));
    }
    check_invariant(low_ == 0, "a step announces its whole gradient");
}

double GradientObserver::leaving_s() const {
    return (clock_.now() - begun_at_).count();
}

}  // namespace cohort
