// Layers of sequences [T,F].
#include <cmath>

#include "support/layers/reference_layers.hpp"

namespace cohort::test {
namespace {

using Inputs = std::vector<const ReferenceTensor*>;
using Gradients = std::vector<ReferenceTensor*>;

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

/// Gates i, f, g, o; everything that a position computes is kept, sample by sample.
class Lstm final : public ReferenceLayer {
public:
    explicit Lstm(const LstmOptions& options) : hidden_(static_cast<std::size_t>(options.hidden)) {}
    [[nodiscard]] std::vector<std::string> parameters() const override {
        return {"weight_input", "weight_hidden", "bias"};
    }

    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        ReferenceTensor y(x.samples, {x.shape[0], static_cast<std::int64_t>(hidden_)});
        const std::size_t floats = static_cast<std::size_t>(x.shape[0]) * hidden_;
        for (std::int64_t n = 0; n < x.samples; ++n) {
            const std::vector<Position> positions = run(scope, x, n);
            for (std::size_t i = 0; i < floats; ++i) {
                y.values[static_cast<std::size_t>(n) * floats + i] =
                    positions[i / hidden_].output[i % hidden_];
            }
        }
        return y;
    }

    void backward(const ReferenceScope& scope, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const ReferenceTensor& x = *inputs[0];
        const auto length = static_cast<std::size_t>(x.shape[0]);
        const auto features = static_cast<std::size_t>(x.shape[1]);
        for (std::int64_t n = 0; n < x.samples; ++n) {
            const std::vector<Position> positions = run(scope, x, n);
            std::vector<double> dh(hidden_, 0.0);
            std::vector<double> dc(hidden_, 0.0);
            for (std::size_t t = length; t-- > 0;) {
                const std::size_t row = static_cast<std::size_t>(n) * length + t;
                const Position* before = t == 0 ? nullptr : &positions[t - 1];
                const std::vector<double> sums =
                    gate_gradients(positions[t], before, g.values.data() + row * hidden_, dh, dc);
                dh.assign(hidden_, 0.0);
                for (std::size_t r = 0; r < 4 * hidden_; ++r) {
                    scope.gradients[2][r] += sums[r];
                    for (std::size_t f = 0; f < features; ++f) {
                        scope.gradients[0][r * features + f] +=
                            sums[r] * x.values[row * features + f];
                        input_gradients[0]->values[row * features + f] +=
                            sums[r] * scope.parameters[0][r * features + f];
                    }
                    for (std::size_t k = 0; before != nullptr && k < hidden_; ++k) {
                        scope.gradients[1][r * hidden_ + k] += sums[r] * before->output[k];
                        dh[k] += sums[r] * scope.parameters[1][r * hidden_ + k];
                    }
                }
            }
        }
    }

private:
    struct Position {
        std::vector<double> gates;  ///< i, f, g, o
        std::vector<double> cell;
        std::vector<double> output;
    };

    [[nodiscard]] std::vector<Position> run(const ReferenceScope& scope, const ReferenceTensor& x,
                                            std::int64_t n) const {
        const auto length = static_cast<std::size_t>(x.shape[0]);
        const auto features = static_cast<std::size_t>(x.shape[1]);
        std::vector<Position> positions;
        for (std::size_t t = 0; t < length; ++t) {
            const double* input =
                x.values.data() + (static_cast<std::size_t>(n) * length + t) * features;
            const Position* before = t == 0 ? nullptr : &positions.back();
            Position at{std::vector<double>(4 * hidden_), std::vector<double>(hidden_),
                        std::vector<double>(hidden_)};
            for (std::size_t r = 0; r < 4 * hidden_; ++r) {
                double sum = scope.parameters[2][r];
                for (std::size_t f = 0; f < features; ++f) {
                    sum += scope.parameters[0][r * features + f] * input[f];
                }
                for (std::size_t k = 0; before != nullptr && k < hidden_; ++k) {
                    sum += scope.parameters[1][r * hidden_ + k] * before->output[k];
                }
                at.gates[r] = r / hidden_ == 2 ? std::tanh(sum) : sigmoid(sum);
            }
            for (std::size_t k = 0; k < hidden_; ++k) {
                at.cell[k] = at.gates[hidden_ + k] * (before == nullptr ? 0 : before->cell[k]) +
                             at.gates[k] * at.gates[2 * hidden_ + k];
                at.output[k] = at.gates[3 * hidden_ + k] * std::tanh(at.cell[k]);
            }
            positions.push_back(std::move(at));
        }
        return positions;
    }

    /// @param dc  of the cell state from the position after; becomes that for the one before
    [[nodiscard]] std::vector<double> gate_gradients(const Position& at, const Position* before,
                                                     const double* output_gradient,
                                                     const std::vector<double>& dh,
                                                     std::vector<double>& dc) const {
        std::vector<double> sums(4 * hidden_);
        for (std::size_t k = 0; k < hidden_; ++k) {
            const double i = at.gates[k];
            const double f = at.gates[hidden_ + k];
            const double g = at.gates[2 * hidden_ + k];
            const double o = at.gates[3 * hidden_ + k];
            const double squashed = std::tanh(at.cell[k]);
            const double of_output = output_gradient[k] + dh[k];
            const double of_cell = dc[k] + of_output * o * (1 - squashed * squashed);
            sums[k] = of_cell * g * i * (1 - i);
            sums[hidden_ + k] = before == nullptr ? 0 : of_cell * before->cell[k] * f * (1 - f);
            sums[2 * hidden_ + k] = of_cell * i * (1 - g * g);
            sums[3 * hidden_ + k] = of_output * squashed * o * (1 - o);
            dc[k] = of_cell * f;
        }
        return sums;
    }

    std::size_t hidden_;
};

class LastPosition final : public ReferenceLayer {
public:
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& /*scope*/,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        ReferenceTensor y(x.samples, {x.shape[1]});
        for (std::size_t i = 0; i < y.values.size(); ++i) {
            y.values[i] = x.values[source(x, i)];
        }
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            input_gradients[0]->values[source(*inputs[0], i)] += g.values[i];
        }
    }

private:
    static std::size_t source(const ReferenceTensor& x, std::size_t i) {
        const auto features = static_cast<std::size_t>(x.shape[1]);
        const auto length = static_cast<std::size_t>(x.shape[0]);
        return (i / features * length + length - 1) * features + i % features;
    }
};

}  // namespace

ReferenceMade reference_lstm(const LstmOptions& options) {
    return std::make_unique<Lstm>(options);
}
ReferenceMade reference_last_position() {
    return std::make_unique<LastPosition>();
}

}  // namespace cohort::test
