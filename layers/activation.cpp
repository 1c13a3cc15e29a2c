// Elementwise activations: ReLU, GELU (exact, with erf), sigmoid, tanh.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class Activation final : public SpecLayer<ActivationKind> {
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
