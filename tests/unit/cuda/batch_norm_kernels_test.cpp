// Batch norm: the CUDA kernels themselves, run on the CPU thread by thread
// (support/gpu/cuda_on_cpu.hpp), against plain loops in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "layers/cuda/kernels/batch_norm_kernels.hpp"
#include "support/gpu/cuda_on_cpu.hpp"
#include "support/gpu/kernel_tensor.hpp"

namespace cohort::cuda {
namespace {

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
          arrivals(static_cast<std::size_t>(c.stored)),
          values(static_cast<std::size_t>(6 * c.stored)) {
        problem = {.rows = c.rows,
                   .channels = c.channels,
                   .stored = c.stored,
                   .type = c.type,
                   .gpu = 0,
                   .multiprocessors = kMultiprocessors,
                   .tiles = bn_tiles(c.rows, c.stored, c.type, kMultiprocessors,
                                     c.residual == 0 || c.residual == c.stored),
                   .values = {},
                   .arrivals = arrivals.data(),
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
    std::vector<unsigned> arrivals;
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

/// Everything that a batch norm computes, with the blocks of each launch in one order.
std::vector<double> all_results(const BnCase& one, bool backwards) {
    on_cpu::blocks_backwards = backwards;
    BnRun run(one);
    Tensor gradient(one.type, one.rows * one.stored,
                    [](std::int64_t i) { return noise(5 * i + 1); });
    Tensor input_gradient(one.type, one.rows * one.stored);
    Tensor weight(ElementType::kF32, one.channels);
    Tensor bias(ElementType::kF32, one.channels);
    std::vector<double> results;
    for (int step = 0; step < 2; ++step) {  // counters are as new after the first
        bn_statistics(nullptr, run.problem, run.x.data(), run.partials.data(), run.mean.floats(),
                      run.variance.floats());
        bn_apply(nullptr, run.problem, run.x.data(), {}, true, run.y.data());
        bn_reduce(nullptr, run.problem, BnMask::kFromInput, run.x.data(), run.y.data(),
                  gradient.data(), run.partials.data(), weight.floats(), bias.floats());
        bn_input_gradient(nullptr, run.problem, BnMask::kFromInput, run.x.data(), gradient.data(),
                          input_gradient.data());
        for (std::int64_t c = 0; c < one.channels; ++c) {
            for (const Tensor* values : {&run.mean, &run.variance, &weight, &bias}) {
                results.push_back((*values)[c]);
            }
        }
        for (std::int64_t i = 0; i < one.rows * one.stored; ++i) {
            results.push_back(run.y[i]);
            results.push_back(input_gradient[i]);
        }
    }
    on_cpu::blocks_backwards = false;
    return results;
}

TEST(BatchNormKernels, BitsDoNotDependOnWhichBlockIsLast) {
    for (const BnCase& one : {BnCase{3000, 16, 16, ElementType::kF32, true, 0},
                              BnCase{900, 136, 136, ElementType::kBf16, true, 0},
                              BnCase{700, 5, 5, ElementType::kF16, true, 0}}) {
        const std::vector<double> results = all_results(one, false);
        EXPECT_EQ(results, all_results(one, true));
        const auto half = results.begin() + static_cast<std::ptrdiff_t>(results.size() / 2);
        EXPECT_TRUE(std::equal(results.begin(), half, half)) << "the same again";
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

}  // namespace
}  // namespace cohort::cuda
