// Time to plan a push tree, by nodes with unequal cards.
#include <benchmark/benchmark.h>

#include <random>

#include "sched/plan/push_tree.hpp"

namespace cohort {
namespace {

void BM_BuildPushTree(benchmark::State& state) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> share(0.2, 1);
    TreeCosts costs;
    for (std::int64_t node = 0; node < state.range(0); ++node) {
        costs.nodes.push_back(
            {.up = share(random) * 1.177e9, .down = share(random) * 1.177e9, .workers = 8});
    }
    costs.nodes.push_back({.up = 1.177e9, .down = 1.177e9, .servers = 1});
    costs.bytes = 553430176;  // VGG-16
    costs.latency_s = 5e-5;
    costs.sum_s = 0.055;
    for (auto _ : state) {
        benchmark::DoNotOptimize(build_push_tree(costs));
    }
}
BENCHMARK(BM_BuildPushTree)->RangeMultiplier(2)->Range(8, 1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cohort

BENCHMARK_MAIN();
