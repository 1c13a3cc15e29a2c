#include "train/worker/servers/worker_times.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

double IterationTimes::lap() {
    const Clock::Seconds before = std::exchange(last_, clock_.now());
    return (last_ - before).count();
}

void IterationTimes::parameters(double first_s) {
    times_.exchange_s = lap() + std::exchange(exchange_s_, 0);
    times_.pull_s = std::clamp(first_s, 0.0, times_.exchange_s);
}

void IterationTimes::dropped() {
    lease_s_ += lap() + std::exchange(input_s_, 0) + std::exchange(buffer_s_, 0);
}

void IterationTimes::begin() {
    (void)lap();
    times_.lease_s = std::exchange(lease_s_, 0);
    times_.input_s = std::exchange(input_s_, 0);
    times_.buffer_s = std::exchange(buffer_s_, 0);
}

void IterationTimes::computed(double leaving_s, std::optional<double> own_s) {
    const double all_s = lap();
    times_.compute_s = own_s ? std::clamp(*own_s, 0.0, all_s) : all_s;
    times_.leaving_s = own_s ? std::min(leaving_s, times_.compute_s) : leaving_s;
    exchange_s_ = all_s - times_.compute_s;
}

void IterationTimes::computed_for(double compute_s) {
    (void)lap();
    times_.compute_s = compute_s;
    times_.leaving_s = 0;
}

}  // namespace cohort
