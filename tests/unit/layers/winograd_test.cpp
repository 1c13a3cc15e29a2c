// Winograd's convolutions on their own, for every set of instructions that this processor has,
// against a loop in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "layers/cpu/conv/winograd_conv.hpp"
#include "layers/kernels.hpp"

namespace cohort::test {
namespace {

/// The bound that winograd_conv.hpp states, of the largest value.
constexpr double kBound = 1e-4;

struct Shape3x3 {
    std::int64_t inputs;
    std::int64_t outputs;
    std::int64_t height;
    std::int64_t width;
    int padding;
    std::int64_t samples;
};
std::ostream& operator<<(std::ostream& out, const Shape3x3& s) {
    return out << s.samples << " x " << s.inputs << " -> " << s.outputs << " channels of "
               << s.height << "x" << s.width << ", padding " << s.padding;
}

/// Memory that begins at a cache line.
class Memory {
public:
    explicit Memory(std::size_t bytes)
        : data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)),
                &std::free) {
        // What was not written must not count: NaN shows it.
        std::fill_n(floats(), (bytes + 127) / 64 * 16, std::nanf(""));
    }
    [[nodiscard]] std::byte* bytes() const { return data_.get(); }
    [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(data_.get()); }

private:
    std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

using Values = std::vector<double>;  // [N, C, H, W], [O, I, 3, 3] or [O]

Values random_values(std::int64_t count, std::mt19937& random) {
    std::normal_distribution<float> normal;
    Values values(static_cast<std::size_t>(count));
    std::ranges::generate(values, [&] { return static_cast<double>(normal(random)); });
    return values;
}

std::size_t place(const TensorFormat& f, std::int64_t n, std::int64_t c, std::int64_t pixel) {
    const std::int64_t pixels = f.shape[1] * f.shape[2];
    return static_cast<std::size_t>(n * f.sample_floats() + c / f.block * f.block * pixels +
                                    pixel * f.block + c % f.block);
}
Memory in_blocks(const TensorFormat& f, std::int64_t samples, const Values& values) {
    Memory memory(static_cast<std::size_t>(samples) * f.sample_bytes());
    std::fill_n(memory.floats(), samples * f.sample_floats(), 0.0F);
    const std::int64_t pixels = f.shape[1] * f.shape[2];
    std::size_t at = 0;
    for (std::int64_t n = 0; n < samples; ++n) {
        for (std::int64_t c = 0; c < f.shape[0]; ++c) {
            for (std::int64_t p = 0; p < pixels; ++p) {
                memory.floats()[place(f, n, c, p)] = static_cast<float>(values[at++]);
            }
        }
    }
    return memory;
}
std::vector<float> in_floats(const Values& values) {
    return {values.begin(), values.end()};
}

double largest(const Values& values) {
    double most = 0;
    for (const double value : values) {
        most = std::max(most, std::abs(value));
    }
    return most;
}

/// One convolution and all its gradients in double precision.
struct Case {
    explicit Case(const Shape3x3& s, std::int64_t block, unsigned seed) : shape(s) {
        std::mt19937 random(seed);
        problem.options = {.channels = s.outputs, .kernel = 3, .padding = s.padding};
        problem.input = {Shape{s.inputs, s.height, s.width}, block, ElementType::kF32};
        problem.output = {
            Shape{s.outputs, s.height + 2 * s.padding - 2, s.width + 2 * s.padding - 2}, block,
            ElementType::kF32};
        source = random_values(s.samples * problem.input.shape.elements(), random);
        output_gradient = random_values(s.samples * problem.output.shape.elements(), random);
        weights = random_values(s.outputs * s.inputs * 9, random);
        bias = random_values(s.outputs, random);
        compute();
    }

    void compute() {
        const std::int64_t pixels = problem.output.shape[1] * problem.output.shape[2];
        output.assign(output_gradient.size(), 0);
        source_gradient.assign(source.size(), 0);
        weight_gradient.assign(weights.size(), 0);
        bias_gradient.assign(bias.size(), 0);
        std::size_t at = 0;
        for (std::int64_t n = 0; n < shape.samples; ++n) {
            for (std::int64_t o = 0; o < shape.outputs; ++o) {
                for (std::int64_t p = 0; p < pixels; ++p, ++at) {
                    output[at] = bias[static_cast<std::size_t>(o)];
                    bias_gradient[static_cast<std::size_t>(o)] += output_gradient[at];
                    add_taps(n, o, p, at);
                }
            }
        }
    }
    void add_taps(std::int64_t n, std::int64_t o, std::int64_t pixel, std::size_t at) {
        const std::int64_t columns = problem.output.shape[2];
        for (std::int64_t i = 0; i < shape.inputs; ++i) {
            for (std::int64_t tap = 0; tap < 9; ++tap) {
                const std::int64_t y = pixel / columns + tap / 3 - shape.padding;
                const std::int64_t x = pixel % columns + tap % 3 - shape.padding;
                if (y < 0 || y >= shape.height || x < 0 || x >= shape.width) {
                    continue;
                }
                const auto from = static_cast<std::size_t>(
                    ((n * shape.inputs + i) * shape.height + y) * shape.width + x);
                const auto weight = static_cast<std::size_t>((o * shape.inputs + i) * 9 + tap);
                output[at] += source[from] * weights[weight];
                source_gradient[from] += output_gradient[at] * weights[weight];
                weight_gradient[weight] += output_gradient[at] * source[from];
            }
        }
    }

    Shape3x3 shape;
    ConvProblem problem;
    Values source;
    Values weights;
    Values bias;
    Values output;
    Values output_gradient;
    Values source_gradient;
    Values weight_gradient;
    Values bias_gradient;
};

/// Largest difference as a share of the largest value; infinite where a value is NaN.
double error_of(std::span<const float> got, const Values& wanted) {
    EXPECT_EQ(got.size(), wanted.size());
    double error = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
        error = difference <= error ? error : std::isnan(difference) ? INFINITY : difference;
    }
    return error / largest(wanted);
}
double error_of_tensor(const Memory& got, const TensorFormat& f, std::int64_t samples,
                       const Values& wanted) {
    const std::int64_t pixels = f.shape[1] * f.shape[2];
    std::vector<float> values;
    for (std::int64_t n = 0; n < samples; ++n) {
        for (std::int64_t c = 0; c < f.shape[0]; ++c) {
            for (std::int64_t p = 0; p < pixels; ++p) {
                values.push_back(got.floats()[place(f, n, c, p)]);
            }
        }
        for (std::int64_t c = f.shape[0]; c % f.block != 0; ++c) {
            for (std::int64_t p = 0; p < pixels; ++p) {
                EXPECT_EQ(got.floats()[place(f, n, c, p)], 0.0F) << "channel that is no channel";
            }
        }
    }
    return error_of(values, wanted);
}

double product_error(const Case& c, ConvDirection direction, VectorLevel level) {
    const bool forward = direction == ConvDirection::kForward;
    const auto conv = make_own_winograd(c.problem, direction, level);
    const std::int64_t samples = c.shape.samples;
    EXPECT_TRUE(conv->prepare(samples));
    const Memory weights(conv->weight_bytes());
    const Memory scratch(conv->scratch_bytes(samples));
    const std::vector<float> bias = in_floats(c.bias);
    conv->prepare_weights(in_floats(c.weights).data(), forward ? bias.data() : nullptr,
                          weights.bytes());
    const TensorFormat& from = forward ? c.problem.input : c.problem.output;
    const TensorFormat& to = forward ? c.problem.output : c.problem.input;
    const Memory source = in_blocks(from, samples, forward ? c.source : c.output_gradient);
    const Memory made(static_cast<std::size_t>(samples) * to.sample_bytes());
    conv->run(samples, weights.bytes(), source.floats(), made.floats(), scratch.bytes());
    return error_of_tensor(made, to, samples, forward ? c.output : c.source_gradient);
}

double weights_error(const Case& c, VectorLevel level) {
    const auto conv = make_own_winograd_gradient(c.problem, level);
    const std::int64_t samples = c.shape.samples;
    const std::int64_t first = samples / 2;  // two slices of one member
    const Memory sums(conv->sum_bytes());
    const Memory source = in_blocks(c.problem.input, samples, c.source);
    const Memory gradient = in_blocks(c.problem.output, samples, c.output_gradient);
    const auto run = [&](std::int64_t begin, std::int64_t end) {
        EXPECT_TRUE(conv->prepare(end - begin));
        const Memory scratch(conv->scratch_bytes(end - begin));
        conv->run(end - begin, source.floats() + begin * c.problem.input.sample_floats(),
                  gradient.floats() + begin * c.problem.output.sample_floats(), begin > 0,
                  sums.bytes(), scratch.bytes());
    };
    if (first > 0) {
        run(0, first);
    }
    run(first, samples);
    std::vector<float> weights(c.weights.size(), std::nanf(""));
    std::vector<float> bias(c.bias.size(), std::nanf(""));
    const Memory memory(conv->finish_bytes());
    conv->finish(sums.bytes(), memory.bytes(), weights.data(), bias.data());
    EXPECT_LE(error_of(bias, c.bias_gradient), 1e-5);
    return error_of(weights, c.weight_gradient);
}

/// Worst errors of forward, data and weights.
using Errors = std::array<double, 3>;

Errors errors_of(const Shape3x3& shape, std::int64_t block, VectorLevel level, unsigned seed) {
    const Case c(shape, block, seed);
    return {product_error(c, ConvDirection::kForward, level),
            product_error(c, ConvDirection::kData, level), weights_error(c, level)};
}

class Winograd : public testing::TestWithParam<VectorLevel> {
protected:
    void SetUp() override {
        if (GetParam() > vector_level()) {
            GTEST_SKIP() << "this processor lacks the instructions";
        }
    }
    /// Channel blocks that these instructions can work on.
    [[nodiscard]] static std::vector<std::int64_t> blocks() {
        return GetParam() == VectorLevel::kAvx512 ? std::vector<std::int64_t>{16}
                                                  : std::vector<std::int64_t>{8, 16};
    }
    static void expect_small(const Shape3x3& shape, unsigned seed) {
        for (const std::int64_t block : blocks()) {
            SCOPED_TRACE(testing::Message() << shape << " in blocks of " << block);
            for (const double error : errors_of(shape, block, GetParam(), seed)) {
                EXPECT_LE(error, kBound);
            }
        }
    }
};

TEST_P(Winograd, MatchesALoopInDoublePrecisionForRandomShapes) {
    std::mt19937 random(7);
    const auto between = [&](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (unsigned seed = 0; seed < 30; ++seed) {
        const int padding = between(0, 2);
        const int smallest = padding == 0 ? 3 : 1;
        expect_small({between(1, 70), between(1, 70), between(smallest, 33), between(smallest, 33),
                      padding, between(1, 4)},
                     seed);
    }
}

TEST_P(Winograd, MatchesALoopForSmallMaps) {
    for (std::int64_t map = 1; map <= 5; ++map) {
        for (int padding = map < 3 ? 1 : 0; padding <= 2; ++padding) {
            expect_small({24, 9, map, map, padding, 9}, 1);
        }
    }
    expect_small({3, 40, 2, 2, 1, 70}, 2);
    expect_small({3, 40, 2, 3, 1, 7}, 2);
}

// More channels than a product sums at once, and more tiles than are transformed at once.
TEST_P(Winograd, MatchesALoopForManyChannelsAndTiles) {
    expect_small({300, 20, 4, 4, 1, 3}, 3);
    expect_small({20, 300, 2, 2, 1, 5}, 3);
    expect_small({8, 8, 70, 3, 1, 9}, 3);
    expect_small({5, 7, 3, 90, 1, 2}, 3);
}

std::string name_of(const testing::TestParamInfo<VectorLevel>& info) {
    constexpr std::array kNames{"Sse", "Avx", "Avx2", "Avx512"};
    return kNames.at(static_cast<std::size_t>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Instructions, Winograd,
                         testing::Values(VectorLevel::kSse, VectorLevel::kAvx, VectorLevel::kAvx2,
                                         VectorLevel::kAvx512),
                         name_of);

}  // namespace
}  // namespace cohort::test
