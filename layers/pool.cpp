// Max, average and global average pooling of [C,H,W], on the CPU through oneDNN.
#include "cohort/core/error.hpp"
#include "layers/cpu/dnnl_version.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class PoolCpu final : public Kernel {
public:
    PoolCpu(const PoolSpec& spec, const KernelContext& context)
        : spec_(spec), input_(context.inputs.at(0)), training_(context.training) {
        traits_.output = {pooled_shape(spec, input_.shape), input_.block, input_.type};
        traits_.backward_reads_inputs = false;
        if (training_ && spec.kind == PoolKind::kMax) {
            constexpr std::int64_t kProbe = 2;  // the workspace grows in proportion to samples
            traits_.saved_bytes =
                make(kProbe).workspace.get_size() / static_cast<std::size_t>(kProbe);
        }
    }

    [[nodiscard]] static bool takes_bf16(const PoolSpec& /*spec*/,
                                         const KernelContext& /*context*/) {
        return has_bf16_products();  // elsewhere oneDNN has poolings of single precision alone
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        return made_.prepare(slice_sizes, [this](std::int64_t samples) { return make(samples); });
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const Primitives& made = made_.at(slice.samples);
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, wrap(made.source, slice.inputs[0])},
            {DNNL_ARG_DST, wrap(made.output, slice.output)},
            {DNNL_ARG_SCRATCHPAD, wrap(made.forward_scratch, slice.scratch)}};
        if (traits_.saved_bytes > 0) {
            arguments.emplace(DNNL_ARG_WORKSPACE, wrap(made.workspace, slice.saved));
        }
        execute("pool", made.forward, arguments);
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        const Primitives& made = made_.at(slice.samples);
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_DIFF_DST, wrap(made.output, slice.output_gradient)},
            {DNNL_ARG_DIFF_SRC, wrap(made.source, slice.input_gradients[0])},
            {DNNL_ARG_SCRATCHPAD, wrap(made.backward_scratch, slice.scratch)}};
        if (traits_.saved_bytes > 0) {
            arguments.emplace(DNNL_ARG_WORKSPACE, wrap(made.workspace, slice.saved));
        }
        execute("pool", made.backward, arguments);
    }

private:
    struct Primitives {
        PoolingForward forward;
        PoolingBackward backward;
        dnnl::memory::desc source;
        dnnl::memory::desc output;
        dnnl::memory::desc workspace;
        dnnl::memory::desc forward_scratch;
        dnnl::memory::desc backward_scratch;
    };

    [[nodiscard]] Primitives make(std::int64_t samples) const {
        const auto algorithm = spec_.kind == PoolKind::kMax ? dnnl::algorithm::pooling_max
                               : spec_.options.count_padding
                                   ? dnnl::algorithm::pooling_avg_include_padding
                                   : dnnl::algorithm::pooling_avg_exclude_padding;
        const Window2d window = pool_window(spec_, input_.shape);
        const Shape& x = input_.shape;
        const Shape& y = traits_.output.shape;
        // oneDNN wants the exact reach on the far side, which may be negative (cells left over).
        const auto after = [](const WindowAxis& axis, std::int64_t in, std::int64_t out) {
            return (out - 1) * axis.stride + axis.reach() - in - axis.before;
        };
        using Dims = dnnl::memory::dims;
        const Dims strides{window.height.stride, window.width.stride};
        const Dims kernel{window.height.kernel, window.width.kernel};
        const Dims dilation{window.height.dilation - 1, window.width.dilation - 1};
        const Dims before{window.height.before, window.width.before};
        const Dims beyond{after(window.height, x[1], y[1]), after(window.width, x[2], y[2])};
        return dnnl_checked("pool", [&] {
            Primitives made;
            made.source = describe(input_, samples);
            made.output = describe(traits_.output, samples);
            const auto forward = describe_forward<PoolingForward>(
                training_ ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
                algorithm, made.source, made.output, strides, kernel, dilation, before, beyond);
            made.forward = PoolingForward(forward);
            made.workspace = forward.workspace_desc();
            made.forward_scratch = forward.scratchpad_desc();
            if (training_) {
                const auto backward =
                    describe_backward<PoolingBackward>(forward, algorithm, made.source, made.output,
                                                       strides, kernel, dilation, before, beyond);
                made.backward = PoolingBackward(backward);
                made.backward_scratch = backward.scratchpad_desc();
            }
            return made;
        });
    }

    PoolSpec spec_;
    TensorFormat input_;
    bool training_;
    PrimitiveCache<Primitives> made_;
};

/// Whether each window along one axis is sure to hold a cell of the image; oneDNN takes no others.
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
