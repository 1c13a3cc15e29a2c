#include "cohort/train/events.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

std::string to_string(StopReason reason) {
    switch (reason) {
        case StopReason::kBudget: return "budget";
        case StopReason::kTarget: return "target";
        case StopReason::kSignal: return "signal";
    }
    return "unknown";
}

WorkerLoad load_of(const TelemetryHistory& history, int worker) {
    constexpr std::size_t kMost = 8;
    WorkerLoad load;
    const std::size_t count = std::min(history.size(worker), kMost);
    for (std::size_t age = 0; age < count; ++age) {
        const IterationRecord& record = history.record(worker, age);
        const double scale =
            static_cast<double>(history.batch()) / static_cast<double>(record.samples);
        const double weight = 1 / static_cast<double>(age + 1);
        const auto blend = [weight](double& mean, double value) {
            mean += weight * (value - mean);
        };
        blend(load.own_s, record.own_s(history.batch()));
        blend(load.input_s, record.input_s * scale);
        blend(load.compute_s, record.compute_s * scale);
        blend(load.push_s, record.push_s);
        blend(load.pull_s, record.pull_s);
        blend(load.wait_s, record.wait_s);
        blend(load.telemetry_s, record.telemetry_s);
    }
    if (count > 0) {
        const IterationRecord& newest = history.record(worker, 0);
        load.batch = newest.samples / std::max(newest.steps, std::int32_t{1});
        load.use = newest.use;
    }
    return load;
}

std::string describe(const WorkerLoad& load) {
    return fmt::format(
        "tau {:.3f} s (input {:.3f}, compute {:.3f}, push {:.3f}, pull {:.3f}), waits {:.3f} s, "
        "cpu share {:.0f} %{}{}",
        load.own_s, load.input_s, load.compute_s, load.push_s, load.pull_s, load.wait_s,
        100 * load.use.cpu_share,
        load.use.device_celsius > 0
            ? fmt::format(", GPU at {:.0f} % of its clock, {:.0f} degrees",
                          100 * load.use.device_clock, load.use.device_celsius)
            : "",
        load.slow ? ", slow: " + describe(*load.slow) : "");
}

std::string describe(const StragglerEpisode& slow) {
    return slow.by_lag ? std::string(word_of(slow.cause))
                       : fmt::format("{} x{:.2f}", word_of(slow.cause), slow.slowdown);
}

std::string describe(const StragglerNews::Item& news) {
    const StragglerEpisode& slow = news.episode;
    const bool begun = news.kind == StragglerNews::Kind::kBegun;
    const std::string how = slow.by_lag
                                ? "its parameters are old"
                                : fmt::format("{:.2f} times the fastest worker's time, cause {}",
                                              slow.slowdown, word_of(slow.cause));
    return fmt::format("worker {} {} slow{}: {}, for {:.1f} s and {} iterations{}", slow.worker,
                       begun ? "is" : "was",
                       news.kind == StragglerNews::Kind::kLeft ? " to the end" : "", how,
                       slow.duration_s(), slow.iterations, begun ? " so far" : "");
}

int ClusterReport::live() const noexcept {
    return static_cast<int>(std::ranges::count_if(workers, &WorkerReport::live));
}

WorkerReport ClusterReport::total() const noexcept {
    WorkerReport sum;
    for (const WorkerReport& one : workers) {
        sum.samples += one.samples;
        sum.pushes += one.pushes;
        sum.discounted += one.discounted;
        sum.over_bound += one.over_bound;
        for (std::size_t reason = 0; reason < kReturnReasons; ++reason) {
            sum.refused.at(reason) += one.refused.at(reason);
        }
        sum.lag_sum += one.lag_sum;
        sum.lag_max = std::max(sum.lag_max, one.lag_max);
        sum.lag_updates_sum += one.lag_updates_sum;
        sum.lost += one.lost;
        if (one.live && one.lag >= sum.lag) {
            sum.lag = one.lag;
            sum.own_s = one.own_s;
            sum.last_own_s = one.last_own_s;
        }
    }
    return sum;
}

}  // namespace cohort
