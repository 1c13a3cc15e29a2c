#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>

#include "cohort/sim/simulation.hpp"
#include "sim/scenario/trace.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {

/// A cluster whose times can be worked out by hand: an iteration takes 100 ms on the device, of
/// which backward is half; an update takes 10 ms.
struct HandMadeCluster {
    double parameter_bytes = 1e6;
    double nic_bytes_per_s = 1e7;
    double latency_s = 0.001;
    double update_s = 0.002;  ///< with five times the bytes at 625 MB/s: 10 ms for 1 MB
    double device_s = 0.1;
    double device_memory_bytes_per_s = 0;
};

/// Runs of rings on hand-made clusters, time only.
class RingSimulation : public ::testing::Test {
protected:
    /// The options of a run of `rounds` full rounds.
    SimulateOptions options(const HandMadeCluster& cluster, int workers, std::int64_t rounds) {
        SimulateOptions options;
        options.arch = Architecture::kRing;
        options.no_train = true;
        options.workers = workers;
        options.batch = 10;
        options.samples = rounds * workers * options.batch;
        options.profile = profile(cluster);
        options.time_as = "work";
        return options;
    }

    std::string profile(const HandMadeCluster& cluster) {
        const std::string path = folder_.file(fmt::format("{}.toml", ++files_));
        std::ofstream(path) << fmt::format(
            "name = \"by hand\"\ncores = 4\nnic_bytes_per_s = {}\nlatency_s = {}\n"
            "local_bytes_per_s = 1e12\nmemory_bytes_per_s = 6.25e8\nupdate_s = {}\n"
            "device_memory_bytes_per_s = {}\n"
            "[workloads.work]\ndevice_s_per_sample = 0\ndevice_s = {}\nbackward_share = 0.5\n"
            "parameter_bytes = {}\n",
            cluster.nic_bytes_per_s, cluster.latency_s, cluster.update_s,
            cluster.device_memory_bytes_per_s, cluster.device_s, cluster.parameter_bytes);
        return path;
    }

    std::string trace(const std::vector<TraceRow>& rows) {
        const std::string path = folder_.file(fmt::format("{}.csv", ++files_));
        write_trace(path, rows);
        return path;
    }

    static TraceRow slow(int worker, const Shares& shares) {
        return {.time_s = 0,
                .target = {.kind = TraceTarget::Kind::kWorker, .index = worker},
                .shares = shares};
    }

    static SimulationResult run(const SimulateOptions& options) { return simulate(options, {}); }

    static void expect_accounts(const SimulationResult& result, std::int64_t samples) {
        const EngineAccounts& accounts = result.accounts;
        const auto returned =
            std::accumulate(accounts.returned.begin(), accounts.returned.end(), std::int64_t{0});
        EXPECT_EQ(accounts.leased, accounts.applied + returned);
        EXPECT_EQ(accounts.outstanding, 0);
        EXPECT_EQ(accounts.applied, samples);
        EXPECT_EQ(result.samples_applied, samples);
        std::int64_t by_worker = 0;
        for (const WorkerReport& worker : result.workers) {
            by_worker += worker.samples;
        }
        EXPECT_EQ(by_worker, samples);
    }

    TempFolder folder_;

private:
    int files_ = 0;
};

}  // namespace cohort
