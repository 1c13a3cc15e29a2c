#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "cohort/recorded/profile.hpp"
#include "cohort/sim/simulation.hpp"
#include "sim/scenario/trace.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort::test {

/// A cluster of whose times only the device's count: 0.1 s for a batch of 64 and in proportion;
/// everything else takes (nearly) nothing, unless a test says so.
inline ClusterProfile plain_profile() {
    ClusterProfile profile;
    profile.name = "plain";
    profile.source = "made for tests";
    profile.nic_bytes_per_s = 1e12;
    profile.local_bytes_per_s = 1e12;
    profile.latency_s = 0;
    profile.cores = 16;
    profile.memory_bytes_per_s = 1e12;
    profile.update_s = 0;
    Workload work;
    work.name = "plain";
    work.source = "made for tests";
    work.device_s_per_sample = 0.1 / 64;
    work.backward_share = 0.5;
    work.parameter_bytes = 1;
    profile.workloads["plain"] = work;
    return profile;
}

/// Runs of `cohort simulate` without training, on profiles and traces of a test.
class VirtualRuns {
public:
    explicit VirtualRuns(ClusterProfile cluster = plain_profile()) : profile(std::move(cluster)) {}

    ClusterProfile profile;
    /// Rows from time 0 on: iteration times of workers, seconds for 64 samples, at least those of
    /// the profile.
    void slow_workers(const std::vector<double>& seconds) {
        const double least = 64 * profile.workloads["plain"].device_s_per_sample;
        for (std::size_t worker = 0; worker < seconds.size(); ++worker) {
            rows.push_back({.time_s = 0,
                            .target = {TraceTarget::Kind::kWorker, static_cast<int>(worker)},
                            .shares = {.device = least / seconds[worker]}});
        }
    }
    std::vector<TraceRow> rows;

    [[nodiscard]] SimulateOptions options(const std::string& mode, int workers,
                                          std::int64_t pushes) const {
        SimulateOptions o;
        o.no_train = true;
        o.mode = mode;
        o.workers = workers;
        o.samples = pushes * o.batch;
        o.time_as = "plain";
        o.profile = folder_.file("profile.toml");
        std::ofstream(o.profile) << to_toml(profile);
        if (!rows.empty()) {
            o.trace = folder_.file("trace.csv");
            write_trace(o.trace, rows);
        }
        return o;
    }
    [[nodiscard]] SimulationResult run(const std::string& mode, int workers,
                                       std::int64_t pushes) const {
        return simulate(options(mode, workers, pushes), {});
    }
    /// Seconds per update in the long run.
    [[nodiscard]] double period(const std::string& mode, int workers, std::int64_t pushes) const {
        const SimulationResult result = run(mode, workers, pushes);
        return result.virtual_s / static_cast<double>(result.updates);
    }

private:
    TempFolder folder_;
};

}  // namespace cohort::test
