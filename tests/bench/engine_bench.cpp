// Time of the update engine per push: lease, push and effects, its part of the updates included.
// Target: below 2 us at 64 workers.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "../support/plan_for.hpp"
#include "cohort/sched/update_engine.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 32;

/// Pushes of workers 0, 1, ... in turn, each as soon as it is released.
void run_pushes(benchmark::State& state, SyncPlan plan) {
    const int workers = static_cast<int>(state.range(0));
    UpdateEngine engine({.workers = workers, .reference_batch = workers * kBatch}, std::move(plan));
    std::vector<std::int64_t> versions(static_cast<std::size_t>(workers), 0);
    std::vector<Effect> effects;
    std::uint64_t lease = 0;
    int worker = 0;
    for (auto _ : state) {
        const auto index = static_cast<std::size_t>(worker);
        engine.leased(worker, ++lease, kBatch);
        effects.clear();
        engine.push({.id = {worker, 0, lease},
                     .lease = lease,
                     .version = versions[index],
                     .samples = kBatch},
                    effects);
        for (const Effect& effect : effects) {
            if (const auto* fire = std::get_if<Fire>(&effect)) {
                for (const Fire::Release& release : fire->releases) {
                    versions[static_cast<std::size_t>(release.worker)] = fire->version;
                }
            } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
                versions[static_cast<std::size_t>(one->worker)] = one->version;
            }
        }
        worker = worker + 1 < workers ? worker + 1 : 0;
    }
    state.SetItemsProcessed(state.iterations());
}

void run_mode(benchmark::State& state, const std::string& mode) {
    run_pushes(state,
               test::plan_for(mode, Architecture::kServers, static_cast<int>(state.range(0))));
}

void BM_Ssgd(benchmark::State& state) {
    run_mode(state, "ssgd");
}
void BM_Asgd(benchmark::State& state) {
    run_mode(state, "asgd");
}
void BM_Static16(benchmark::State& state) {
    run_mode(state, "static:16");
}
/// A lag rule and a gate look at all workers with every push.
void BM_GateAndLagRule(benchmark::State& state) {
    SyncPlan plan =
        test::plan_for("asgd", Architecture::kServers, static_cast<int>(state.range(0)));
    plan.clock_bound = 4;
    plan.lag_rule = {.bound = 2};
    run_pushes(state, plan);
}

BENCHMARK(BM_Ssgd)->Arg(8)->Arg(64);
BENCHMARK(BM_Asgd)->Arg(8)->Arg(64);
BENCHMARK(BM_Static16)->Arg(16)->Arg(64);
BENCHMARK(BM_GateAndLagRule)->Arg(8)->Arg(64);

}  // namespace
}  // namespace cohort
