// 2-D convolution: shapes and parameters. The kernels are in conv_cpu.cpp and cuda/conv.cpp.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

void check_options(const ConvOptions& o) {
    if (o.channels < 1 || o.kernel < 1 || o.stride < 1 || o.padding < 0 || o.dilation < 1 ||
        o.groups < 1) {
        fail<ShapeError>({.where = "conv",
                          .what = "unusable options",
                          .expected = "channels, kernel, stride, dilation, groups >= 1 and "
                                      "padding >= 0"});
    }
}

class Conv final : public SpecLayer<ConvSpec> {
public:
    explicit Conv(const ConvSpec& spec) : SpecLayer(spec) { check_options(spec.options); }

    [[nodiscard]] std::string_view kind() const override {
        return spec_.relu ? "conv+relu" : "conv";
    }

    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const Shape& x = only_input("conv", inputs, 3);
        const ConvOptions& o = spec_.options;
        if (x[0] % o.groups != 0 || o.channels % o.groups != 0) {
            fail<ShapeError>(
                {.where = "conv",
                 .what = "channels are not divisible by groups",
                 .expected = "multiples of " + std::to_string(o.groups),
                 .got = std::to_string(x[0]) + " in, " + std::to_string(o.channels) + " out"});
        }
        const auto [height, width] = conv_extents(o, x);
        if (height < 1 || width < 1) {
            fail<ShapeError>(
                {.where = "conv",
                 .what = "kernel does not fit into the input",
                 .expected = "height and width of at least " +
                             std::to_string(o.dilation * (o.kernel - 1) + 1 - 2 * o.padding),
                 .got = to_string(x)});
        }
        return {o.channels, height, width};
    }

    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const ConvOptions& o = spec_.options;
        std::vector<TensorSpec> specs{
            {"weight", Shape{o.channels, inputs[0][0] / o.groups, o.kernel, o.kernel},
             Initialisation::kHeNormal, true}};
        if (o.bias) {
            specs.push_back({"bias", Shape{o.channels}, Initialisation::kZero, false});
        }
        return specs;
    }

    [[nodiscard]] double forward_flops(std::span<const Shape> inputs) const override {
        const ConvOptions& o = spec_.options;
        const std::int64_t products = inputs[0][0] / o.groups * o.kernel * o.kernel;
        return 2.0 * static_cast<double>(infer(inputs).elements()) * static_cast<double>(products);
    }

    [[nodiscard]] std::shared_ptr<const Layer> with_relu() const override {
        return spec_.relu ? nullptr : std::make_shared<Conv>(ConvSpec{spec_.options, true});
    }
};

}  // namespace

ConvExtents conv_extents(const ConvOptions& options, const Shape& input) {
    const auto extent = [&](std::int64_t in) {
        const std::int64_t reach = options.dilation * (options.kernel - 1) + 1;
        const std::int64_t room = in + 2 * options.padding - reach;
        return room < 0 ? 0 : room / options.stride + 1;
    };
    return {extent(input[1]), extent(input[2])};
}

std::shared_ptr<const Layer> make_conv(const ConvOptions& options) {
    return std::make_shared<Conv>(ConvSpec{options, false});
}

}  // namespace cohort
