// Batch normalisation: shapes and parameters. Kernels: batch_norm_cpu.cpp, cuda/batch_norm.cpp.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class BatchNorm final : public SpecLayer<BatchNormSpec> {
public:
    using SpecLayer::SpecLayer;

    [[nodiscard]] std::string_view kind() const override {
        if (spec_.add) {
            return spec_.relu ? "batch_norm+add+relu" : "batch_norm+add";
        }
        return spec_.relu ? "batch_norm+relu" : "batch_norm";
    }

    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const std::size_t expected = spec_.add ? 2 : 1;
        if (inputs.size() != expected || (inputs[0].rank() != 1 && inputs[0].rank() != 3)) {
            fail<ShapeError>({.where = "batch_norm",
                              .what = "input does not fit",
                              .expected = "[C,H,W] or [F]",
                              .got = inputs.empty() ? "nothing" : to_string(inputs[0])});
        }
        if (spec_.add && !(inputs[0] == inputs[1])) {
            fail<ShapeError>({.where = "batch_norm+add",
                              .what = "shapes differ",
                              .expected = to_string(inputs[0]),
                              .got = to_string(inputs[1])});
        }
        return inputs[0];
    }

    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const Shape channels{inputs[0][0]};
        return {{"weight", channels, Initialisation::kOne, false},
                {"bias", channels, Initialisation::kZero, false}};
    }

    [[nodiscard]] std::vector<TensorSpec> state(std::span<const Shape> inputs) const override {
        const Shape channels{inputs[0][0]};
        return {{"running_mean", channels, Initialisation::kZero, false},
                {"running_var", channels, Initialisation::kOne, false}};
    }

    [[nodiscard]] std::shared_ptr<const Layer> with_relu() const override {
        return spec_.relu
                   ? nullptr
                   : std::make_shared<BatchNorm>(BatchNormSpec{spec_.options, spec_.add, true});
    }
    [[nodiscard]] std::shared_ptr<const Layer> with_add() const override {
        return spec_.add || spec_.relu
                   ? nullptr
                   : std::make_shared<BatchNorm>(BatchNormSpec{spec_.options, true, false});
    }
};

}  // namespace

std::shared_ptr<const Layer> make_batch_norm(const BatchNormOptions& options) {
    return std::make_shared<BatchNorm>(BatchNormSpec{options, false, false});
}

}  // namespace cohort
