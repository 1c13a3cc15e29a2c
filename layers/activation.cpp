// Elementwise activations: ReLU, ReLU6, GELU (exact, with erf), sigmoid, tanh. On the CPU the ReLUs
// run by our own loops (backward from their output alone), the others by oneDNN.
#include <limits>

#include "cohort/core/error.hpp"
#include "layers/cpu/dnnl_version.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/format_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

dnnl::algorithm algorithm_of(ActivationKind kind) {
    switch (kind) {
        case ActivationKind::kSigmoid: return dnnl::algorithm::eltwise_logistic;
        case ActivationKind::kTanh: return dnnl::algorithm::eltwise_tanh;
        default: return dnnl::algorithm::eltwise_gelu_erf;
    }
}

bool is_relu(ActivationKind kind) {
    return kind == ActivationKind::kRelu || kind == ActivationKind::kRelu6;
}

class ActivationCpu final : public Kernel {
public:
    ActivationCpu(ActivationKind kind, const KernelContext& context)
        : kind_(kind), training_(context.training) {
        traits_.output = context.inputs.at(0);
        traits_.backward_reads_inputs = !is_relu(kind);
        traits_.backward_reads_output = is_relu(kind);
    }

    /// The ReLUs alone: the others compute in single precision, between borders as well as inside.
    [[nodiscard]] static bool takes_bf16(ActivationKind kind, const KernelContext& /*context*/) {
        return is_relu(kind);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        if (is_relu(kind_)) {
            return {};
        }
        return made_.prepare(slice_sizes, [this](std::int64_t samples) { return make(samples); });
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        if (is_relu(kind_)) {
            with_elements(traits_.output.type, [&](auto element) {
                using Element = decltype(element);
                relu_forward(as<Element>(slice.inputs[0]), bound(), as<Element>(slice.output),
                             slice.samples * traits_.output.sample_floats());
            });
            return;
        }
        const Primitives& made = made_.at(slice.samples);
        execute("activation", made.forward,
                {{DNNL_ARG_SRC, wrap(made.data, slice.inputs[0])},
                 {DNNL_ARG_DST, wrap(made.data, slice.output)},
                 {DNNL_ARG_SCRATCHPAD, wrap(made.forward_scratch, slice.scratch)}});
        if (kind_ == ActivationKind::kSigmoid) {
            clear_padding(slice);
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        if (is_relu(kind_)) {
            with_elements(traits_.output.type, [&](auto element) {
                using Element = decltype(element);
                relu_backward(as<Element>(slice.output), bound(),
                              as<Element>(slice.output_gradient),
                              as<Element>(slice.input_gradients[0]),
                              slice.samples * traits_.output.sample_floats());
            });
            return;
        }
        const Primitives& made = made_.at(slice.samples);
        execute("activation", made.backward,
                {{DNNL_ARG_SRC, wrap(made.data, slice.inputs[0])},
                 {DNNL_ARG_DIFF_DST, wrap(made.data, slice.output_gradient)},
                 {DNNL_ARG_DIFF_SRC, wrap(made.data, slice.input_gradients[0])},
                 {DNNL_ARG_SCRATCHPAD, wrap(made.backward_scratch, slice.scratch)}});
    }

    [[nodiscard]] std::vector<KernelImplementation> implementations() const override {
        return implementations_;
    }

private:
    struct Primitives {
        dnnl::eltwise_forward forward;
        dnnl::eltwise_backward backward;
        dnnl::memory::desc data;
        dnnl::memory::desc forward_scratch;
        dnnl::memory::desc backward_scratch;
    };

    [[nodiscard]] Primitives make(std::int64_t samples) {
        return dnnl_checked("activation", [&] {
            Primitives made;
            made.data = {{samples * traits_.output.sample_floats()},
                         dnnl::memory::data_type::f32,
                         dnnl::memory::format_tag::a};
            const auto forward = describe_eltwise(
                training_ ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
                algorithm_of(kind_), made.data);
            implementations_ = {{"forward", forward.impl_info_str()}};
            made.forward = dnnl::eltwise_forward(forward);
            made.forward_scratch = forward.scratchpad_desc();
            if (training_) {
                const auto backward =
                    describe_eltwise_backward(forward, algorithm_of(kind_), made.data);
                implementations_.push_back({"input gradient", backward.impl_info_str()});
                made.backward = dnnl::eltwise_backward(backward);
                made.backward_scratch = backward.scratchpad_desc();
            }
            return made;
        });
    }

    /// Of a ReLU's output.
    [[nodiscard]] float bound() const {
        return kind_ == ActivationKind::kRelu6 ? kRelu6Bound
                                               : std::numeric_limits<float>::infinity();
    }

    /// sigmoid(0) is not 0, but padding channels must stay zero.
    void clear_padding(const KernelSlice& slice) const {
        const TensorFormat& format = traits_.output;
        const Extent extent = extent_of(format);
        const std::int64_t last =
            (extent.channels + format.block - 1) / format.block * format.block;
        for (std::int64_t n = 0; n < slice.samples; ++n) {
            float* sample = slice.output + n * format.sample_floats();
            for (std::int64_t c = extent.channels; c < last; ++c) {
                for (std::int64_t p = 0; p < extent.pixels; ++p) {
                    sample[element_offset(format, extent.pixels, c, p)] = 0.0F;
                }
            }
        }
    }

    ActivationKind kind_;
    bool training_;
    PrimitiveCache<Primitives> made_;
    std::vector<KernelImplementation> implementations_;
};

class Activation final : public SpecLayer<ActivationKind, ActivationCpu> {
public:
    using SpecLayer::SpecLayer;
    [[nodiscard]] std::string_view kind() const override { return word_of(spec_); }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return only_input(kind(), inputs, 0);
    }
};

}  // namespace

std::shared_ptr<const Layer> make_activation(ActivationKind kind) {
    return std::make_shared<Activation>(kind);
}

}  // namespace cohort
