// Updates per second as bytes of memory moved: parameters and state are read and written, the
// gradient is read. Sizes: ResNet-20 (in cache) and VGG-16 (in memory).
#include <benchmark/benchmark.h>

#include "layers/optim/vector_math.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kResNet20 = 272'480;
constexpr std::int64_t kVgg16 = 14'728'272;

/// @param streams floats moved per parameter
void run_updates(benchmark::State& state, const OptimizerOptions& options, double fraction,
                 int streams) {
    const std::int64_t n = state.range(0);
    test::OptimizerRun run(options, test::random_floats(n, 0));
    const std::vector<float> gradient = test::random_floats(n, 1);
    for (auto _ : state) {
        run.update(gradient, fraction, 1e-6);
    }
    state.SetBytesProcessed(state.iterations() * n * streams * 4);
}

void BM_SgdWhole(benchmark::State& state) {
    run_updates(state, {.weight_decay = 1e-4}, 1, 5);
}
void BM_SgdFraction(benchmark::State& state) {
    run_updates(state, {.weight_decay = 1e-4}, 0.125, 5);
}
void BM_AdamWWhole(benchmark::State& state) {
    run_updates(state, {.kind = OptimizerKind::kAdamW, .weight_decay = 1e-2, .decoupled = true}, 1,
                7);
}
void BM_AdamWFraction(benchmark::State& state) {
    run_updates(state, {.kind = OptimizerKind::kAdamW, .weight_decay = 1e-2, .decoupled = true},
                0.7, 9);
}
void BM_Norm(benchmark::State& state) {
    const std::vector<float> values = test::random_floats(state.range(0), 0);
    for (auto _ : state) {
        benchmark::DoNotOptimize(norm(values));
    }
    state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}

BENCHMARK(BM_SgdWhole)->Arg(kResNet20)->Arg(kVgg16);
BENCHMARK(BM_SgdFraction)->Arg(kResNet20)->Arg(kVgg16);
BENCHMARK(BM_AdamWWhole)->Arg(kResNet20)->Arg(kVgg16);
BENCHMARK(BM_AdamWFraction)->Arg(kResNet20)->Arg(kVgg16);
BENCHMARK(BM_Norm)->Arg(kResNet20)->Arg(kVgg16);

}  // namespace
}  // namespace cohort
