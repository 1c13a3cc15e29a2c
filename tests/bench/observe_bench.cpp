// Processor time of what is written for others' tools, on rank 0: per push and update (--timeline),
// and per window, one every --log-every-s (--tensorboard, --metrics-file, --metrics-port).
// metrics.jsonl, which is always written, stands beside it.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>

#include "cohort/train/hooks.hpp"
#include "core/profiler_range.hpp"
#include "support/core/temp_folder.hpp"
#include "support/train/fake_train_control.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 32;

/// A run of so many workers.
struct Run {
    explicit Run(int workers) {
        control.run_options.out = folder.path();
        control.run_options.batch = kBatch;
        control.run_options.arch = Architecture::kServers;
        control.run_options.timeline = folder.file("timeline.json");
        control.cluster_report.mode = "ssgd";
        control.cluster_report.workers.resize(static_cast<std::size_t>(workers), {.own_s = 0.1});
        control.cluster_report.loads.resize(static_cast<std::size_t>(workers), {.own_s = 0.1});
    }
    TempFolder folder;
    FakeTrainControl control{folder.path()};
};

void window(benchmark::State& state, const std::function<std::unique_ptr<TrainHook>()>& make,
            const std::function<void(TrainOptions&)>& set = {}) {
    Run run(static_cast<int>(state.range(0)));
    if (set) {
        set(run.control.run_options);
    }
    const std::unique_ptr<TrainHook> hook = make();
    hook->on_start(run.control);
    const TrainWindow window{.samples_applied = 1000,
                             .updates = 10,
                             .samples_per_s = 100,
                             .cluster = run.control.cluster_report};
    for (auto _ : state) {
        hook->on_window(run.control, window);
    }
}

void metrics_window(benchmark::State& state) {
    window(state, make_metrics_hook);
}
void tensorboard_window(benchmark::State& state) {
    window(state, make_tensorboard_hook);
}
void metrics_port_window(benchmark::State& state) {
    window(state, make_prometheus_hook, [](TrainOptions& options) { options.metrics_port = 0; });
}
void metrics_file_window(benchmark::State& state) {
    window(state, make_prometheus_hook,
           [](TrainOptions& options) { options.metrics_file = options.out + "/cohort.prom"; });
}

/// An update of all workers' pushes; the time is per push.
void timeline_push(benchmark::State& state) {
    Run run(static_cast<int>(state.range(0)));
    const auto hook = make_timeline_hook();
    hook->on_start(run.control);
    StepReport step{.result = {.samples = kBatch * state.range(0)}, .applied = true};
    step.pushes.resize(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        run.control.virtual_clock.advance(Clock::Seconds(0.1));
        ++step.version;
        int worker = 0;
        for (PushId& push : step.pushes) {
            push = {.worker = worker, .sequence = push.sequence + 1};
            hook->on_push(run.control, {.worker = worker++,
                                        .iteration = static_cast<std::int64_t>(push.sequence),
                                        .samples = kBatch,
                                        .version = step.version - 1,
                                        .input_s = 0.01,
                                        .compute_s = 0.05,
                                        .push_s = 0.01,
                                        .pull_s = 0.01,
                                        .wait_s = 0.02});
        }
        hook->on_step(run.control, step);
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// Without a profiler.
void profiler_range(benchmark::State& state) {
    for (auto _ : state) {
        const ProfilerRange range("forward");
        benchmark::DoNotOptimize(&range);
    }
}

BENCHMARK(metrics_window)->Arg(8)->Arg(64);
BENCHMARK(tensorboard_window)->Arg(8)->Arg(64);
BENCHMARK(metrics_port_window)->Arg(8)->Arg(64);
BENCHMARK(metrics_file_window)->Arg(8)->Arg(64);
BENCHMARK(timeline_push)->Arg(8)->Arg(64);
BENCHMARK(profiler_range);

}  // namespace
}  // namespace cohort
