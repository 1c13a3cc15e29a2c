// Draws the jobs of a fleet: arrivals as a Poisson process, the rest independent of them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cohort/core/rng.hpp"
#include "cohort/sim/fleet.hpp"

namespace cohort {
namespace {

constexpr double kSecondsPerHour = 3600;

/// What is drawn, as substream of the job's stream.
enum class Drawn : std::uint8_t { kGap = 1, kWorkers, kLength, kWorkload, kSeed };

std::size_t pick(double uniform, const std::vector<double>& weights) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double left = uniform * total;
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] > 0) {
            last = i;
            if (left < weights[i]) {
                break;
            }
        }
        left -= weights[i];
    }
    return last;
}

}  // namespace

std::vector<DrawnJob> draw_arrivals(const FleetArrivals& arrivals) {
    std::vector<DrawnJob> jobs;
    double now_s = 0;
    std::vector<double> weights = arrivals.weights;
    weights.resize(arrivals.workers.size(), 1);
    for (int i = 0; i < arrivals.jobs; ++i) {
        const auto stream = [&](Drawn what) {
            return Rng(arrivals.seed, RngPurpose::kFleet, static_cast<std::uint64_t>(i),
                       static_cast<std::uint32_t>(what));
        };
        const auto uniform = [&](Drawn what) {
            return static_cast<double>(stream(what).next_uniform());
        };
        now_s -= std::log1p(-uniform(Drawn::kGap)) * kSecondsPerHour / arrivals.per_hour;
        const double normal = static_cast<double>(stream(Drawn::kLength).next_normal());
        const std::size_t size = pick(uniform(Drawn::kWorkers), weights);
        const std::uint32_t workload =
            stream(Drawn::kWorkload)
                .next_below(static_cast<std::uint32_t>(arrivals.workloads.size()));
        jobs.push_back(
            {.arrival_s = now_s,
             .workers = arrivals.workers[size],
             .servers = arrivals.servers.empty() ? std::nullopt
                                                 : std::optional<int>(arrivals.servers[size]),
             .length = std::min(std::exp(arrivals.length_sigma * normal), arrivals.length_most),
             .workload = arrivals.workloads[workload],
             .seed = std::uint64_t{1} + stream(Drawn::kSeed).next_u32()});
    }
    return jobs;
}

}  // namespace cohort
