// Time of the update engine per push: lease, push and effects, its part of the updates included.
// Target: below 2 us at 64 workers. And of a policy that is asked after an update.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "cohort/sched/policy.hpp"
#include "cohort/sched/update_engine.hpp"
#include "sched/session/load_monitor.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 32;

/// Pushes of workers 0, 1, ... in turn, each as soon as it is released.
void run_pushes(benchmark::State& state, SyncPlan plan) {
    const int workers = static_cast<int>(state.range(0));
    const Work work = plan.work;
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
                     .samples = kBatch,
                     .work = work},
                    effects);
        for (const Effect& effect : effects) {
            if (const auto* fire = std::get_if<Fire>(&effect)) {
                for (const Fire::Release& release : fire->releases) {
                    versions[static_cast<std::size_t>(release.worker)] = fire->version;
                }
            } else if (const auto* one = std::get_if<ReleaseOne>(&effect)) {
                versions[static_cast<std::size_t>(one->worker)] = one->version;
            } else if (const auto* other = std::get_if<Interrupt>(&effect)) {
                versions[static_cast<std::size_t>(other->worker)] = other->version;
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

/// A healthy cluster: a push per decision, nothing changes.
void run_policy(benchmark::State& state, const std::string& mode) {
    const auto workers = static_cast<std::size_t>(state.range(0));
    const auto policy = make_policy(
        mode, {.live = std::vector<bool>(workers, true), .batch = 64, .own_seconds = {}});
    (void)policy->start();
    Telemetry telemetry;
    telemetry.budget_samples = std::int64_t{1} << 50;
    telemetry.workers.resize(workers);
    std::size_t worker = 0;
    for (auto _ : state) {
        ++telemetry.updates;
        telemetry.samples_applied += 64;
        ++telemetry.workers[worker].pushes;
        telemetry.workers[worker].own_s = 1 + 0.01 * static_cast<double>(worker % 7);
        telemetry.workers[worker].last_own_s = telemetry.workers[worker].own_s;
        benchmark::DoNotOptimize(policy->decide(telemetry));
        worker = worker + 1 < workers ? worker + 1 : 0;
    }
}

/// A chooser looks at a load that has just changed, so that it weighs everything anew: a worker
/// takes twice as long as the others, who differ by some percent.
void run_chooser(benchmark::State& state, const std::string& mode) {
    const auto workers = static_cast<int>(state.range(0));
    ModeSetting setting{.live = std::vector<bool>(static_cast<std::size_t>(workers), true),
                        .batch = 64,
                        .own_seconds = {}};
    setting.job = {.parameter_bytes = 1e8, .learning_rate = 0.1, .momentum = 0.9};
    const auto policy = make_policy(mode, setting);
    (void)policy->start();
    LoadMonitor desk(workers, setting.batch, LoadMonitor::kLagBound,
                     make_predictor("ewma", workers, setting.batch, nullptr));
    Telemetry telemetry;
    telemetry.budget_samples = std::int64_t{1} << 50;
    telemetry.workers.resize(static_cast<std::size_t>(workers));
    for (auto _ : state) {
        state.PauseTiming();
        ++telemetry.updates;
        ++telemetry.seconds;
        const double odd = telemetry.updates % 2 == 0 ? 0 : 1;
        for (int worker = 0; worker < workers; ++worker) {
            const double own_s = (worker == 0 ? 2 : 1 + 0.01 * (worker % 7)) * (1 + 0.02 * odd);
            desk.timed({.worker = worker,
                        .iteration = telemetry.updates,
                        .samples = setting.batch,
                        .arrived_s = telemetry.seconds,
                        .compute_s = own_s});
            WorkerReport& known = telemetry.workers[static_cast<std::size_t>(worker)];
            ++known.pushes;
            known.own_s = own_s;
        }
        telemetry.load = &desk.view();
        state.ResumeTiming();
        benchmark::DoNotOptimize(policy->decide(telemetry));
    }
}

void register_policies() {
    for (const char* mode : {"asgd", "dynamic", "cutoff", "lb-bsp", "flexrr", "sync-switch:0.5"}) {
        benchmark::RegisterBenchmark((std::string("decide ") + mode).c_str(),
                                     [mode](benchmark::State& state) { run_policy(state, mode); })
            ->Arg(64);
    }
    for (const char* mode : {"adaptive", "star-ml", "star-h-exact"}) {
        benchmark::RegisterBenchmark((std::string("decide anew ") + mode).c_str(),
                                     [mode](benchmark::State& state) { run_chooser(state, mode); })
            ->Arg(8)
            ->Arg(64)
            ->Arg(1024)
            ->Unit(benchmark::kMicrosecond);
    }
}

/// Every mode with parameters as one would choose them for this many workers, the rules that look
/// at all workers with every push (a gate, a lag rule) among them.
void register_modes() {
    for (const int workers : {8, 64}) {
        const std::string half = std::to_string(workers / 2);
        const std::string most = std::to_string(workers - 1);
        for (const std::string& mode :
             {std::string("ssgd"), "static:" + half, "ksync:" + most, std::string("backup:1"),
              std::string("lgc:1"), "kbatch-sync:" + half, "kbatch-async:" + half,
              std::string("softsync:2"), std::string("localsgd:8"), "hier:" + half + ":8",
              std::string("asgd"), std::string("ssp:3"), std::string("dynsgd"),
              std::string("adadelay:1,1"), std::string("dcasgd"), std::string("saps:2"),
              std::string("saps:2:drop"), std::string("zeno++"), std::string("dynamic")}) {
            benchmark::RegisterBenchmark(mode.c_str(), [mode](benchmark::State& state) {
                run_mode(state, mode);
            })->Arg(workers);
        }
    }
}

}  // namespace
}  // namespace cohort

int main(int count, char** arguments) {
    cohort::register_modes();
    cohort::register_policies();
    benchmark::Initialize(&count, arguments);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
