// Layer normalisation (Ba et al. 2016): every row of F features gets mean 0 and variance 1, then
// weight and bias; and its kernel for the CPU. A sequence [T,F] is T rows. Memory: mean and inverse
// deviation of every row. Cost: three passes over a row forward, two backward, in cache.
#include <vector>

#include "cohort/core/error.hpp"
#include "layers/cpu/layer_norm_loops.hpp"
#include "layers/cpu/member_sums.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class LayerNormCpu final : public Kernel {
public:
    LayerNormCpu(const LayerNormSpec& spec, const KernelContext& context)
        : epsilon_(spec.options.epsilon),
          features_(context.inputs.at(0).shape[context.inputs[0].shape.rank() - 1]),
          rows_(context.inputs[0].shape.elements() / features_),
          sums_(cpu_team(context.device), 2 * features_) {
        traits_.output = context.inputs[0];
        traits_.saved_bytes =
            context.training ? static_cast<std::size_t>(2 * rows_) * sizeof(float) : 0;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> /*sizes*/) override {
        return {.backward_shared = sums_.bytes()};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        layer_norm_forward(rows_of(slice), epsilon_, binding_.parameters[1], slice.output);
    }

    void begin_backward(std::byte* /*shared*/) override { sums_.begin(); }
    void backward(int /*pass*/, const KernelSlice& slice) override {
        layer_norm_backward(rows_of(slice), slice.output_gradient,
                            sums_.of(slice.shared, slice.member), slice.input_gradients[0]);
    }
    void end_backward(int /*pass*/, std::int64_t /*batch*/, std::byte* shared) override {
        const float* total = sums_.total(shared);
        std::copy_n(total, features_, binding_.gradients[0]);
        std::copy_n(total + features_, features_, binding_.gradients[1]);
    }

private:
    [[nodiscard]] NormRows rows_of(const KernelSlice& slice) const {
        return {.rows = slice.samples * rows_,
                .features = features_,
                .input = slice.inputs[0],
                .statistics = reinterpret_cast<float*>(slice.saved),
                .weight = binding_.parameters[0]};
    }

    float epsilon_;
    std::int64_t features_;
    std::int64_t rows_;  ///< of a sample
    MemberSums sums_;    ///< weight, bias
};

class LayerNorm final : public SpecLayer<LayerNormSpec, LayerNormCpu> {
public:
    explicit LayerNorm(const LayerNormSpec& spec) : SpecLayer(spec) {
        if (!(spec.options.epsilon > 0.0F)) {
            fail<ShapeError>({.where = "layer_norm", .what = "epsilon must be above 0"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return "layer_norm"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        if (inputs.size() == 1 && inputs[0].rank() == 2) {
            return inputs[0];
        }
        return only_input("layer_norm", inputs, 1);
    }
    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const Shape features{inputs[0][inputs[0].rank() - 1]};
        return {{"weight", features, Initialisation::kOne, false},
                {"bias", features, Initialisation::kZero, false}};
    }
};

}  // namespace

std::shared_ptr<const Layer> make_layer_norm(const LayerNormOptions& options) {
    return std::make_shared<LayerNorm>(LayerNormSpec{options});
}

}  // namespace cohort
