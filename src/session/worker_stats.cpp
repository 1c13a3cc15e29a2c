#include "session/worker_stats.hpp"

#include <algorithm>

namespace cohort {

WorkerStats::WorkerStats(int workers, std::int64_t batch)
    : batch_(batch), reports_(static_cast<std::size_t>(workers)), times_(reports_.size()) {
}

void WorkerStats::timed(int worker, std::int64_t samples, double own_s) {
    const auto index = static_cast<std::size_t>(worker);
    if (samples <= 0) {
        return;  // it took part without samples
    }
    OwnTime& own = times_.at(index);
    own.add(own_s * static_cast<double>(batch_) / static_cast<double>(samples));
    reports_.at(index).own_s = own.seconds();
    reports_.at(index).last_own_s = own.last();
}

void WorkerStats::settled(const PushOutcome& outcome) {
    WorkerReport& report = reports_.at(static_cast<std::size_t>(outcome.worker));
    if (!outcome.returned || outcome.lag > 0) {
        report.lag = outcome.lag;
    }
    if (outcome.returned) {
        ++report.refused.at(static_cast<std::size_t>(*outcome.returned));
        return;
    }
    ++report.pushes;
    ++pushes_;
    report.samples += outcome.samples;
    report.discounted += outcome.weight < 1 ? 1 : 0;
    report.over_bound += outcome.over_bound ? 1 : 0;
    report.lag_sum += outcome.lag;
    report.lag_max = std::max(report.lag_max, outcome.lag);
    report.lag_updates_sum += outcome.lag_updates;
}

void WorkerStats::lost(int worker) {
    const auto index = static_cast<std::size_t>(worker);
    reports_.at(index).live = false;
    ++reports_.at(index).lost;
}

/// Its times of before may be those of another machine's load.
void WorkerStats::joined(int worker) {
    const auto index = static_cast<std::size_t>(worker);
    WorkerReport& report = reports_.at(index);
    report.live = true;
    report.lag = 0;
    report.own_s = 0;
    report.last_own_s = 0;
    times_.at(index) = OwnTime();
}

double WorkerStats::slowest_own_s() const noexcept {
    double most = 0;
    for (const WorkerReport& report : reports_) {
        most = report.live ? std::max(most, report.last_own_s) : most;
    }
    return most;
}

}  // namespace cohort
