// Long short-term memory (Hochreiter & Schmidhuber 1997, with forget gates): shapes and
// parameters. Kernel: lstm_cpu.cpp.
#include "cohort/core/error.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class Lstm final : public SpecLayer<LstmSpec> {
public:
    explicit Lstm(const LstmSpec& spec) : SpecLayer(spec) {
        if (spec.options.hidden < 1) {
            fail<ShapeError>({.where = "lstm", .what = "hidden must be at least 1"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return "lstm"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        return {only_input("lstm", inputs, 2)[0], spec_.options.hidden};
    }
    [[nodiscard]] std::vector<TensorSpec> parameters(std::span<const Shape> inputs) const override {
        const std::int64_t hidden = spec_.options.hidden;
        return {
            {"weight_input", Shape{4 * hidden, inputs[0][1]}, Initialisation::kUniform, true},
            {"weight_hidden", Shape{4 * hidden, hidden}, Initialisation::kUniform, true},
            {"bias", Shape{4 * hidden}, Initialisation::kForgetGate, false},
        };
    }
    [[nodiscard]] double forward_flops(std::span<const Shape> inputs) const override {
        const std::int64_t hidden = spec_.options.hidden;
        return 8.0 * static_cast<double>(inputs[0][0] * hidden * (inputs[0][1] + hidden));
    }
};

}  // namespace

std::shared_ptr<const Layer> make_lstm(const LstmOptions& options) {
    return std::make_shared<Lstm>(LstmSpec{options});
}

}  // namespace cohort
