#include <algorithm>
#include <numeric>

#include "cohort/sim/fleet.hpp"

namespace cohort {
namespace {

Distribution distribution(const std::vector<double>& values) {
    if (values.empty()) {
        return {};
    }
    constexpr double kTail = 0.95;
    constexpr double kFarTail = 0.99;
    return {.count = values.size(),
            .mean = std::accumulate(values.begin(), values.end(), 0.0) /
                    static_cast<double>(values.size()),
            .median = median(values),
            .p95 = quantile(values, kTail),
            .p99 = quantile(values, kFarTail)};
}

double mean_of(const std::vector<double>& values) {
    return values.empty() ? 0
                          : std::accumulate(values.begin(), values.end(), 0.0) /
                                static_cast<double>(values.size());
}

/// Shares of all nodes over the whole time.
void add_use(FleetSummary& summary, const std::vector<FleetUsePoint>& use) {
    double since_s = 0;
    double total_s = 0;
    for (const FleetUsePoint& point : use) {
        const double seconds = point.time_s - since_s;
        summary.devices += seconds * mean_of(point.devices);
        summary.cores += seconds * mean_of(point.cores);
        summary.network += seconds * (mean_of(point.rx) + mean_of(point.tx)) / 2;
        total_s += seconds;
        since_s = point.time_s;
    }
    for (double* share : {&summary.devices, &summary.cores, &summary.network}) {
        *share = total_s > 0 ? *share / total_s : 0;
    }
}

}  // namespace

std::optional<double> FleetJobResult::tta_s() const {
    const bool aims = ended() && has_target(*this);
    return aims && target_s ? *target_s - arrival_s : aims ? completion_s() : std::nullopt;
}

std::optional<double> FleetJobResult::slowdown() const {
    if (!alone_samples_s || !start_s || !end_s || *end_s <= *start_s || samples == 0) {
        return std::nullopt;
    }
    return *alone_samples_s * (*end_s - *start_s) / static_cast<double>(samples);
}

FleetSummary summarise(const FleetResult& result) {
    FleetSummary summary;
    std::vector<double> tta;
    std::vector<double> tta_from_start;
    std::vector<double> completion;
    std::vector<double> slowdown;
    double held_s = 0;
    double wait_s = 0;
    for (const FleetJobResult& job : result.jobs) {
        if (job.start_s && job.end_s) {
            held_s += (*job.end_s - *job.start_s) * job.workers;
            wait_s += job.wait_s;
        }
        summary.failed += job.state == FleetJobState::kFailed ? 1 : 0;
        if (!job.ended()) {
            continue;
        }
        ++summary.ended;
        summary.missed += job.missed() ? 1 : 0;
        if (const std::optional<double> seconds = job.tta_s()) {
            tta.push_back(*seconds);
            tta_from_start.push_back(*seconds - (*job.start_s - job.arrival_s));
        }
        completion.push_back(*job.completion_s());
        if (const std::optional<double> slower = job.slowdown()) {
            slowdown.push_back(*slower);
        }
    }
    summary.tta = distribution(tta);
    summary.tta_from_start = distribution(tta_from_start);
    summary.completion = distribution(completion);
    summary.slowdown = distribution(slowdown);
    summary.waiting = held_s > 0 ? wait_s / held_s : 0;
    add_use(summary, result.use);
    return summary;
}

ExitCode fleet_exit_code(const FleetResult& result) {
    constexpr std::ptrdiff_t kBase = 100;
    constexpr std::ptrdiff_t kMost = 20;
    const std::ptrdiff_t failed = std::min(
        kMost, std::ranges::count(result.jobs, FleetJobState::kFailed, &FleetJobResult::state));
    return result.stopped ? ExitCode::kRequeue
           : failed > 0   ? static_cast<ExitCode>(kBase + failed)
                          : ExitCode::kDone;
}

}  // namespace cohort
