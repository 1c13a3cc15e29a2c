// Batch norm, bias and ReLU, pooling, weight copies: the CUDA kernels themselves, run on the CPU
// thread by thread (support/cuda_on_cpu.hpp), against plain loops in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "batch_norm_kernels.hpp"
#include "conv_kernels.hpp"
#include "elements.cuh"
#include "pool_kernels.hpp"
#include "weight_copies.hpp"

namespace cohort::cuda {
namespace {

constexpr int kMultiprocessors = 2;  // few blocks, so that threads have several rows

/// Elements of one of the types.
class Tensor {
public:
    Tensor(ElementType type, std::int64_t count)
        : type_(type), bytes_(static_cast<std::size_t>(count) * element_bytes(type)) {}
    /// Element i is f(i), rounded to the type.
    Tensor(ElementType type, std::int64_t count, const std::function<double(std::int64_t)>& f)
        : Tensor(type, count) {
        for (std::int64_t i = 0; i < count; ++i) {
            with_type(type_, [&](auto zero) {
                using T = decltype(zero);
                reinterpret_cast<T*>(bytes_.data())[i] = from_float<T>(static_cast<float>(f(i)));
            });
        }
    }
    [[nodiscard]] double operator[](std::int64_t i) const {
        double value = 0;
        with_type(type_, [&](auto zero) {
            using T = decltype(zero);
            value = static_cast<double>(to_float(reinterpret_cast<const T*>(bytes_.data())[i]));
        });
        return value;
    }
    [[nodiscard]] void* data() { return bytes_.data(); }
    [[nodiscard]] float* floats() { return reinterpret_cast<float*>(bytes_.data()); }

private:
    ElementType type_;
    std::vector<std::byte> bytes_;
};

/// Numbers without a pattern in [-1, 1].
double noise(std::int64_t i) {
    const auto x = static_cast<double>(i);
    return std::sin(12.9898 * x + 1) * 0.9 + 0.1 * std::cos(7 * x);
}

/// Relative rounding error of a value that was stored in the type.
double rounding(ElementType type) {
    return type == ElementType::kF32 ? 2e-5 : type == ElementType::kF16 ? 1e-3 : 8e-3;
}

struct BnCase {
    std::int64_t rows;
    std::int64_t channels;
    std::int64_t stored;
    ElementType type;
    bool relu;
    std::int64_t residual;  ///< channels stored of what is added; 0: nothing is
    double centre = 0;      ///< of the input
};

/// A batch norm with everything it works on.
struct BnRun {
    explicit BnRun(const BnCase& c)
        : one(c),
          x(c.type, c.rows * c.stored,
            [&](std::int64_t i) {
                return i % c.stored < c.channels
                           ? c.centre + noise(i) * (1 + static_cast<double>(i % c.stored))
                           : 0.0;
            }),
          added(c.type, c.rows * std::max<std::int64_t>(c.residual, 1),
                [&](std::int64_t i) {
                    return c.residual > 0 && i % c.residual < c.channels ? noise(3 * i + 5) : 0.0;
                }),
          weight(ElementType::kF32, c.channels, [](std::int64_t i) { return 1.5 + noise(i); }),
          bias(ElementType::kF32, c.channels, [](std::int64_t i) { return noise(i + 99); }),
          y(c.type, c.rows * c.stored),
          mean(ElementType::kF32, c.channels),
          variance(ElementType::kF32, c.channels),
          inverse(static_cast<std::size_t>(c.stored)),
          values(static_cast<std::size_t>(6 * c.stored)) {
        problem = {.rows = c.rows,
                   .channels = c.channels,
                   .stored = c.stored,
                   .type = c.type,
                   .tiles = channel_tiles(c.rows, c.stored, c.type, kMultiprocessors,
                                          c.residual == 0 || c.residual == c.stored),
                   .values = {},
                   .epsilon = 1e-5F,
                   .weight = weight.floats(),
                   .bias = bias.floats()};
        problem.values.inverse = inverse.data();
        float* place = values.data();
        for (float** value : {&problem.values.mean, &problem.values.scale, &problem.values.offset,
                              &problem.values.a, &problem.values.b, &problem.values.d}) {
            *value = place;
            place += c.stored;
        }
        partials.resize(bn_partial_bytes(problem) / sizeof(float2));
    }
    [[nodiscard]] BnAdded what_is_added() {
        return one.residual > 0 ? BnAdded{added.data(), one.residual} : BnAdded{};
    }
    [[nodiscard]] double at(const Tensor& tensor, std::int64_t row, std::int64_t c) const {
        return tensor[row * one.stored + c];
    }
    /// Before the ReLU, from statistics in double precision.
    [[nodiscard]] double sum_at(std::int64_t row, std::int64_t c, double m, double v) const {
        const double other = one.residual > 0 ? added[row * one.residual + c] : 0.0;
        return (at(x, row, c) - m) / std::sqrt(v + 1e-5) * weight[c] + bias[c] + other;
    }

    BnCase one;
    Tensor x;
    Tensor added;
    Tensor weight;
    Tensor bias;
    Tensor y;
    Tensor mean;
    Tensor variance;
    std::vector<double> inverse;
    std::vector<float> values;
    std::vector<float2> partials;
    BnProblem problem;
};

struct ChannelFacts {
    double mean = 0;
    double variance = 0;
};
ChannelFacts facts_of(const BnRun& run, std::int64_t c) {
    ChannelFacts facts;
    const auto rows = static_cast<double>(run.one.rows);
    for (std::int64_t row = 0; row < run.one.rows; ++row) {
        facts.mean += run.at(run.x, row, c) / rows;
    }
    for (std::int64_t row = 0; row < run.one.rows; ++row) {
        const double distance = run.at(run.x, row, c) - facts.mean;
        facts.variance += distance * distance / rows;
    }
    return facts;
}

std::vector<BnCase> bn_cases() {
    using enum ElementType;
    return {{1, 1, 1, kF32, false, 0},      {700, 16, 16, kF32, true, 0},
            {513, 16, 16, kBf16, true, 16}, {300, 16, 16, kF16, false, 16},
            {90, 3, 4, kF32, true, 0},      {90, 3, 4, kF32, true, 3},
            {77, 3, 3, kF32, false, 4},     {64, 3, 8, kBf16, true, 3},
            {45, 10, 10, kF16, true, 0},    {40, 136, 136, kBf16, true, 136},
            {2000, 5, 5, kF32, true, 5},    {400, 8, 8, kF32, false, 0, 1000}};
}

TEST(BatchNormKernels, StatisticsAndOutputAreThoseOfPlainLoops) {
    for (const BnCase& one : bn_cases()) {
        BnRun run(one);
        bn_statistics(nullptr, run.problem, run.x.data(), run.partials.data(), run.mean.floats(),
                      run.variance.floats());
        bn_apply(nullptr, run.problem, run.x.data(), run.what_is_added(), one.relu, run.y.data());
        for (std::int64_t c = 0; c < one.channels; ++c) {
            const ChannelFacts facts = facts_of(run, c);
            const double scale = std::sqrt(facts.variance) + 1e-9;
            EXPECT_NEAR(run.mean[c], facts.mean, 1e-5 * scale + 1e-7 * std::abs(facts.mean));
            EXPECT_NEAR(run.variance[c], facts.variance, 1e-5 * facts.variance + 1e-12);
            const double noise_of_mean = one.centre == 0 ? 0 : 1e-3;
            for (std::int64_t row = 0; row < one.rows; ++row) {
                const double sum = run.sum_at(row, c, facts.mean, facts.variance);
                const double expected = one.relu ? std::max(sum, 0.0) : sum;
                ASSERT_NEAR(run.at(run.y, row, c), expected,
                            rounding(one.type) * (1 + std::abs(expected)) + noise_of_mean)
                    << one.rows << "x" << one.channels << " row " << row << " channel " << c;
            }
        }
        for (std::int64_t c = one.channels; c < one.stored; ++c) {
            EXPECT_EQ(run.at(run.y, one.rows / 2, c), 0) << "a missing channel";
        }
    }
}

/// Gradients by plain loops.
struct BnGradients {
    double weight = 0;
    double bias = 0;
    std::vector<double> x;
    std::vector<double> masked;
};
BnGradients gradients_of(const BnRun& run, const Tensor& gradient, std::int64_t c) {
    const ChannelFacts facts = facts_of(run, c);
    const double inverse = 1 / std::sqrt(facts.variance + 1e-5);
    const auto rows = static_cast<double>(run.one.rows);
    BnGradients made;
    for (std::int64_t row = 0; row < run.one.rows; ++row) {
        const double sum = run.sum_at(row, c, facts.mean, facts.variance);
        const double g = run.one.relu && sum <= 0 ? 0.0 : run.at(gradient, row, c);
        made.masked.push_back(g);
        made.bias += g;
        made.weight += g * (run.at(run.x, row, c) - facts.mean) * inverse;
    }
    for (std::int64_t row = 0; row < run.one.rows; ++row) {
        const double normal = (run.at(run.x, row, c) - facts.mean) * inverse;
        const double own = made.masked[static_cast<std::size_t>(row)];
        made.x.push_back(run.weight[c] * inverse *
                         (own - made.bias / rows - normal * made.weight / rows));
    }
    return made;
}

TEST(BatchNormKernels, GradientsAreThoseOfPlainLoops) {
    for (const BnCase& one : bn_cases()) {
        if (one.centre != 0) {
            continue;  // the reference's mask would hang on the last bit
        }
        BnRun run(one);
        const std::int64_t elements = one.rows * one.stored;
        Tensor gradient(one.type, elements, [&](std::int64_t i) {
            return i % one.stored < one.channels ? noise(5 * i + 1) : 0.0;
        });
        const Tensor before = gradient;
        Tensor input_gradient(one.type, elements);
        Tensor weight(ElementType::kF32, one.channels);
        Tensor bias(ElementType::kF32, one.channels);
        const BnMask mask = !one.relu          ? BnMask::kNone
                            : one.residual > 0 ? BnMask::kFromOutput
                                               : BnMask::kFromInput;
        bn_statistics(nullptr, run.problem, run.x.data(), run.partials.data(), run.mean.floats(),
                      run.variance.floats());
        bn_apply(nullptr, run.problem, run.x.data(), run.what_is_added(), one.relu, run.y.data());
        bn_reduce(nullptr, run.problem, mask, run.x.data(), run.y.data(), gradient.data(),
                  run.partials.data(), weight.floats(), bias.floats());
        bn_input_gradient(nullptr, run.problem, mask, run.x.data(), gradient.data(),
                          input_gradient.data());
        const double sums = 1e-4 * std::sqrt(static_cast<double>(one.rows)) + 1e-5;
        for (std::int64_t c = 0; c < one.channels; ++c) {
            const BnGradients expected = gradients_of(run, before, c);
            EXPECT_NEAR(weight[c], expected.weight, sums);
            EXPECT_NEAR(bias[c], expected.bias, sums);
            for (std::int64_t row = 0; row < one.rows; ++row) {
                const double dx = expected.x[static_cast<std::size_t>(row)];
                ASSERT_NEAR(run.at(input_gradient, row, c), dx,
                            rounding(one.type) * (1 + std::abs(dx)));
                if (mask == BnMask::kFromOutput) {
                    ASSERT_EQ(run.at(gradient, row, c),
                              expected.masked[static_cast<std::size_t>(row)]);
                }
            }
        }
        for (std::int64_t c = one.channels; c < one.stored; ++c) {
            EXPECT_EQ(run.at(input_gradient, one.rows / 2, c), 0) << "a missing channel";
        }
    }
}

TEST(BatchNormKernels, InferenceTakesGivenStatistics) {
    BnRun run({50, 10, 10, ElementType::kF32, false, 0});
    Tensor mean(ElementType::kF32, 10, [](std::int64_t i) { return noise(i); });
    Tensor variance(ElementType::kF32, 10, [](std::int64_t i) { return 0.6 + 0.1 * noise(i); });
    bn_inference(nullptr, run.problem, mean.floats(), variance.floats());
    bn_apply(nullptr, run.problem, run.x.data(), {}, false, run.y.data());
    for (std::int64_t row = 0; row < 50; ++row) {
        for (std::int64_t c = 0; c < 10; ++c) {
            EXPECT_NEAR(run.at(run.y, row, c), run.sum_at(row, c, mean[c], variance[c]), 1e-4);
        }
    }
}

TEST(BatchNormKernels, NanReachesStatisticsAndOutput) {
    BnRun run({300, 8, 8, ElementType::kF32, true, 0});
    run.x.floats()[17 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
    bn_statistics(nullptr, run.problem, run.x.data(), run.partials.data(), run.mean.floats(),
                  run.variance.floats());
    bn_apply(nullptr, run.problem, run.x.data(), {}, true, run.y.data());
    EXPECT_TRUE(std::isnan(run.mean[3]));
    EXPECT_TRUE(std::isnan(run.variance[3]));
    EXPECT_TRUE(std::isnan(run.at(run.y, 200, 3)));
    EXPECT_FALSE(std::isnan(run.at(run.y, 200, 2)));
}

TEST(ConvKernels, BiasAndReluAndTheirGradients) {
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
        for (const std::int64_t channels : {1, 10, 16, 72}) {
            for (const bool relu : {false, true}) {
                constexpr std::int64_t kRows = 333;
                const RowProblem p{.rows = kRows,
                                   .channels = channels,
                                   .type = type,
                                   .tiles = channel_tiles(kRows, channels, type, kMultiprocessors)};
                Tensor y(type, kRows * channels, noise);
                const Tensor before = y;
                Tensor bias(ElementType::kF32, channels, [](std::int64_t i) { return noise(i); });
                add_bias_relu(nullptr, p, bias.floats(), relu, y.data());
                Tensor gradient(type, kRows * channels,
                                [](std::int64_t i) { return noise(2 * i); });
                const Tensor whole = gradient;
                std::vector<float> partials(bias_partial_bytes(p) / sizeof(float));
                Tensor sums(ElementType::kF32, channels);
                relu_bias_gradient(nullptr, p, relu, y.data(), gradient.data(), partials.data(),
                                   sums.floats());
                for (std::int64_t c = 0; c < channels; ++c) {
                    double sum = 0;
                    for (std::int64_t row = 0; row < kRows; ++row) {
                        const std::int64_t i = row * channels + c;
                        const double value = before[i] + bias[c];
                        const double expected = relu ? std::max(value, 0.0) : value;
                        ASSERT_NEAR(y[i], expected, rounding(type) * (1 + std::abs(expected)));
                        ASSERT_EQ(gradient[i], relu && y[i] <= 0 ? 0.0 : whole[i]);
                        sum += gradient[i];
                    }
                    EXPECT_NEAR(sums[c], sum, 1e-4);
                }
            }
        }
    }
}

TEST(ConvKernels, ReluWithoutBias) {
    const RowProblem p{.rows = 20,
                       .channels = 4,
                       .type = ElementType::kF32,
                       .tiles = channel_tiles(20, 4, ElementType::kF32, kMultiprocessors)};
    Tensor y(ElementType::kF32, 80, noise);
    const Tensor before = y;
    Tensor gradient(ElementType::kF32, 80, [](std::int64_t i) { return noise(2 * i); });
    const Tensor whole = gradient;
    add_bias_relu(nullptr, p, nullptr, true, y.data());
    relu_bias_gradient(nullptr, p, true, y.data(), gradient.data(), nullptr, nullptr);
    for (std::int64_t i = 0; i < 80; ++i) {
        EXPECT_EQ(y[i], std::max(before[i], 0.0));
        EXPECT_EQ(gradient[i], before[i] > 0 ? whole[i] : 0.0);
    }
}

PoolProblem pool_problem(std::int64_t channels, std::int64_t height, std::int64_t width,
                         std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         ElementType type) {
    return {.samples = 3,
            .channels = channels,
            .height = height,
            .width = width,
            .out_height = (height + 2 * padding - kernel) / stride + 1,
            .out_width = (width + 2 * padding - kernel) / stride + 1,
            .kernel = kernel,
            .stride = stride,
            .padding = padding,
            .type = type,
            .multiprocessors = kMultiprocessors};
}
std::vector<PoolProblem> pool_problems() {
    using enum ElementType;
    return {pool_problem(16, 9, 7, 3, 2, 1, kF32),  pool_problem(16, 8, 8, 2, 2, 0, kBf16),
            pool_problem(3, 10, 6, 3, 1, 1, kF32),  pool_problem(10, 7, 7, 2, 3, 1, kF16),
            pool_problem(40, 5, 5, 5, 5, 2, kBf16), pool_problem(4, 20, 19, 17, 1, 8, kF32)};
}

/// Calls f(index of the input cell) for every real cell of a window.
template <class F>
void for_each_cell(const PoolProblem& p, std::int64_t n, std::int64_t oh, std::int64_t ow,
                   std::int64_t c, F&& f) {
    for (std::int64_t i = 0; i < p.kernel; ++i) {
        for (std::int64_t j = 0; j < p.kernel; ++j) {
            const std::int64_t h = oh * p.stride - p.padding + i;
            const std::int64_t w = ow * p.stride - p.padding + j;
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
    const PoolProblem p = pool_problem(4, 4, 4, 2, 2, 0, ElementType::kF32);
    Tensor x(p.type, p.samples * 16 * 4, noise);
    x.floats()[0] = std::numeric_limits<float>::quiet_NaN();
    Tensor y(p.type, p.samples * 4 * 4);
    max_pool(nullptr, p, x.data(), y.data(), nullptr);
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_FALSE(std::isnan(y[1]));
}

TEST(PoolKernels, AverageLeavesPaddingOut) {
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

TEST(WeightCopies, OneLaunchMakesAllCopiesAndGradientsComeBack) {
    const std::vector<WeightOrder> orders{
        {.outer = 16, .channels = 3, .inner = 9, .padded = 8, .channels_last = true},
        {.outer = 70, .channels = 40, .inner = 1, .padded = 40, .channels_last = false},
        {.outer = 5, .channels = 7, .inner = 25, .padded = 7, .channels_last = true}};
    const std::vector<ElementType> types{ElementType::kBf16, ElementType::kF16, ElementType::kF32};
    std::vector<Tensor> parameters;
    std::vector<Tensor> copies;
    std::vector<WeightCopy> table;
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < orders.size(); ++i) {
        const WeightOrder& order = orders[i];
        parameters.emplace_back(ElementType::kF32, order.outer * order.channels * order.inner,
                                noise);
        copies.emplace_back(types[i], copy_elements(order), [](std::int64_t) { return 77.0; });
        table.push_back({parameters[i].floats(), copies[i].data(), order, types[i], blocks});
        blocks += blocks_of_copy(order);
    }
    refresh_copies(nullptr, table.data(), static_cast<int>(table.size()), blocks);
    for (std::size_t i = 0; i < orders.size(); ++i) {
        for (std::int64_t e = 0; e < copy_elements(orders[i]); ++e) {
            const std::int64_t source = weight_source(orders[i], e);
            const double expected = source < 0 ? 0.0 : parameters[i][source];
            ASSERT_NEAR(copies[i][e], expected, rounding(types[i]));
        }
        const std::int64_t elements = orders[i].outer * orders[i].channels * orders[i].inner;
        Tensor back(ElementType::kF32, elements);
        store_weight_gradient(nullptr, orders[i], types[i], copies[i].data(), back.floats());
        for (std::int64_t e = 0; e < elements; ++e) {
            ASSERT_NEAR(back[e], parameters[i][e], rounding(types[i]));
        }
    }
}

TEST(WeightCopies, ImagesGoToChannelsLastAndBack) {
    constexpr std::int64_t kSamples = 3;
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
        const ImageOrder order{3, 8, 35};
        const std::int64_t elements = kSamples * order.channels * order.pixels;
        Tensor images(ElementType::kF32, elements, noise);
        Tensor stored(type, kSamples * order.stored * order.pixels,
                      [](std::int64_t) { return 77.0; });
        Tensor back(ElementType::kF32, elements);
        images_to_channels_last(nullptr, order, type, images.floats(), stored.data(), kSamples);
        images_to_row_major(nullptr, order, type, stored.data(), back.floats(), kSamples);
        for (std::int64_t i = 0; i < elements; ++i) {
            ASSERT_NEAR(back[i], images[i], rounding(type));
        }
        EXPECT_EQ(stored[5], 0) << "a missing channel";
    }
}

}  // namespace
}  // namespace cohort::cuda
