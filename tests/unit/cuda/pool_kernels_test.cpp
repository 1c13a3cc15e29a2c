// Pooling: the CUDA kernels themselves, run on the CPU thread by thread
// (support/gpu/cuda_on_cpu.hpp), against plain loops in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cohort/layers/options.hpp"
#include "layers/cuda/kernels/pool_kernels.hpp"
#include "support/gpu/kernel_tensor.hpp"

namespace cohort::cuda {
namespace {

PoolProblem pool_problem(std::int64_t channels, std::int64_t height, std::int64_t width,
                         const PoolOptions& options, ElementType type) {
    const Window2d window = window_from(options);
    return {.samples = 3,
            .channels = channels,
            .height = height,
            .width = width,
            .out_height = window.height.outputs(height),
            .out_width = window.width.outputs(width),
            .window = window,
            .count_padding = options.count_padding,
            .type = type,
            .multiprocessors = kMultiprocessors};
}
std::vector<PoolProblem> pool_problems() {
    using enum ElementType;
    return {pool_problem(16, 9, 7, {3, 2, 1}, kF32),
            pool_problem(16, 8, 8, {2, 2, 0}, kBf16),
            pool_problem(3, 10, 6, {3, 1, 1}, kF32),
            pool_problem(10, 7, 7, {2, 3, 1}, kF16),
            pool_problem(40, 5, 5, {5, 5, 2}, kBf16),
            pool_problem(4, 20, 19, {17, 1, 8}, kF32),
            pool_problem(8, 6, 9, {{1, 3}, {2, 1}, {0, 0, 0, 2}}, kF32),
            pool_problem(3, 9, 6, {{3, 2}, {1, 2}, {2, 0, 1, 1}}, kBf16),
            pool_problem(4, 7, 20, {{5, 18}, {1, 2}, {0, 3, 4, 17}}, kF16),
            pool_problem(16, 7, 7, {3, 1, 1, 1, true}, kBf16),
            pool_problem(5, 6, 8, {{3, 2}, {2, 1}, {2, 0, 1, 1}, 1, true}, kF32)};
}

/// Calls f(index of the input cell) for every real cell of a window.
template <class F>
void for_each_cell(const PoolProblem& p, std::int64_t n, std::int64_t oh, std::int64_t ow,
                   std::int64_t c, F&& f) {
    for (std::int64_t i = 0; i < p.window.height.kernel; ++i) {
        for (std::int64_t j = 0; j < p.window.width.kernel; ++j) {
            const std::int64_t h = oh * p.window.height.stride - p.window.height.before + i;
            const std::int64_t w = ow * p.window.width.stride - p.window.width.before + j;
            if (h >= 0 && h < p.height && w >= 0 && w < p.width) {
                f(((n * p.height + h) * p.width + w) * p.channels + c);
            }
        }
    }
}
/// Calls f(n, oh, ow, c, index of the output).
template <class F>
void for_each_output(const PoolProblem& p, F&& f) {
    std::int64_t index = 0;
    for (std::int64_t n = 0; n < p.samples; ++n) {
        for (std::int64_t oh = 0; oh < p.out_height; ++oh) {
            for (std::int64_t ow = 0; ow < p.out_width; ++ow) {
                for (std::int64_t c = 0; c < p.channels; ++c) {
                    f(n, oh, ow, c, index++);
                }
            }
        }
    }
}

TEST(PoolKernels, MaxTakesTheFirstOfEqualsAndItsGradientGoesThere) {
    for (const PoolProblem& p : pool_problems()) {
        const std::int64_t inputs = p.samples * p.pixels() * p.channels;
        const std::int64_t outputs = p.samples * p.out_height * p.out_width * p.channels;
        Tensor x(p.type, inputs, [](std::int64_t i) { return std::round(4 * noise(i)); });
        Tensor y(p.type, outputs);
        std::vector<std::uint16_t> places(static_cast<std::size_t>(outputs));
        Tensor gradient(p.type, outputs, [](std::int64_t i) { return std::round(8 * noise(i)); });
        Tensor input_gradient(p.type, inputs);
        max_pool(nullptr, p, x.data(), y.data(), places.data());
        max_pool_gradient(nullptr, p, gradient.data(), places.data(), input_gradient.data());
        std::vector<double> expected(static_cast<std::size_t>(inputs), 0.0);
        for_each_output(p, [&](auto n, auto oh, auto ow, auto c, auto index) {
            std::int64_t best = -1;
            for_each_cell(p, n, oh, ow, c, [&](std::int64_t cell) {
                best = best < 0 || x[cell] > x[best] ? cell : best;
            });
            ASSERT_EQ(y[index], x[best]);
            expected[static_cast<std::size_t>(best)] += gradient[index];
        });
        for (std::int64_t i = 0; i < inputs; ++i) {
            ASSERT_EQ(input_gradient[i], expected[static_cast<std::size_t>(i)]);
        }
    }
}

TEST(PoolKernels, MaxKeepsNan) {
    const PoolProblem p = pool_problem(4, 4, 4, {2, 2, 0}, ElementType::kF32);
    Tensor x(p.type, p.samples * 16 * 4, noise);
    x.floats()[0] = std::numeric_limits<float>::quiet_NaN();
    Tensor y(p.type, p.samples * 4 * 4);
    max_pool(nullptr, p, x.data(), y.data(), nullptr);
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_FALSE(std::isnan(y[1]));
}

TEST(PoolKernels, AverageLeavesPaddingOutOrCountsIt) {
    for (const PoolProblem& p : pool_problems()) {
        const std::int64_t inputs = p.samples * p.pixels() * p.channels;
        const std::int64_t outputs = p.samples * p.out_height * p.out_width * p.channels;
        Tensor x(p.type, inputs, noise);
        Tensor y(p.type, outputs);
        Tensor gradient(p.type, outputs, [](std::int64_t i) { return noise(3 * i); });
        Tensor input_gradient(p.type, inputs);
        average_pool(nullptr, p, x.data(), y.data());
        average_pool_gradient(nullptr, p, gradient.data(), input_gradient.data());
        std::vector<double> expected(static_cast<std::size_t>(inputs), 0.0);
        for_each_output(p, [&](auto n, auto oh, auto ow, auto c, auto index) {
            double sum = 0;
            double cells = 0;
            for_each_cell(p, n, oh, ow, c, [&](std::int64_t cell) {
                sum += x[cell];
                ++cells;
            });
            cells = p.count_padding ? static_cast<double>(p.cells()) : cells;
            ASSERT_NEAR(y[index], sum / cells, rounding(p.type));
            for_each_cell(p, n, oh, ow, c, [&](std::int64_t cell) {
                expected[static_cast<std::size_t>(cell)] += gradient[index] / cells;
            });
        });
        for (std::int64_t i = 0; i < inputs; ++i) {
            const double value = expected[static_cast<std::size_t>(i)];
            ASSERT_NEAR(input_gradient[i], value, rounding(p.type) * (1 + std::abs(value)));
        }
    }
}

TEST(PoolKernels, GlobalAverage) {
    for (PoolProblem p : pool_problems()) {
        p.out_height = p.out_width = 1;
        const std::int64_t pixels = p.pixels();
        const auto count = static_cast<double>(pixels);
        Tensor x(p.type, p.samples * pixels * p.channels, noise);
        Tensor y(p.type, p.samples * p.channels);
        Tensor gradient(p.type, p.samples * p.channels, [](std::int64_t i) { return noise(i); });
        Tensor input_gradient(p.type, p.samples * pixels * p.channels);
        global_average_pool(nullptr, p, x.data(), y.data());
        global_average_pool_gradient(nullptr, p, gradient.data(), input_gradient.data());
        for (std::int64_t n = 0; n < p.samples; ++n) {
            for (std::int64_t c = 0; c < p.channels; ++c) {
                double sum = 0;
                for (std::int64_t i = 0; i < pixels; ++i) {
                    const std::int64_t cell = (n * pixels + i) * p.channels + c;
                    sum += x[cell];
                    ASSERT_NEAR(input_gradient[cell], gradient[n * p.channels + c] / count,
                                rounding(p.type));
                }
                ASSERT_NEAR(y[n * p.channels + c], sum / count, rounding(p.type));
            }
        }
    }
}

}  // namespace
}  // namespace cohort::cuda
