// Elementwise sum of two tensors, optionally + ReLU, and the addition of gradients of a tensor
// that has several consumers.
#include "cohort/core/error.hpp"
#include "layers/cpu/elements.hpp"
#include "layers/cpu/elementwise_cpu.hpp"
#include "layers/cpu/format_cpu.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class AddCpu final : public Kernel {
public:
    AddCpu(const AddSpec& spec, const KernelContext& context)
        : spec_(spec), second_(context.inputs.at(1)) {
        traits_.output = context.inputs.at(0);
        traits_.backward_reads_inputs = false;
        traits_.backward_reads_output = spec.relu;
        traits_.pass_through_input = 0;
    }

    [[nodiscard]] static bool takes_bf16(const AddSpec& /*spec*/, const KernelContext& context) {
        return of_one_type(context);
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> slice_sizes) override {
        KernelMemory memory;
        for (const std::int64_t samples : slice_sizes) {
            memory.forward_scratch =
                std::max(memory.forward_scratch,
                         static_cast<std::size_t>(samples) * traits_.output.sample_bytes());
        }
        return memory;
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        const std::int64_t count = slice.samples * traits_.output.sample_floats();
        const float* second = slice.inputs[1];
        if (!(second_ == traits_.output)) {
            auto* converted = reinterpret_cast<float*>(slice.scratch);
            convert_format(second_, second, traits_.output, converted, slice.samples);
            second = converted;
        }
        with_elements(traits_.output.type, [&](auto element) {
            using Element = decltype(element);
            add_forward(as<Element>(slice.inputs[0]), as<Element>(second), spec_.relu,
                        as<Element>(slice.output), count);
        });
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (spec_.relu) {
            with_elements(traits_.output.type, [&](auto element) {
                using Element = decltype(element);
                relu_mask(as<Element>(slice.output), as<Element>(slice.output_gradient),
                          slice.samples * traits_.output.sample_floats());
            });
        }
        if (slice.input_gradients[1] != nullptr) {
            convert_format(traits_.output, slice.output_gradient, second_, slice.input_gradients[1],
                           slice.samples);
        }
    }

private:
    AddSpec spec_;
    TensorFormat second_;
};

class Add final : public SpecLayer<AddSpec, AddCpu> {
public:
    using SpecLayer::SpecLayer;
    [[nodiscard]] std::string_view kind() const override { return spec_.relu ? "add+relu" : "add"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        if (inputs.size() != 2 || !(inputs[0] == inputs[1])) {
            fail<ShapeError>({.where = "add",
                              .what = "inputs do not fit",
                              .expected = "two inputs of one shape",
                              .got = inputs.size() == 2
                                         ? to_string(inputs[0]) + " and " + to_string(inputs[1])
                                         : std::to_string(inputs.size()) + " inputs"});
        }
        return inputs[0];
    }
    [[nodiscard]] std::shared_ptr<const Layer> with_relu() const override {
        return spec_.relu ? nullptr : std::make_shared<Add>(AddSpec{true});
    }
};

}  // namespace

std::shared_ptr<const Layer> make_add() {
    return std::make_shared<Add>(AddSpec{});
}

void add_into(ElementType type, void* to, const void* from, std::int64_t count) {
    with_elements(type, [&](auto element) {
        using Element = decltype(element);
        accumulate(static_cast<Element*>(to), static_cast<const Element*>(from), count);
    });
}

void fold_into(Device& device, Stream& stream, float* state, const float* batch, std::int64_t count,
               float step) {
    if (device.kind() == DeviceKind::kCuda) {
        fold_on_cuda(device, stream, state, batch, count, step);
        return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
        state[i] += step * (batch[i] - state[i]);
    }
}

}  // namespace cohort
