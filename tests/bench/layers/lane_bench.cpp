// The loops of layers/cpu/level at every level that this processor has: milliseconds, the least of
// 50 passes on one thread, for lanes as the level's convolutions have them.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/rng.hpp"
#include "layers/cpu/level/level_loops.hpp"
#include "layers/cpu/pool_axis.hpp"

namespace cohort {
namespace {

template <class F>
double least_ms(F&& pass) {
    constexpr int kPasses = 50;
    const ThreadCpuClock clock;
    double least = 1e9;
    for (int i = 0; i < kPasses; ++i) {
        const Clock::Seconds start = clock.now();
        pass();
        least = std::min(least, 1e3 * (clock.now() - start).count());
    }
    return least;
}

std::vector<float> numbers(std::int64_t count) {
    std::vector<float> drawn(static_cast<std::size_t>(count));
    Rng rng(1, RngPurpose::kTest);
    std::generate(drawn.begin(), drawn.end(), [&] { return rng.next_normal(); });
    return drawn;
}

/// 128 planes of 16x16 in windows of 3x3; 16 images of 32 channels of 16x16.
void run(const char* name, const LevelLoops& level, std::int64_t lanes) {
    const ElementLoops<float>& loops = level.f32;
    const PoolAxis axis({.kernel = 3, .stride = 1, .before = 1, .after = 1}, 16, 16);
    const PoolTask pooling{
        .rows = axis.line(), .columns = axis.line(), .planes = 128, .lanes = lanes};
    const std::int64_t count = 128 * 256 * lanes;
    const std::vector<float> x = numbers(count);
    std::vector<float> y(x.size());
    std::vector<float> gradient = x;
    std::vector<std::uint8_t> taps(x.size());
    fmt::print("{:7} {:2} lanes: max pooling {:.2f}, backward {:.2f} ms;", name, lanes,
               least_ms([&] { loops.max_pool.forward(pooling, x.data(), y.data(), taps.data()); }),
               least_ms([&] {
                   loops.max_pool.backward(pooling, y.data(), taps.data(), gradient.data());
               }));
    const ChannelView view{.samples = 16, .groups = 32 / lanes, .pixels = 256, .lanes = lanes};
    const std::vector<float> constants(32, 0.5F);
    const float* const c = constants.data();
    std::vector<double> sums(32);
    std::vector<double> products(32);
    const BatchNormLoops<float>& norm = loops.batch_norm;
    fmt::print(
        " batch norm: statistics {:.3f}, apply with ReLU {:.3f}, backward {:.3f} and {:.3f} ms\n",
        least_ms([&] { norm.statistics(view, x.data(), c, sums.data(), products.data()); }),
        least_ms([&] { norm.apply(view, x.data(), c, c, nullptr, true, y.data()); }), least_ms([&] {
            norm.reduce(view, {.mean = c, .scale = c, .offset = c}, ReluMask::kFromOutput, x.data(),
                        y.data(), gradient.data(), sums.data(), products.data());
        }),
        least_ms(
            [&] { norm.input_gradient(view, x.data(), gradient.data(), c, c, c, c, y.data()); }));
}

}  // namespace
}  // namespace cohort

int main() {
    cohort::run("SSE", cohort::sse_loops(), 8);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) {
        cohort::run("AVX2", cohort::avx2_loops(), 8);
    }
    if (__builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
        __builtin_cpu_supports("avx512vl") != 0) {
        cohort::run("AVX-512", cohort::avx512_loops(), 16);
    }
#endif
}
