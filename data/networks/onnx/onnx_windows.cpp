// Convolutions and poolings of ONNX files (https://onnx.ai/onnx/operators). Paddings that a file
// leaves to the shape of the input (auto_pad, ceil_mode) become numbers, as that shape is known.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "cohort/core/error.hpp"
#include "data/networks/onnx/onnx_builder.hpp"

namespace cohort {
namespace {

using Extents = std::vector<std::int64_t>;

/// Numbers of a window from `least` on, which the arithmetic below takes.
void require_numbers(const char* what, const Extents& numbers, std::size_t count,
                     std::int64_t least) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    const bool good = numbers.size() == count && std::ranges::all_of(numbers, [&](auto number) {
                          return number >= least && number <= kMost;
                      });
    if (!good) {
        throw OnnxRefusal{fmt::format("{} {}; {} numbers from {} on are expected", what,
                                      fmt::join(numbers, ","), count, least)};
    }
}

PerAxis per_axis(const char* what, const Extents& numbers) {
    require_numbers(what, numbers, 2, 1);
    return {numbers[0], numbers[1]};
}

/// Padding along one axis so that there is an output for every `stride` cells. @param more_before
/// an odd cell comes before the image, else after it
void pad_to_same(WindowAxis& axis, std::int64_t extent, bool more_before) {
    const std::int64_t outputs = (extent + axis.stride - 1) / axis.stride;
    const std::int64_t missing =
        std::max<std::int64_t>((outputs - 1) * axis.stride + axis.reach() - extent, 0);
    axis.before = (missing + (more_before ? 1 : 0)) / 2;
    axis.after = missing - axis.before;
}

/// Reads strides, dilations and paddings. @param options  with the kernel
template <class Options>
void read_window(const onnx::Node& node, const Shape& input, Options& options) {
    options.stride = per_axis("strides", attribute_ints(node, "strides", {1, 1}));
    options.dilation = per_axis("dilations", attribute_ints(node, "dilations", {1, 1}));
    const std::string automatic = attribute_text(node, "auto_pad");
    if (automatic.empty() || automatic == "NOTSET") {
        const Extents pads = attribute_ints(node, "pads", {0, 0, 0, 0});
        require_numbers("pads", pads, 4, 0);
        options.padding = {pads[0], pads[1], pads[2], pads[3]};
    } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
        Window2d window = window_from(options);
        pad_to_same(window.height, input[1], automatic == "SAME_LOWER");
        pad_to_same(window.width, input[2], automatic == "SAME_LOWER");
        options.padding = {window.height.before, window.width.before, window.height.after,
                           window.width.after};
    } else if (automatic != "VALID") {
        throw OnnxRefusal{fmt::format(
            "auto_pad {}; NOTSET, SAME_UPPER, SAME_LOWER or VALID are expected", automatic)};
    }
}

/// Cells that ceil_mode adds after the padding for one more window, which must begin before them.
std::int64_t cells_beyond(const WindowAxis& axis, std::int64_t extent) {
    const std::int64_t outputs = axis.outputs(extent);
    const std::int64_t start = outputs * axis.stride - axis.before;  // of one more window
    const std::int64_t end = start + axis.reach();
    const std::int64_t covered = extent + axis.after;
    const bool left_over = (outputs - 1) * axis.stride - axis.before + axis.reach() < covered;
    return outputs > 0 && left_over && start < extent ? end - covered : 0;
}

PoolOptions pool_options(const onnx::Node& node, const Shape& input) {
    require_onnx_image(input);
    PoolOptions options{.kernel = per_axis("kernel_shape", attribute_ints(node, "kernel_shape"))};
    read_window(node, input, options);
    options.count_padding = attribute(node, "count_include_pad", 0) != 0 && !options.padding.none();
    if (attribute(node, "ceil_mode", 0) == 0 ||
        attribute_text(node, "auto_pad").starts_with("SAME")) {
        return options;
    }
    const Window2d window = window_from(options);
    const std::int64_t below = cells_beyond(window.height, input[1]);
    const std::int64_t right = cells_beyond(window.width, input[2]);
    if (options.count_padding && (below > 0 || right > 0)) {
        throw OnnxRefusal{fmt::format(
            "a mean that counts the padding, but not what its last windows reach beyond it on an "
            "input {}; ceil_mode=False, or count_include_pad=False",
            to_string(input))};
    }
    options.padding.bottom += below;
    options.padding.right += right;
    return options;
}

}  // namespace

void require_onnx_image(const Shape& shape) {
    if (shape.rank() != 3) {
        throw OnnxRefusal{"an image [C,H,W] is expected, not " + to_string(shape)};
    }
}

void add_onnx_conv(OnnxBuilder& to, const onnx::Node& node) {
    const OnnxTensor& weight = to.weight(node, 1);
    const Value x = to.input(node);
    if (weight.shape.size() != 4) {
        throw OnnxRefusal{"a convolution over other axes than height and width"};
    }
    require_onnx_image(to.shape(x));
    ConvOptions options{.channels = weight.shape[0]};
    options.kernel = per_axis("kernel", {weight.shape[2], weight.shape[3]});
    read_window(node, to.shape(x), options);
    options.groups = attribute(node, "group", 1);
    const std::optional<OnnxTensor> bias = onnx_bias(to, node, 2, options.channels);
    options.bias = bias.has_value();
    to.set_output(
        node,
        {to.add_layer(make_conv(options), x, node, weight,
                      {{"weight", &weight.floats}, {"bias", bias ? &bias->floats : nullptr}})});
}

void add_onnx_max_pool(OnnxBuilder& to, const onnx::Node& node) {
    const Value x = to.input(node);
    to.set_output(node, {to.net().max_pool(x, pool_options(node, to.shape(x)))});
}

void add_onnx_average_pool(OnnxBuilder& to, const onnx::Node& node) {
    const Value x = to.input(node);
    to.set_output(node, {to.net().average_pool(x, pool_options(node, to.shape(x)))});
}

void add_onnx_global_pool(OnnxBuilder& to, const onnx::Node& node) {
    const Value x = to.input(node);
    require_onnx_image(to.shape(x));
    to.set_output(node, {to.net().global_average_pool(x)});
}

/// A mean over height and width.
void add_onnx_reduce_mean(OnnxBuilder& to, const onnx::Node& node) {
    const Value x = to.input(node);
    require_onnx_image(to.shape(x));
    const OnnxTensor* given = to.constant(node, 1);
    Extents axes = given != nullptr ? given->ints : attribute_ints(node, "axes");
    for (std::int64_t& axis : axes) {
        axis = onnx_axis(axis, 4);
    }
    std::ranges::sort(axes);
    if (axes != Extents{2, 3}) {
        throw OnnxRefusal{"a mean over other axes than height and width"};
    }
    const Value mean = to.net().global_average_pool(x);
    to.set_output(node, {attribute(node, "keepdims", 1) != 0 ? mean : to.net().flatten(mean)});
}

}  // namespace cohort
