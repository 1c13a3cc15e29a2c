// Updates of a parameter server, with and without the norm of the mean gradient: its cost is a
// share of the time of an update, times how often it is asked for (GradientStatistics).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "cohort/model/graph.hpp"
#include "cohort/model/zoo.hpp"
#include "support/train/server_pushes.hpp"

namespace cohort {
namespace {

/// @param state pushes, and 1: the norm is asked for
void BM_Update(benchmark::State& state) {
    const Graph graph = make_model("lenet", Shape({1, 28, 28}), 10);
    test::ShardGroup group(graph, 1, {});
    ServerShard& shard = group.shard(0);
    std::vector<test::TestPush> pushes;
    for (int i = 0; i < state.range(0); ++i) {
        pushes.push_back(test::make_push(graph, {i, 0, 1},
                                         1.0 / static_cast<double>(state.range(0)),
                                         static_cast<std::uint64_t>(i)));
    }
    std::int64_t version = 0;
    group.update(pushes, test::fire_order(++version, pushes, {}, 1, 1e-6));
    for (auto _ : state) {
        state.PauseTiming();
        for (test::TestPush& push : pushes) {
            ++push.id.sequence;
            test::stage(shard, push);
        }
        FireOrder order =
            test::fire_order(++version, pushes, {{.worker = 0, .evaluation = {}}}, 1, 1e-6);
        order.update.ask_norm = state.range(1) == 1;
        const FireOutput output = shard.prepare(order);
        state.ResumeTiming();
        shard.fire(order, output, [](std::int64_t) {});
    }
}

BENCHMARK(BM_Update)->ArgsProduct({{1, 8}, {0, 1}});

}  // namespace
}  // namespace cohort
