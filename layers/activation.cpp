// Elementwise activations: ReLU, GELU (exact, with erf), sigmoid, tanh.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class Activation final : public Layer {
public:
    explicit Activation(ActivationKind kind) : kind_(kind) {}
    [[nodiscard]] std::string_view kind() const override {
        switch (kind_) {
            case ActivationKind::kRelu: return "relu";
            case ActivationKind::kGelu: return "gelu";
            case ActivationKind::kSigmoid: return "sigmoid";
            case ActivationKind::kTanh: return "tanh";
        }
        return "activation";
    }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return only_input(kind(), inputs, 0);
    }
    [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelContext& context) const override {
        return make_kernel(kind_, context);
    }

private:
    ActivationKind kind_;
};

}  // namespace

std::shared_ptr<const Layer> make_activation(ActivationKind kind) {
    return std::make_shared<Activation>(kind);
}

}  // namespace cohort
