// Max, average and global average pooling of [C,H,W], and its kernel for the CPU. A max pooling
// keeps for every output which tap of the window was the largest.
#include <algorithm>
#include <limits>

#include "cohort/core/error.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/level/level_loops.hpp"
#include "layers/cpu/pool_axis.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class PoolCpu final : public Kernel {
public:
    PoolCpu(const PoolSpec& spec, const KernelContext& context)
        : spec_(spec),
          input_(context.inputs.at(0)),
          window_(pool_window(spec, input_.shape)),
          rows_(window_.height, input_.shape[1], pooled_shape(spec, input_.shape)[1]),
          columns_(window_.width, input_.shape[2], pooled_shape(spec, input_.shape)[2]) {
        check_invariant(input_.block == 1 || input_.block == 8 || input_.block == 16,
                        "channels in blocks");
        traits_.output = {pooled_shape(spec, input_.shape), input_.block, input_.type};
        traits_.backward_reads_inputs = false;
        if (context.training && spec.kind == PoolKind::kMax) {
            traits_.saved_bytes = static_cast<std::size_t>(traits_.output.sample_floats()) *
                                  (short_taps() ? sizeof(std::uint8_t) : sizeof(std::uint32_t));
        }
    }

    [[nodiscard]] static bool takes_bf16(const PoolSpec& /*spec*/,
                                         const KernelContext& /*context*/) {
        return true;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> /*slice_sizes*/) override {
        return {};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const PoolTask pooling = task(slice.samples);
        with_elements(input_.type, [&](auto element) {
            using Element = decltype(element);
            const ElementLoops<Element>& loops = level_loops().of<Element>();
            const auto* x = as<Element>(slice.inputs[0]);
            auto* y = as<Element>(slice.output);
            if (spec_.kind != PoolKind::kMax) {
                loops.average_pool.forward(pooling, x, y);
                return;
            }
            with_taps([&](auto tap) {
                using Tap = decltype(tap);
                loops.template max_pool_with<Tap>().forward(
                    pooling, x, y,
                    traits_.saved_bytes > 0 ? reinterpret_cast<Tap*>(slice.saved) : nullptr);
            });
        });
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        const PoolTask pooling = task(slice.samples);
        with_elements(input_.type, [&](auto element) {
            using Element = decltype(element);
            const ElementLoops<Element>& loops = level_loops().of<Element>();
            const auto* gradient = as<Element>(static_cast<const float*>(slice.output_gradient));
            auto* gradient_x = as<Element>(slice.input_gradients[0]);
            if (spec_.kind != PoolKind::kMax) {
                loops.average_pool.backward(pooling, gradient, gradient_x);
                return;
            }
            with_taps([&](auto tap) {
                using Tap = decltype(tap);
                loops.template max_pool_with<Tap>().backward(
                    pooling, gradient, reinterpret_cast<const Tap*>(slice.saved), gradient_x);
            });
        });
    }

private:
    [[nodiscard]] PoolTask task(std::int64_t samples) const {
        return {.rows = rows_.line(),
                .columns = columns_.line(),
                .planes = samples * stored_channels(input_) / input_.block,
                .lanes = input_.block,
                .counts_padding = spec_.options.count_padding};
    }
    /// The number of a window's tap fits into a byte.
    [[nodiscard]] bool short_taps() const {
        return rows_.kernel() * columns_.kernel() <= std::numeric_limits<std::uint8_t>::max() + 1;
    }
    template <class F>
    void with_taps(F&& f) const {
        if (short_taps()) {
            f(std::uint8_t{});
        } else {
            f(std::uint32_t{});
        }
    }

    PoolSpec spec_;
    TensorFormat input_;
    Window2d window_;
    PoolAxis rows_;
    PoolAxis columns_;
};

/// Whether each window along one axis is sure to hold a cell of the image; the mean and the largest
/// of none are nothing.
bool windows_hold_cells(const WindowAxis& axis, std::int64_t extent) {
    const std::int64_t last = (axis.outputs(extent) - 1) * axis.stride - axis.before;
    return axis.before < axis.reach() && last < extent && axis.dilation <= extent;
}

class Pool final : public SpecLayer<PoolSpec, PoolCpu> {
public:
    explicit Pool(const PoolSpec& spec) : SpecLayer(spec) {
        check_window(kind(), window_from(spec.options));
        if (spec.options.count_padding && spec.kind != PoolKind::kAverage) {
            fail<ShapeError>({.where = kind(),
                              .what = "unusable options",
                              .expected = "count_padding in an average_pool only"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return word_of(spec_.kind); }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const Shape& x = only_input(kind(), inputs, 3);
        const Window2d window = pool_window(spec_, x);
        if (window.height.outputs(x[1]) < 1 || window.width.outputs(x[2]) < 1) {
            fail<ShapeError>({.where = kind(),
                              .what = "window does not fit into the input",
                              .expected = "a window of at most the image and its padding",
                              .got = to_string(spec_.options.kernel) + " on " + to_string(x)});
        }
        if (!windows_hold_cells(window.height, x[1]) || !windows_hold_cells(window.width, x[2])) {
            fail<ShapeError>(
                {.where = kind(),
                 .what = "a window can hold nothing but padding",
                 .expected = "padding within the reach of the kernel, dilation within the image",
                 .got = "padding " + to_string(spec_.options.padding) + ", kernel " +
                        to_string(spec_.options.kernel) + " on " + to_string(x)});
        }
        return pooled_shape(spec_, x);
    }
};

}  // namespace

Window2d pool_window(const PoolSpec& spec, const Shape& input) {
    return spec.kind == PoolKind::kGlobalAverage
               ? Window2d{.height = {.kernel = input[1]}, .width = {.kernel = input[2]}}
               : window_from(spec.options);
}

Shape pooled_shape(const PoolSpec& spec, const Shape& x) {
    const Window2d window = pool_window(spec, x);
    return {x[0], window.height.outputs(x[1]), window.width.outputs(x[2])};
}

std::shared_ptr<const Layer> make_pool(PoolKind kind, const PoolOptions& options) {
    return std::make_shared<Pool>(PoolSpec{kind, options});
}

}  // namespace cohort
