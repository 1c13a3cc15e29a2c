#include "train/worker/iteration_meter.hpp"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr double kEvery = 0.1;  // seconds
constexpr double kGpuEvery = 1;

double share_of(double part, double whole) {
    return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

double rate(std::uint64_t before, std::uint64_t after, double seconds) {
    return after > before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

}  // namespace

/// A thread that is throttled waits for a processor too: the two are not added.
ResourceUse use_between(const LoadCounters& before, const LoadCounters& after) {
    const double cpu_s = after.cpu_s - before.cpu_s;
    const double throttled_s = std::min(after.throttled_s - before.throttled_s,  // of all its ranks
                                        after.at_s - before.at_s);
    const double waited_s = std::max(after.runnable_s - before.runnable_s, throttled_s);
    const double host_s = after.host_at_s - before.host_at_s;
    const double total_s = after.host_total_s - before.host_total_s;
    ResourceUse use;
    use.cpu_share = cpu_s > 0 && waited_s > 0 ? share_of(cpu_s, cpu_s + waited_s) : 1;
    use.host_busy = share_of(after.host_busy_s - before.host_busy_s, total_s);
    use.host_steal = share_of(after.host_steal_s - before.host_steal_s, total_s);
    use.host_rx_bytes_s = rate(before.host_rx_bytes, after.host_rx_bytes, host_s);
    use.host_tx_bytes_s = rate(before.host_tx_bytes, after.host_tx_bytes, host_s);
    return use;
}

ResourceUse IterationMeter::use() {
    const double begun_s = clock_.now().count();
    if (!last_ || begun_s - last_->at_s >= kEvery) {
        look();
    }
    cost_s_ += clock_.now().count() - begun_s;
    return use_;
}

void IterationMeter::look() {
    if (!probe_) {
        probe_ = std::make_unique<LoadProbe>();
    }
    const LoadCounters now = probe_->read();
    if (!last_) {
        host_last_ = now;
    } else {
        if (now.host_at_s > host_last_.host_at_s) {
            const ResourceUse use = use_between(host_last_, now);
            use_.host_busy = use.host_busy;
            use_.host_steal = use.host_steal;
            use_.host_rx_bytes_s = use.host_rx_bytes_s;
            use_.host_tx_bytes_s = use.host_tx_bytes_s;
            host_last_ = now;
        }
        use_.cpu_share = use_between(*last_, now).cpu_share;
    }
    last_ = now;
    if (!gpu_bus_.empty() && (gpu_at_s_ == 0 || now.at_s - gpu_at_s_ >= kGpuEvery)) {
        look_at_gpu(now.at_s);
    }
}

void IterationMeter::look_at_gpu(double now_s) {
    if (gpu_at_s_ == 0) {
        gpu_ = make_gpu_probe(gpu_bus_);
    }
    gpu_at_s_ = now_s;
    if (gpu_ != nullptr) {
        const GpuState state = gpu_->read();
        use_.device_busy = state.others_busy;
        use_.device_clock = state.clock_share;
        use_.device_celsius = state.celsius;
        use_.device_limits = state.limits;
    }
}

double IterationMeter::take_cost_s() noexcept {
    return std::exchange(cost_s_, 0);
}

}  // namespace cohort
