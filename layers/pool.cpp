// Max, average and global average pooling of [C,H,W], on the CPU through oneDNN.
#include <algorithm>
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
        return true;
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
        dnnl::pooling_forward forward;
        dnnl::pooling_backward backward;
        dnnl::memory::desc source;
        dnnl::memory::desc output;
        dnnl::memory::desc workspace;
        dnnl::memory::desc forward_scratch;
        dnnl::memory::desc backward_scratch;
    };

    [[nodiscard]] Primitives make(std::int64_t samples) const {
        const bool global = spec_.kind == PoolKind::kGlobalAverage;
        const PoolOptions& o = spec_.options;
        const Shape& x = input_.shape;
        const Shape& y = traits_.output.shape;
        const auto algorithm = spec_.kind == PoolKind::kMax
                                   ? dnnl::algorithm::pooling_max
                                   : dnnl::algorithm::pooling_avg_exclude_padding;
        const std::int64_t stride = global ? 1 : o.stride;
        const std::int64_t before = global ? 0 : o.padding;
        PoolWindow window{.strides = {stride, stride},
                          .kernel = {global ? x[1] : o.kernel, global ? x[2] : o.kernel},
                          .padding_before = {before, before},
                          .padding_after = {}};
        // oneDNN wants the exact reach on the far side, which may be negative (cells left over).
        for (int axis = 1; axis <= 2; ++axis) {
            window.padding_after.push_back((y[axis] - 1) * stride +
                                           window.kernel[static_cast<std::size_t>(axis - 1)] -
                                           x[axis] - before);
        }
        return dnnl_checked("pool", [&] {
            Primitives made;
            made.source = describe(input_, samples);
            made.output = describe(traits_.output, samples);
            const auto forward = describe_pooling(
                training_ ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
                algorithm, made.source, made.output, window);
            made.forward = dnnl::pooling_forward(forward);
            made.workspace = forward.workspace_desc();
            made.forward_scratch = forward.scratchpad_desc();
            if (training_) {
                const auto backward =
                    describe_pooling_backward(forward, algorithm, made.source, made.output, window);
                made.backward = dnnl::pooling_backward(backward);
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

class Pool final : public SpecLayer<PoolSpec, PoolCpu> {
public:
    explicit Pool(const PoolSpec& spec) : SpecLayer(spec) {
        const PoolOptions& o = spec.options;
        if (o.kernel < 1 || o.stride < 1 || o.padding < 0 || 2 * o.padding > o.kernel) {
            fail<ShapeError>({.where = kind(),
                              .what = "unusable options",
                              .expected = "kernel, stride >= 1 and 0 <= padding <= kernel / 2"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return word_of(spec_.kind); }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const Shape& x = only_input(kind(), inputs, 3);
        const std::int64_t room = std::min(x[1], x[2]) + 2 * spec_.options.padding;
        if (spec_.kind != PoolKind::kGlobalAverage && room < spec_.options.kernel) {
            fail<ShapeError>({.where = kind(),
                              .what = "window does not fit into the input",
                              .expected = "at least " + std::to_string(spec_.options.kernel),
                              .got = to_string(x)});
        }
        return pooled_shape(spec_, x);
    }
};

}  // namespace

Shape pooled_shape(const PoolSpec& spec, const Shape& x) {
    if (spec.kind == PoolKind::kGlobalAverage) {
        return {x[0], 1, 1};
    }
    const PoolOptions& o = spec.options;
    const auto extent = [&](std::int64_t in) {
        return (in + 2 * o.padding - o.kernel) / o.stride + 1;
    };
    return {x[0], extent(x[1]), extent(x[2])};
}

std::shared_ptr<const Layer> make_pool(PoolKind kind, const PoolOptions& options) {
    return std::make_shared<Pool>(PoolSpec{kind, options});
}

}  // namespace cohort
