// Time of the decisions of a fleet: where a job's servers go, and the review of grants. Target:
// below 50 ms at 1024 workers in 64 jobs on 128 nodes.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <vector>

#include "sched/fleet/making_room.hpp"

namespace cohort {
namespace {

constexpr int kNodes = 128;
constexpr int kJobs = 64;
constexpr int kWorkers = 16;  // of a job

std::vector<NodeRoom> nodes() {
    return std::vector<NodeRoom>(
        kNodes, {.capacity = {.cores = 64, .rx_bytes_s = 1.25e9, .tx_bytes_s = 1.25e9}});
}

/// Jobs on a few nodes each, servers placed evenly.
std::vector<RoomJob> jobs() {
    std::mt19937_64 random(1);
    std::vector<PlacedJob> placed;
    for (int job = 0; job < kJobs; ++job) {
        JobDemand demand{
            .workers = {},
            .shares = std::vector<double>(4, 0.25),
            .push_bytes = 2e6 * std::pow(10, static_cast<double>(random() % 100) / 100),
            .server_cores = 2,
            .server_threads = 4};
        demand.pull_bytes = demand.push_bytes;
        for (int worker = 0; worker < kWorkers; ++worker) {
            const int node = (2 * job + worker / 4 * static_cast<int>(1 + random() % 3)) % kNodes;
            demand.workers.push_back({.node = node, .iterations_s = 3});
        }
        placed.push_back({demand});
    }
    const std::vector<NodeRoom> room = nodes();
    place_servers(room, placed, PlacementRule::kEven);
    std::vector<RoomJob> all;
    for (int job = 0; job < kJobs; ++job) {
        all.push_back({.id = job, .placed = placed[static_cast<std::size_t>(job)]});
    }
    return all;
}

void place_one_job(benchmark::State& state) {
    const std::vector<NodeRoom> room = nodes();
    std::vector<PlacedJob> placed;
    for (const RoomJob& job : jobs()) {
        placed.push_back(job.placed);
    }
    for (auto _ : state) {
        placed.back().servers.clear();
        place_servers(room, placed, PlacementRule::kWaits);
    }
}

void review_all_jobs(benchmark::State& state) {
    const std::vector<NodeRoom> room = nodes();
    std::vector<RoomJob> all = jobs();
    for (std::size_t job = 0; job < all.size(); ++job) {
        all[job].left_s = static_cast<double>(1 + job * 37 % 64);
    }
    std::size_t grants = 0;
    for (auto _ : state) {
        RoomLedger ledger(RoomRule::kProgress);
        ledger.review(0, room, all);
        grants = ledger.grants().size();
    }
    state.counters["grants"] = static_cast<double>(grants);
}

void judge_a_plan(benchmark::State& state) {
    const std::vector<NodeRoom> room = nodes();
    const std::vector<RoomJob> all = jobs();
    const RoomLedger ledger(RoomRule::kProgress);
    PlanWish wish{.asker = 0, .demand = all.front().placed.demand, .value = 1.3};
    wish.demand.push_bytes *= 1.3;
    for (auto _ : state) {
        benchmark::DoNotOptimize(ledger.effect_of(room, all, wish).fits);
    }
}

BENCHMARK(place_one_job)->Unit(benchmark::kMillisecond);
BENCHMARK(review_all_jobs)->Unit(benchmark::kMillisecond);
BENCHMARK(judge_a_plan)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cohort
