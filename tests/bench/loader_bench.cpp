// CPU time of input per sample, all loader threads together: pad-crop 4, flip, normalise, batches
// of 128, from a set in memory. `cpu_us_per_sample` is what input costs beside training, whatever
// the number of cores; storage (decompression) is not in it.
#include <benchmark/benchmark.h>

#include "cohort/data/loader.hpp"
#include "core/system/process_usage.hpp"
#include "support/data/memory_source.hpp"

namespace cohort {
namespace {

void run_loader(benchmark::State& state, const SampleSetInfo& info, bool augment) {
    const auto source = std::make_shared<test::MemorySource>(info);
    const OrderOptions order{.seed = 1};
    LoaderOptions options;
    options.augment = augment ? AugmentOptions{.pad = 4, .flip = true} : AugmentOptions{};
    options.order = order;
    Loader loader(source, options);
    LeaseLedger book(info, order);
    for (int ahead = 0; ahead < loader.prefetch(); ++ahead) {
        loader.submit(*book.take(128));
    }
    std::int64_t samples = 0;
    const double start = process_cpu_seconds();
    for (auto _ : state) {
        loader.submit(*book.take(128));
        samples += loader.next()->size();
    }
    const double used = process_cpu_seconds() - start;
    state.SetItemsProcessed(samples);
    state.counters["cpu_us_per_sample"] = 1e6 * used / static_cast<double>(samples);
}

void BM_Cifar(benchmark::State& state) {
    run_loader(state, test::set_info({3, 32, 32}, SampleType::kU8, 50000, 100), true);
}
void BM_CifarPlain(benchmark::State& state) {
    run_loader(state, test::set_info({3, 32, 32}, SampleType::kU8, 50000, 100), false);
}
void BM_FashionMnist(benchmark::State& state) {
    run_loader(state, test::set_info({1, 28, 28}, SampleType::kU8, 60000, 256), true);
}
void BM_CifarFloat(benchmark::State& state) {
    run_loader(state, test::set_info({3, 32, 32}, SampleType::kF32, 10000, 100), true);
}

BENCHMARK(BM_Cifar)->UseRealTime();
BENCHMARK(BM_CifarPlain)->UseRealTime();
BENCHMARK(BM_FashionMnist)->UseRealTime();
BENCHMARK(BM_CifarFloat)->UseRealTime();

}  // namespace
}  // namespace cohort
