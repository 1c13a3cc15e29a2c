// Layers of text: tokens [T], rows of features [T,F].
#include <cmath>

#include "support/layers/reference_layers.hpp"

namespace cohort::test {
namespace {

using Inputs = std::vector<const ReferenceTensor*>;
using Gradients = std::vector<ReferenceTensor*>;

class Embedding final : public ReferenceLayer {
public:
    explicit Embedding(const EmbeddingOptions& options)
        : features_(static_cast<std::size_t>(options.features)) {}
    [[nodiscard]] std::vector<std::string> parameters() const override { return {"weight"}; }

    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& tokens = *inputs[0];
        ReferenceTensor y(tokens.samples, {tokens.shape[0], static_cast<std::int64_t>(features_)});
        for (std::size_t i = 0; i < y.values.size(); ++i) {
            y.values[i] = scope.parameters[0][place(tokens, i)];
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& /*input_gradients*/) const override {
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            scope.gradients[0][place(*inputs[0], i)] += g.values[i];
        }
    }

private:
    /// Of the i-th output in the table.
    [[nodiscard]] std::size_t place(const ReferenceTensor& tokens, std::size_t i) const {
        return static_cast<std::size_t>(tokens.values[i / features_]) * features_ + i % features_;
    }
    std::size_t features_;
};

class Position final : public ReferenceLayer {
public:
    explicit Position(const PositionOptions& options) : options_(options) {}
    [[nodiscard]] std::vector<std::string> parameters() const override {
        return options_.learned ? std::vector<std::string>{"weight"} : std::vector<std::string>{};
    }

    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        ReferenceTensor y = *inputs[0];
        for (std::size_t i = 0; i < y.values.size(); ++i) {
            const std::size_t at = i % static_cast<std::size_t>(y.shape.elements());
            y.values[i] = static_cast<double>(options_.scale) * y.values[i] +
                          (options_.learned ? scope.parameters[0][at] : wave(y.shape, at));
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& /*inputs*/, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            input_gradients[0]->values[i] += static_cast<double>(options_.scale) * g.values[i];
            if (options_.learned) {
                scope.gradients[0][i % static_cast<std::size_t>(g.shape.elements())] += g.values[i];
            }
        }
    }

private:
    static double wave(const Shape& shape, std::size_t at) {
        const auto features = static_cast<std::size_t>(shape[1]);
        const std::size_t f = at % features;
        const double rate =
            std::pow(1e4, -static_cast<double>(f - f % 2) / static_cast<double>(features));
        const double angle = static_cast<double>(at / features) * rate;
        return f % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
    PositionOptions options_;
};

class LayerNorm final : public ReferenceLayer {
public:
    explicit LayerNorm(const LayerNormOptions& options)
        : epsilon_(static_cast<double>(options.epsilon)) {}
    [[nodiscard]] std::vector<std::string> parameters() const override {
        return {"weight", "bias"};
    }

    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        ReferenceTensor y = *inputs[0];
        const std::size_t features = width(y);
        for (std::size_t row = 0; row < y.values.size(); row += features) {
            const auto [mean, inverse] = statistics(*inputs[0], row);
            for (std::size_t f = 0; f < features; ++f) {
                double& value = y.values[row + f];
                value = (value - mean) * inverse * scope.parameters[0][f] + scope.parameters[1][f];
            }
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const std::size_t features = width(g);
        const auto count = static_cast<double>(features);
        for (std::size_t row = 0; row < g.values.size(); row += features) {
            const auto [mean, inverse] = statistics(*inputs[0], row);
            std::vector<double> normal(features);
            double sum = 0;
            double product = 0;
            for (std::size_t f = 0; f < features; ++f) {
                normal[f] = (inputs[0]->values[row + f] - mean) * inverse;
                scope.gradients[0][f] += g.values[row + f] * normal[f];
                scope.gradients[1][f] += g.values[row + f];
                sum += g.values[row + f] * scope.parameters[0][f];
                product += g.values[row + f] * scope.parameters[0][f] * normal[f];
            }
            for (std::size_t f = 0; f < features; ++f) {
                input_gradients[0]->values[row + f] +=
                    inverse * (g.values[row + f] * scope.parameters[0][f] - sum / count -
                               normal[f] * product / count);
            }
        }
    }

private:
    struct Statistics {
        double mean;
        double inverse;
    };
    static std::size_t width(const ReferenceTensor& x) {
        return static_cast<std::size_t>(x.shape[x.shape.rank() - 1]);
    }
    [[nodiscard]] Statistics statistics(const ReferenceTensor& x, std::size_t row) const {
        const std::size_t features = width(x);
        double mean = 0;
        double squares = 0;
        for (std::size_t f = 0; f < features; ++f) {
            mean += x.values[row + f] / static_cast<double>(features);
        }
        for (std::size_t f = 0; f < features; ++f) {
            squares += (x.values[row + f] - mean) * (x.values[row + f] - mean);
        }
        return {mean, 1 / std::sqrt(squares / static_cast<double>(features) + epsilon_)};
    }
    double epsilon_;
};

class Attention final : public ReferenceLayer {
public:
    explicit Attention(const AttentionOptions& options) : options_(options) {}

    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& /*scope*/,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        const Extents e = extents(x);
        ReferenceTensor y(x.samples, {x.shape[0], x.shape[1] / 3});
        for (std::size_t n = 0; n < static_cast<std::size_t>(x.samples); ++n) {
            for (std::size_t f = 0; f < e.features; ++f) {
                for (std::size_t t = 0; t < e.positions; ++t) {
                    const std::vector<double> p = probabilities(x, n, f / e.head, t);
                    for (std::size_t s = 0; s < p.size(); ++s) {
                        y.values[(n * e.positions + t) * e.features + f] +=
                            p[s] * x.values[e.row(n, s) + 2 * e.features + f];
                    }
                }
            }
        }
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const ReferenceTensor& x = *inputs[0];
        const Extents e = extents(x);
        std::vector<double>& dx = input_gradients[0]->values;
        for (std::size_t n = 0; n < static_cast<std::size_t>(x.samples); ++n) {
            for (std::size_t h = 0; h < e.features / e.head; ++h) {
                for (std::size_t t = 0; t < e.positions; ++t) {
                    add_query(x, g, n, h, t, dx);
                }
            }
        }
    }

private:
    struct Extents {
        std::size_t positions, features, head;
        /// Of the queries of a position.
        [[nodiscard]] std::size_t row(std::size_t n, std::size_t t) const {
            return (n * positions + t) * 3 * features;
        }
    };
    [[nodiscard]] Extents extents(const ReferenceTensor& x) const {
        const auto features = static_cast<std::size_t>(x.shape[1] / 3);
        return {static_cast<std::size_t>(x.shape[0]), features,
                features / static_cast<std::size_t>(options_.heads)};
    }
    /// Of the keys that query t of a head sees.
    [[nodiscard]] std::vector<double> probabilities(const ReferenceTensor& x, std::size_t n,
                                                    std::size_t h, std::size_t t) const {
        const Extents e = extents(x);
        std::vector<double> p(options_.causal ? t + 1 : e.positions);
        double total = 0;
        for (std::size_t s = 0; s < p.size(); ++s) {
            double score = 0;
            for (std::size_t f = h * e.head; f < (h + 1) * e.head; ++f) {
                score += x.values[e.row(n, t) + f] * x.values[e.row(n, s) + e.features + f];
            }
            p[s] = std::exp(score / std::sqrt(static_cast<double>(e.head)));
            total += p[s];
        }
        for (double& value : p) {
            value /= total;
        }
        return p;
    }
    void add_query(const ReferenceTensor& x, const ReferenceTensor& g, std::size_t n, std::size_t h,
                   std::size_t t, std::vector<double>& dx) const {
        const Extents e = extents(x);
        const std::vector<double> p = probabilities(x, n, h, t);
        const double* gradient = g.values.data() + (n * e.positions + t) * e.features;
        std::vector<double> dp(p.size());
        double mean = 0;
        for (std::size_t s = 0; s < p.size(); ++s) {
            for (std::size_t f = h * e.head; f < (h + 1) * e.head; ++f) {
                dp[s] += gradient[f] * x.values[e.row(n, s) + 2 * e.features + f];
                dx[e.row(n, s) + 2 * e.features + f] += p[s] * gradient[f];
            }
            mean += p[s] * dp[s];
        }
        for (std::size_t s = 0; s < p.size(); ++s) {
            const double ds = p[s] * (dp[s] - mean) / std::sqrt(static_cast<double>(e.head));
            for (std::size_t f = h * e.head; f < (h + 1) * e.head; ++f) {
                dx[e.row(n, t) + f] += ds * x.values[e.row(n, s) + e.features + f];
                dx[e.row(n, s) + e.features + f] += ds * x.values[e.row(n, t) + f];
            }
        }
    }
    AttentionOptions options_;
};

}  // namespace

ReferenceMade reference_embedding(const EmbeddingOptions& options) {
    return std::make_unique<Embedding>(options);
}
ReferenceMade reference_position(const PositionOptions& options) {
    return std::make_unique<Position>(options);
}
ReferenceMade reference_layer_norm(const LayerNormOptions& options) {
    return std::make_unique<LayerNorm>(options);
}
ReferenceMade reference_attention(const AttentionOptions& options) {
    return std::make_unique<Attention>(options);
}

}  // namespace cohort::test
