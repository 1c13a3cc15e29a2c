// A slice's tiles are handled in groups that are small enough for transformed tiles to stay in the
// second-level cache: transform, one product over channels for every point, transform back. The
// outputs of a product come in panels of channels, so that they are transformed back while they
// are in the first-level cache or near it.
#include "layers/cpu/conv/winograd_conv.hpp"

#include <algorithm>
#include <vector>

#include "layers/cpu/conv/winograd_kernels.hpp"
#include "layers/cpu/elements.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kTaps = 9;

std::int64_t whole(std::int64_t count, std::int64_t of) {
    return (count + of - 1) / of * of;
}
std::size_t float_bytes(std::int64_t floats) {
    return padded(static_cast<std::size_t>(floats) * sizeof(float));
}
float* floats_at(std::byte* memory) {
    return reinterpret_cast<float*>(memory);
}

/// Floats between points: one cache line more than a multiple of what one way of the first-level
/// cache holds, so that the points of a tile lie in different sets.
std::int64_t point_stride(std::int64_t floats) {
    constexpr std::int64_t kWay = 1024;
    constexpr std::int64_t kLine = 16;
    return floats <= kLine ? kLine : whole(floats - kLine, kWay) + kLine;
}

/// [panels, points, rows, width] one after the other.
class OperandLayout {
public:
    OperandLayout(std::int64_t panels, std::int64_t points, std::int64_t rows, std::int64_t width)
        : panels_(panels),
          width_(width),
          point_stride_(point_stride(rows * width)),
          panel_stride_(points * point_stride_) {}

    [[nodiscard]] std::size_t bytes() const { return float_bytes(panels_ * panel_stride_); }
    [[nodiscard]] WinogradOperand at(float* data, std::int64_t panel = 0) const {
        return {.data = data + panel * panel_stride_,
                .width = width_,
                .point_stride = point_stride_,
                .panel_stride = panel_stride_};
    }
    [[nodiscard]] WinogradOperand at(std::byte* data, std::int64_t panel = 0) const {
        return at(floats_at(data), panel);
    }

private:
    std::int64_t panels_;
    std::int64_t width_;
    std::int64_t point_stride_;
    std::int64_t panel_stride_;
};

/// A row of zeros is shared by all images.
WinogradImage image_of(const TensorFormat& format, const std::vector<float>& zeros) {
    return {.height = format.shape[1],
            .width = format.shape[2],
            .channels = whole(format.shape[0], format.block),
            .block = format.block,
            .zeros = zeros.data()};
}
std::vector<float> zero_row(const ConvProblem& problem) {
    const auto row = [](const TensorFormat& format) { return format.shape[2] * format.block; };
    return std::vector<float>(
        static_cast<std::size_t>(std::max(row(problem.input), row(problem.output))));
}

WinogradTile tile_for(const ConvProblem& problem) {
    const Shape& x = problem.input.shape;
    return x[1] == 2 && x[2] == 2 && problem.options.padding == 1 ? WinogradTile::kMap2
                                                                  : WinogradTile::kF4;
}

/// Tiles of the tensor that is made, all of a slice.
WinogradTiles tiles_of(const WinogradKernels& kernels, const Shape& made, std::int64_t padding,
                       std::int64_t samples) {
    const std::int64_t rows = (made[1] + kernels.output - 1) / kernels.output;
    const std::int64_t columns = (made[2] + kernels.output - 1) / kernels.output;
    const bool whole_map = kernels.points == 9;
    return {.rows = rows,
            .columns = columns,
            .first = 0,
            .count = samples * rows * columns,
            .offset = whole_map ? 0 : -padding};
}

/// f(tiles of a group) for groups of at most `largest` tiles.
template <class F>
void for_groups(WinogradTiles tiles, std::int64_t largest, F&& f) {
    const std::int64_t all = tiles.count;
    for (std::int64_t first = 0; first < all; first += largest) {
        tiles.first = first;
        tiles.count = std::min(largest, all - first);
        f(tiles);
    }
}

/// f(panel) by the members of the team, or by the caller where there is none.
template <class F>
void for_panels(ThreadTeam* team, std::int64_t panels, F&& f) {
    const auto part = [&](int member, int size) {
        const auto [first, last] = part_of(panels, member, size);
        for (std::int64_t panel = first; panel < last; ++panel) {
            f(panel);
        }
    };
    if (team == nullptr) {
        part(0, 1);
    } else {
        team->run([&](int member) { part(member, team->size()); });
    }
}

class WinogradConv final : public ConvProduct {
public:
    WinogradConv(const ConvProblem& problem, ConvDirection direction, VectorLevel level)
        : problem_(problem),
          kernels_(winograd_kernels(tile_for(problem), level)),
          forward_(direction == ConvDirection::kForward),
          zeros_(zero_row(problem)),
          from_(image_of(forward_ ? problem.input : problem.output, zeros_)),
          to_(image_of(forward_ ? problem.output : problem.input, zeros_)),
          made_(forward_ ? problem.output.shape : problem.input.shape),
          panels_((to_.channels + kernels_.panel - 1) / kernels_.panel) {
        const std::int64_t inputs = problem.input.shape[0];
        const std::int64_t outputs = problem.options.channels;
        weights_ = {.inputs = forward_ ? inputs : outputs,
                    .outputs = forward_ ? outputs : inputs,
                    .input_stride = forward_ ? kTaps : inputs * kTaps,
                    .output_stride = forward_ ? inputs * kTaps : kTaps,
                    .turned = !forward_};
        // Tiles for which the transformed source and a panel of products fill half of the
        // second-level cache, and enough of them to pay for reading the weights once more.
        constexpr std::int64_t kCacheFloats = std::int64_t{64} << 10;
        constexpr std::int64_t kFewest = 48;
        const std::int64_t tile_floats = kernels_.points * (from_.channels + kernels_.panel);
        group_ = whole(std::max(kCacheFloats / tile_floats, kFewest), kernels_.rows);
    }

    [[nodiscard]] std::string name() const override { return "own:winograd"; }
    [[nodiscard]] bool prepare(std::int64_t /*samples*/) override { return true; }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        const std::int64_t tiles = group(samples);
        return source_layout(tiles).bytes() + product_layout(tiles).bytes();
    }
    [[nodiscard]] std::size_t weight_bytes() const override {
        return weight_layout().bytes() + float_bytes(to_.channels);
    }

    void prepare_weights(const float* weights, const float* bias,
                         std::byte* prepared) const override {
        for_panels(problem_.team, panels_, [&](std::int64_t panel) {
            kernels_.weights(weights_, panel * kernels_.panel, weights,
                             weight_layout().at(prepared, panel));
        });
        float* to = floats_at(prepared + weight_layout().bytes());
        std::fill_n(to, to_.channels, 0.0F);
        if (bias != nullptr) {
            std::copy_n(bias, weights_.outputs, to);
        }
    }

    void run(std::int64_t samples, const std::byte* prepared, const float* from, float* to,
             std::byte* scratch) const override {
        auto* memory = const_cast<std::byte*>(prepared);
        const std::int64_t most = group(samples);
        const WinogradOperand source = source_layout(most).at(scratch);
        const WinogradOperand products =
            product_layout(most).at(scratch + source_layout(most).bytes());
        const float* bias = forward_ && problem_.options.bias
                                ? floats_at(memory + weight_layout().bytes())
                                : nullptr;
        for_groups(all_tiles(samples), most, [&](const WinogradTiles& tiles) {
            kernels_.source(from_, tiles, from, source);
            for (std::int64_t panel = 0; panel < panels_; ++panel) {
                multiply(panel, tiles.count, source, weight_layout().at(memory, panel), products);
                kernels_.make_output(to_, tiles, products, panel * kernels_.panel, bias, to);
            }
        });
    }

private:
    /// A product over all channels of the source, in parts whose weights leave room for tiles in
    /// the first-level cache.
    void multiply(std::int64_t panel, std::int64_t tiles, const WinogradOperand& source,
                  const WinogradOperand& weights, const WinogradOperand& to) const {
        constexpr std::int64_t kDeepest = 256;
        const std::int64_t lanes = kernels_.panel / 2;
        const std::int64_t left = to_.channels - panel * kernels_.panel;
        WinogradProduct product{
            .rows = tiles, .a_stride = source.width, .vectors = left > lanes ? 2 : 1};
        for (std::int64_t point = 0; point < kernels_.points; ++point) {
            for (std::int64_t first = 0; first < weights_.inputs; first += kDeepest) {
                product.depth = std::min(kDeepest, weights_.inputs - first);
                product.adds = first > 0;
                kernels_.product(
                    product, source.data + point * source.point_stride + first,
                    weights.data + point * weights.point_stride + first * kernels_.panel,
                    to.data + point * to.point_stride);
            }
        }
    }

    [[nodiscard]] WinogradTiles all_tiles(std::int64_t samples) const {
        const std::int64_t padding = problem_.options.padding.top;
        return tiles_of(kernels_, made_, forward_ ? padding : 2 - padding, samples);
    }
    [[nodiscard]] std::int64_t group(std::int64_t samples) const {
        return std::min(group_, all_tiles(samples).count);
    }
    [[nodiscard]] OperandLayout source_layout(std::int64_t tiles) const {
        return {1, kernels_.points, tiles, from_.channels};
    }
    [[nodiscard]] OperandLayout product_layout(std::int64_t tiles) const {
        return {1, kernels_.points, tiles, kernels_.panel};
    }
    [[nodiscard]] OperandLayout weight_layout() const {
        return {panels_, kernels_.points, weights_.inputs, kernels_.panel};
    }

    ConvProblem problem_;
    const WinogradKernels& kernels_;
    bool forward_;
    std::vector<float> zeros_;
    WinogradImage from_;
    WinogradImage to_;
    Shape made_;
    std::int64_t panels_;
    WinogradWeights weights_;
    std::int64_t group_ = 0;  ///< tiles
};

class WinogradGradient final : public ConvWeightGradient {
public:
    WinogradGradient(const ConvProblem& problem, VectorLevel level)
        : problem_(problem),
          kernels_(winograd_kernels(tile_for(problem), level)),
          zeros_(zero_row(problem)),
          source_(image_of(problem.input, zeros_)),
          gradient_(image_of(problem.output, zeros_)),
          inputs_(problem.input.shape[0]),
          panels_((gradient_.channels + kernels_.panel - 1) / kernels_.panel) {
        constexpr std::int64_t kCacheFloats = std::int64_t{96} << 10;
        constexpr std::int64_t kFewest = 64;
        const std::int64_t tile_floats = kernels_.points * (source_.channels + gradient_.channels);
        group_ = std::max(kCacheFloats / tile_floats, kFewest);
    }

    [[nodiscard]] std::string name() const override { return "own:winograd"; }
    [[nodiscard]] bool prepare(std::int64_t /*samples*/) override { return true; }
    [[nodiscard]] std::size_t scratch_bytes(std::int64_t samples) const override {
        const std::int64_t tiles = group(samples);
        return source_layout(tiles).bytes() + gradient_layout(tiles).bytes() +
               product_layout(samples).bytes();
    }
    [[nodiscard]] std::size_t sum_bytes() const override {
        return panel_bytes() * static_cast<std::size_t>(panels_) + float_bytes(gradient_.channels);
    }
    [[nodiscard]] std::size_t finish_bytes() const override { return 0; }

    void run(std::int64_t samples, const float* source, const float* output_gradient, bool adds,
             std::byte* sums, std::byte* scratch) const override {
        const std::int64_t most = group(samples);
        const OperandLayout layout = gradient_layout(most);
        const WinogradOperand sources = source_layout(most).at(scratch);
        std::byte* gradients = scratch + source_layout(most).bytes();
        std::byte* products = gradients + layout.bytes();
        float* bias_sums = nullptr;
        if (problem_.options.bias) {
            bias_sums = floats_at(bias_of(sums));
            if (!adds) {
                std::fill_n(bias_sums, gradient_.channels, 0.0F);
            }
        }
        const WinogradTiles all = all_tiles(samples);
        for_groups(all, most, [&](const WinogradTiles& tiles) {
            const bool last = tiles.first + tiles.count == all.count;
            kernels_.source(source_, tiles, source, sources);
            WinogradTiles made = tiles;
            made.offset = 0;
            kernels_.gradient(gradient_, made, output_gradient, layout.at(gradients), bias_sums);
            for (std::int64_t panel = 0; panel < panels_; ++panel) {
                const WinogradOperand to =
                    product_layout(samples).at(products, most < all.count ? panel : 0);
                multiply(panel, tiles, sources, layout.at(gradients, panel), to);
                if (last) {
                    kernels_.weight_gradient(inputs_, to, adds, panel_of(sums, panel));
                }
            }
        });
    }

    void finish(const std::byte* sums, std::byte* /*memory*/, float* weights,
                float* bias) const override {
        auto* memory = const_cast<std::byte*>(sums);
        const std::int64_t outputs = problem_.options.channels;
        const std::int64_t row = inputs_ * kTaps;
        for_panels(problem_.team, panels_, [&](std::int64_t panel) {
            const std::int64_t first = panel * kernels_.panel;
            const std::int64_t there = std::min(kernels_.panel, outputs - first);
            const float* from = panel_of(memory, panel);
            for (std::int64_t i = 0; i < row; ++i, from += kernels_.panel) {
                for (std::int64_t o = 0; o < there; ++o) {
                    weights[(first + o) * row + i] = from[o];
                }
            }
        });
        if (bias != nullptr) {
            std::copy_n(floats_at(bias_of(memory)), outputs, bias);
        }
    }

private:
    void multiply(std::int64_t panel, const WinogradTiles& tiles, const WinogradOperand& source,
                  const WinogradOperand& gradient, const WinogradOperand& to) const {
        const std::int64_t left = gradient_.channels - panel * kernels_.panel;
        const WinogradProduct product{.rows = inputs_,
                                      .depth = tiles.count,
                                      .a_stride = source.width,
                                      .vectors = left > kernels_.panel / 2 ? 2 : 1,
                                      .adds = tiles.first > 0};
        for (std::int64_t point = 0; point < kernels_.points; ++point) {
            kernels_.transposed_product(product, source.data + point * source.point_stride,
                                        gradient.data + point * gradient.point_stride,
                                        to.data + point * to.point_stride);
        }
    }

    [[nodiscard]] std::size_t panel_bytes() const {
        return float_bytes(inputs_ * kTaps * kernels_.panel);
    }
    [[nodiscard]] float* panel_of(std::byte* sums, std::int64_t panel) const {
        return floats_at(sums + panel_bytes() * static_cast<std::size_t>(panel));
    }
    [[nodiscard]] std::byte* bias_of(std::byte* sums) const {
        return sums + panel_bytes() * static_cast<std::size_t>(panels_);
    }
    [[nodiscard]] WinogradTiles all_tiles(std::int64_t samples) const {
        return tiles_of(kernels_, problem_.output.shape, problem_.options.padding.top, samples);
    }
    [[nodiscard]] std::int64_t group(std::int64_t samples) const {
        return std::min(group_, all_tiles(samples).count);
    }
    [[nodiscard]] OperandLayout source_layout(std::int64_t tiles) const {
        return {1, kernels_.points, tiles, source_.channels};
    }
    [[nodiscard]] OperandLayout gradient_layout(std::int64_t tiles) const {
        return {panels_, kernels_.points, tiles, kernels_.panel};
    }
    /// One panel after the other where all tiles are one group.
    [[nodiscard]] OperandLayout product_layout(std::int64_t samples) const {
        const bool one_group = all_tiles(samples).count <= group_;
        return {one_group ? 1 : panels_, kernels_.points, inputs_, kernels_.panel};
    }

    ConvProblem problem_;
    const WinogradKernels& kernels_;
    std::vector<float> zeros_;
    WinogradImage source_;
    WinogradImage gradient_;
    std::int64_t inputs_;
    std::int64_t panels_;
    std::int64_t group_ = 0;  ///< tiles
};

}  // namespace

bool own_winograd_possible(const ConvProblem& problem, VectorLevel level) {
    const ConvOptions& o = problem.options;
    const std::int64_t lanes = winograd_kernels(WinogradTile::kF4, level).panel / 2;
    const auto in_blocks = [&](const TensorFormat& format) {
        return format.type == ElementType::kF32 && format.block % lanes == 0;
    };
    return o.kernel == 3 && o.stride == 1 && o.dilation == 1 && o.groups == 1 &&
           o.padding == Padding(o.padding.top) && o.padding.top <= 2 && in_blocks(problem.input) &&
           in_blocks(problem.output);
}

std::unique_ptr<ConvProduct> make_own_winograd(const ConvProblem& problem, ConvDirection direction,
                                               VectorLevel level) {
    return std::make_unique<WinogradConv>(problem, direction, level);
}

std::unique_ptr<ConvWeightGradient> make_own_winograd_gradient(const ConvProblem& problem,
                                                               VectorLevel level) {
    return std::make_unique<WinogradGradient>(problem, level);
}

}  // namespace cohort
