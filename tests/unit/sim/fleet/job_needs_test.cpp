// What a plan takes of a server's host, against measurements of STAR's authors.
#include "sim/fleet/job_needs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "data/dataset/recording.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

constexpr std::size_t kWorkers = 8;

/// Seconds of iterations of eight workers.
struct Iterations {
    std::vector<double> together;  ///< where they wait for each other: means of the slowest one's
    std::vector<double> alone;     ///< means of each
};

/// @param compute_s  of an iteration; a recording has the times of its transfers only
Iterations iterations_of(const RecordedTimes& rows, double compute_s) {
    Iterations mean{.together = std::vector<double>(kWorkers, compute_s),
                    .alone = std::vector<double>(kWorkers, compute_s)};
    const auto count = static_cast<double>(rows.size());
    for (const std::vector<double>& row : rows) {
        const double slowest = *std::max_element(row.begin(), row.end());
        for (std::size_t worker = 0; worker < kWorkers; ++worker) {
            mean.together[worker] += slowest / count;
            mean.alone[worker] += row[worker] / count;
        }
    }
    return mean;
}

double pushed_bytes_s(const char* mode, const std::vector<double>& own_s, double bytes) {
    const JobDemand demand = demand_of(
        test::plan_for(mode, Architecture::kServers, kWorkers), own_s,
        std::vector<std::int64_t>(kWorkers, 1), kWorkers,
        {.nodes = std::vector<int>(kWorkers, 1), .shares = {1}, .parameter_bytes = bytes});
    return std::accumulate(demand.workers.begin(), demand.workers.end(), 0.0,
                           [&](double sum, const JobDemand::Worker& worker) {
                               return sum + worker.iterations_s * demand.push_bytes;
                           });
}

/// MiB/s that pushes take more when workers do not wait for each other.
double added_mib_s(const RecordedTimes& rows, double compute_s, double bytes) {
    constexpr double kMib = 1024.0 * 1024;
    const Iterations mean = iterations_of(rows, compute_s);
    return (pushed_bytes_s("asgd", mean.alone, bytes) -
            pushed_bytes_s("ssgd", mean.together, bytes)) /
           kMib;
}

/// STAR reports what asynchrony adds at a server's host: 3.7 MiB/s for ResNet-20, 219 MiB/s for
/// VGG-16. Its recordings hold the times of transfers for ResNet-20 and VGG-13, without computing,
/// which took between nothing and what a P100 takes for 32 samples. How many servers a host had is
/// not said: bytes fit if all eight were one host's with ResNet-20, and one of eight with VGG.
TEST(JobNeeds, BytesThatAsynchronyAddsAreThoseThatStarMeasured) {
    struct Fact {
        const char* recording;
        const char* workload;
        double share;  ///< of the parameters, at the host
        double mib_s;
    };
    const ClusterProfile profile = load_profile("8gpu-10g");
    for (const Fact& fact :
         {Fact{"resnet20", "resnet20", 1, 3.7}, Fact{"vgg13", "vgg16", 1.0 / 8, 219}}) {
        const RecordedTimes rows = find_recording(fact.recording, "test");
        const Workload& work = profile.workload(fact.workload);
        const double bytes = fact.share * work.parameter_bytes;
        const double most = added_mib_s(rows, 0, bytes);
        const double least =
            added_mib_s(rows, work.device_s + 32 * work.device_s_per_sample, bytes);
        EXPECT_LT(least, most);
        constexpr double kTolerance = 1.35;
        EXPECT_GT(fact.mib_s, least / kTolerance) << fact.workload;
        EXPECT_LT(fact.mib_s, most * kTolerance) << fact.workload;
    }
}

}  // namespace
}  // namespace cohort
