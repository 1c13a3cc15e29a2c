// Every implementation of a convolution's three directions, against sums in double precision:
// shapes, orders of channels and slice sizes drawn at random. The bound on the error is that of any
// order of summation. Memory that an algorithm is given is full of NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include "cohort/layers/window.hpp"
#include "core/tensor/cpu_team.hpp"
#include "layers/cpu/conv/conv_dnnl.hpp"
#include "layers/cpu/conv/conv_own.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/format_cpu.hpp"

namespace cohort {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
    ConvProblem problem;
    std::int64_t samples = 1;
};

/// A sum in double precision, and what its rounding may add up to.
struct Sum {
    double value = 0;
    double size = 0;
    int terms = 0;

    void add(double a, double b) {
        value += a * b;
        size += std::abs(a * b);
        ++terms;
    }
    [[nodiscard]] double bound() const { return 1.01 * (terms + 2) * 0x1p-24 * size; }
};

/// Calls f(sample, group's output channel, input channel, y, x of the output, y, x of the input,
/// number of the weight) for all products.
template <class F>
void for_products(const Case& c, const F& f) {
    const ConvOptions& o = c.problem.options;
    const Window2d window = window_from(o);
    const Shape& in = c.problem.input.shape;
    const Shape& out = c.problem.output.shape;
    const std::int64_t inputs = in[0] / o.groups;
    const std::int64_t outputs = o.channels / o.groups;
    for (std::int64_t n = 0; n < c.samples; ++n) {
        for (std::int64_t k = 0; k < o.channels; ++k) {
            for (std::int64_t i = 0; i < inputs; ++i) {
                const std::int64_t channel = k / outputs * inputs + i;
                for (std::int64_t y = 0; y < out[1]; ++y) {
                    for (std::int64_t x = 0; x < out[2]; ++x) {
                        for (std::int64_t cell = 0; cell < o.kernel.cells(); ++cell) {
                            const std::int64_t row = y * o.stride.height - window.height.before +
                                                     cell / o.kernel.width * o.dilation.height;
                            const std::int64_t column = x * o.stride.width - window.width.before +
                                                        cell % o.kernel.width * o.dilation.width;
                            if (row >= 0 && row < in[1] && column >= 0 && column < in[2]) {
                                f(n, k, channel, y * out[2] + x, row * in[2] + column,
                                  (k * inputs + i) * o.kernel.cells() + cell);
                            }
                        }
                    }
                }
            }
        }
    }
}

class Tensors {
public:
    Tensors(const Case& c, std::mt19937& random)
        : case_(c),
          weights(static_cast<std::size_t>(c.problem.options.channels * c.problem.input.shape[0] /
                                           c.problem.options.groups *
                                           c.problem.options.kernel.cells())),
          bias(static_cast<std::size_t>(c.problem.options.channels)) {
        std::normal_distribution<float> normal;
        const auto draw = [&](std::vector<float>& values) {
            for (float& value : values) {
                value = normal(random);
            }
        };
        draw(weights);
        draw(bias);
        source = tensor(c.problem.input, draw);
        gradient = tensor(c.problem.output, draw);
    }

    [[nodiscard]] static std::size_t at(const TensorFormat& format, std::int64_t n,
                                        std::int64_t channel, std::int64_t pixel) {
        return static_cast<std::size_t>(
            n * format.sample_floats() +
            element_offset(format, extent_of(format).pixels, channel, pixel));
    }
    [[nodiscard]] std::vector<float> room(const TensorFormat& format) const {
        return std::vector<float>(static_cast<std::size_t>(case_.samples * format.sample_floats()),
                                  kNan);
    }

private:
    template <class Draw>
    std::vector<float> tensor(const TensorFormat& format, const Draw& draw) const {
        const TensorFormat plain{format.shape, 1};
        std::vector<float> drawn(static_cast<std::size_t>(case_.samples * plain.sample_floats()));
        draw(drawn);
        std::vector<float> made = room(format);
        convert_format(plain, drawn.data(), format, made.data(), case_.samples);
        return made;
    }
    const Case& case_;

public:
    std::vector<float> weights;
    std::vector<float> bias;
    std::vector<float> source;
    std::vector<float> gradient;
};

/// Memory at a cache line, full of NaN, with some more behind it that nothing may touch.
class Memory {
public:
    Memory(Device& device, std::size_t bytes)
        : buffer_(device.allocate(bytes + kMore * sizeof(float))), floats_(bytes / sizeof(float)) {
        std::fill_n(buffer_.floats(), floats_ + kMore, kNan);
    }
    [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(buffer_.data()); }
    [[nodiscard]] bool kept_within() const {
        const float* more = buffer_.floats() + floats_;
        return std::all_of(more, more + kMore, [](float v) { return std::isnan(v); });
    }

private:
    static constexpr std::size_t kMore = 16;
    Buffer buffer_;
    std::size_t floats_;
};

void expect_tensor(const Case& c, const TensorFormat& format, const std::vector<float>& got,
                   const std::vector<Sum>& wanted) {
    const std::int64_t pixels = extent_of(format).pixels;
    const std::int64_t channels = format.shape[0];
    for (std::int64_t n = 0; n < c.samples; ++n) {
        for (std::int64_t k = 0; k < stored_channels(format); ++k) {
            for (std::int64_t p = 0; p < pixels; ++p) {
                const double value = got[Tensors::at(format, n, k, p)];
                if (k >= channels) {
                    ASSERT_EQ(value, 0) << "padding channel " << k << ", pixel " << p;
                    continue;
                }
                const Sum& sum = wanted[static_cast<std::size_t>((n * channels + k) * pixels + p)];
                ASSERT_NEAR(value, sum.value, sum.bound())
                    << "sample " << n << ", channel " << k << ", pixel " << p;
            }
        }
    }
}

void check_product(const Case& c, ConvProduct& algorithm, bool forward, Device& device,
                   std::mt19937& random) {
    if (!algorithm.prepare(c.samples)) {
        return;
    }
    SCOPED_TRACE(algorithm.name());
    const Tensors tensors(c, random);
    const TensorFormat& target = forward ? c.problem.output : c.problem.input;
    const std::int64_t pixels = extent_of(target).pixels;
    std::vector<Sum> wanted(static_cast<std::size_t>(c.samples * target.shape[0] * pixels));
    for_products(c, [&](std::int64_t n, std::int64_t k, std::int64_t i, std::int64_t out,
                        std::int64_t in, std::int64_t weight) {
        const std::int64_t index = forward ? (n * target.shape[0] + k) * pixels + out
                                           : (n * target.shape[0] + i) * pixels + in;
        const double factor = forward ? tensors.source[Tensors::at(c.problem.input, n, i, in)]
                                      : tensors.gradient[Tensors::at(c.problem.output, n, k, out)];
        wanted[static_cast<std::size_t>(index)].add(
            factor, tensors.weights[static_cast<std::size_t>(weight)]);
    });
    const bool has_bias = forward && c.problem.options.bias;
    for (std::size_t i = 0; has_bias && i < wanted.size(); ++i) {
        wanted[i].add(tensors.bias[i / static_cast<std::size_t>(pixels) % tensors.bias.size()], 1);
    }
    const Memory prepared(device, algorithm.weight_bytes());
    const Memory scratch(device, algorithm.scratch_bytes(c.samples));
    algorithm.prepare_weights(tensors.weights.data(), has_bias ? tensors.bias.data() : nullptr,
                              prepared.bytes());
    std::vector<float> got = tensors.room(target);
    const std::vector<float>& from = forward ? tensors.source : tensors.gradient;
    algorithm.run(c.samples, prepared.bytes(), from.data(), got.data(), scratch.bytes());
    expect_tensor(c, target, got, wanted);
    EXPECT_TRUE(prepared.kept_within());
    EXPECT_TRUE(scratch.kept_within());
}

void check_gradient(const Case& c, ConvWeightGradient& algorithm, Device& device,
                    std::mt19937& random) {
    if (!algorithm.prepare(c.samples)) {
        return;
    }
    SCOPED_TRACE(algorithm.name());
    const bool has_bias = c.problem.options.bias;
    const Tensors first(c, random);
    std::vector<Sum> weights(first.weights.size());
    std::vector<Sum> bias(first.bias.size());
    const Memory sums(device, algorithm.sum_bytes());
    const Memory scratch(device, algorithm.scratch_bytes(c.samples));
    const std::int64_t pixels = extent_of(c.problem.output).pixels;
    for (const bool adds : {false, true}) {
        const Tensors tensors(c, random);
        for_products(c, [&](std::int64_t n, std::int64_t k, std::int64_t i, std::int64_t out,
                            std::int64_t in, std::int64_t weight) {
            weights[static_cast<std::size_t>(weight)].add(
                tensors.source[Tensors::at(c.problem.input, n, i, in)],
                tensors.gradient[Tensors::at(c.problem.output, n, k, out)]);
        });
        for (std::int64_t i = 0; i < c.samples * c.problem.options.channels * pixels; ++i) {
            const std::int64_t k = i / pixels % c.problem.options.channels;
            bias[static_cast<std::size_t>(k)].add(
                tensors.gradient[Tensors::at(
                    c.problem.output, i / pixels / c.problem.options.channels, k, i % pixels)],
                1);
        }
        algorithm.run(c.samples, tensors.source.data(), tensors.gradient.data(), adds, sums.bytes(),
                      scratch.bytes());
    }
    const Memory rest(device, algorithm.finish_bytes());
    std::vector<float> got(weights.size(), kNan);
    std::vector<float> got_bias(bias.size(), kNan);
    algorithm.finish(sums.bytes(), rest.bytes(), got.data(), has_bias ? got_bias.data() : nullptr);
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], weights[i].value, weights[i].bound()) << "weight " << i;
    }
    for (std::size_t i = 0; has_bias && i < got_bias.size(); ++i) {
        ASSERT_NEAR(got_bias[i], bias[i].value, bias[i].bound()) << "bias " << i;
    }
    EXPECT_TRUE(sums.kept_within());
    EXPECT_TRUE(scratch.kept_within());
    EXPECT_TRUE(rest.kept_within());
}

/// Of any kernel, stride, dilation, padding and number of groups; now and then depthwise, or of
/// kernels of one cell.
Case draw_case(std::mt19937& random, ThreadTeam& team) {
    const auto from = [&](std::int64_t least, std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    const auto often_one = [&](std::int64_t most) { return from(0, 2) > 0 ? 1 : from(1, most); };
    for (;;) {
        Case c{.samples = from(1, 5)};
        ConvOptions& o = c.problem.options;
        o.kernel = from(0, 3) == 0 ? PerAxis(1) : PerAxis(from(1, 5), from(1, 5));
        o.stride = {often_one(3), often_one(3)};
        o.dilation = {often_one(3), often_one(3)};
        o.padding = {from(0, 3), from(0, 3), from(0, 3), from(0, 3)};
        if (from(0, 3) == 0) {
            o.padding = 0;
        }
        o.bias = from(0, 1) == 1;
        o.groups = often_one(6);
        const bool depthwise = from(0, 4) == 0;
        const std::int64_t inputs = depthwise ? 1 : from(1, o.groups > 1 ? 6 : 33);
        const std::int64_t outputs = depthwise ? 1 : from(1, o.groups > 1 ? 6 : 33);
        o.groups = depthwise ? from(2, 33) : o.groups;
        o.channels = o.groups * outputs;
        const Shape x{o.groups * inputs, from(1, 12), from(1, 12)};
        const Window2d window = window_from(o);
        const std::int64_t height = window.height.outputs(x[1]);
        const std::int64_t width = window.width.outputs(x[2]);
        if (height < 1 || width < 1) {
            continue;
        }
        const auto block = [&](std::int64_t channels) {
            const std::int64_t blocks[] = {1, 8, 16, std::max<std::int64_t>(channels, 2)};
            return blocks[from(0, 3)];
        };
        c.problem.input = {x, block(x[0])};
        c.problem.output = {Shape{o.channels, height, width}, block(o.channels)};
        c.problem.team = &team;
        return c;
    }
}

std::string describe_case(const Case& c) {
    const ConvOptions& o = c.problem.options;
    std::ostringstream text;
    text << c.samples << " x " << to_string(c.problem.input.shape) << " block "
         << c.problem.input.block << " -> " << to_string(c.problem.output.shape) << " block "
         << c.problem.output.block << ", kernel " << to_string(o.kernel) << ", stride "
         << to_string(o.stride) << ", dilation " << to_string(o.dilation) << ", padding "
         << to_string(o.padding) << ", groups " << o.groups << ", bias " << o.bias;
    return text.str();
}

TEST(ConvAlgorithms, OurOwnMatchDoublePrecision) {
    const auto device = make_cpu_device(2);
    std::mt19937 random(1);
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
        const Case c = draw_case(random, cpu_team(*device));
        SCOPED_TRACE("case " + std::to_string(i) + ": " + describe_case(c));
        check_product(c, *make_own_conv(c.problem, ConvDirection::kForward), true, *device, random);
        check_product(c, *make_own_conv(c.problem, ConvDirection::kData), false, *device, random);
        check_gradient(c, *make_own_conv_gradient(c.problem), *device, random);
    }
}

// Maps that take several chunks of rows, and channels that take several panels.
TEST(ConvAlgorithms, OurOwnMatchOnLargeMaps) {
    const auto device = make_cpu_device(2);
    std::mt19937 random(2);
    for (const std::int64_t stride : {1, 2}) {
        for (const std::int64_t block : {1, 8}) {
            const std::int64_t extent = (45 - 1) / stride + 1;
            const Case c{.problem = {.options = {.channels = 19, .stride = stride, .padding = 1},
                                     .input = {Shape{35, 45, 45}, block},
                                     .output = {Shape{19, extent, extent}, block},
                                     .team = &cpu_team(*device)},
                         .samples = 2};
            SCOPED_TRACE(describe_case(c));
            check_product(c, *make_own_conv(c.problem, ConvDirection::kForward), true, *device,
                          random);
            check_product(c, *make_own_conv(c.problem, ConvDirection::kData), false, *device,
                          random);
            check_gradient(c, *make_own_conv_gradient(c.problem), *device, random);
        }
    }
}

// oneDNN's, in the order of channels that it likes here, where it has any that is not a reference.
TEST(ConvAlgorithms, DnnlMatchesDoublePrecision) {
    const auto device = make_cpu_device(2);
    std::mt19937 random(3);
    for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i) {
        Case c = draw_case(random, cpu_team(*device));
        c.problem.input.block = preferred_channel_block();
        c.problem.output.block = preferred_channel_block();
        SCOPED_TRACE("case " + std::to_string(i) + ": " + describe_case(c));
        const auto forward =
            make_dnnl_conv(c.problem, ConvDirection::kForward, DnnlConvKind::kDirect);
        const auto data = make_dnnl_conv(c.problem, ConvDirection::kData, DnnlConvKind::kDirect);
        const auto weights = make_dnnl_conv_gradient(c.problem, DnnlConvKind::kDirect);
        for (ConvAlgorithm* algorithm :
             std::initializer_list<ConvAlgorithm*>{forward.get(), data.get(), weights.get()}) {
            if (algorithm->prepare(c.samples)) {
                EXPECT_EQ(algorithm->name().find("ref"), std::string::npos);
            }
        }
        check_product(c, *forward, true, *device, random);
        check_product(c, *data, false, *device, random);
        check_gradient(c, *weights, *device, random);
    }
}

}  // namespace
}  // namespace cohort
