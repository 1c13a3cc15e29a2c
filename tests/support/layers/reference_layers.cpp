// Layers with parameters, and activations.
#include "support/layers/reference_layers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace cohort::test {
namespace {

using Inputs = std::vector<const ReferenceTensor*>;
using Gradients = std::vector<ReferenceTensor*>;

class Conv final : public ReferenceLayer {
public:
    explicit Conv(const ConvOptions& options) : o_(options) {}
    [[nodiscard]] std::vector<std::string> parameters() const override {
        return o_.bias ? std::vector<std::string>{"weight", "bias"}
                       : std::vector<std::string>{"weight"};
    }
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        ReferenceTensor y(x.samples, output_shape(x.shape));
        for_each_tap(x, [&](std::size_t in, std::size_t weight, std::size_t out) {
            y.values[out] += scope.parameters[0][weight] * x.values[in];
        });
        if (o_.bias) {
            for_each_output(x, [&](std::size_t out, std::size_t channel) {
                y.values[out] += scope.parameters[1][channel];
            });
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const ReferenceTensor& x = *inputs[0];
        for_each_tap(x, [&](std::size_t in, std::size_t weight, std::size_t out) {
            scope.gradients[0][weight] += g.values[out] * x.values[in];
            input_gradients[0]->values[in] += g.values[out] * scope.parameters[0][weight];
        });
        if (o_.bias) {
            for_each_output(x, [&](std::size_t out, std::size_t channel) {
                scope.gradients[1][channel] += g.values[out];
            });
        }
    }

private:
    [[nodiscard]] Shape output_shape(const Shape& x) const {
        const auto count = [](std::int64_t padded, std::int64_t kernel, std::int64_t stride,
                              std::int64_t dilation) {
            std::int64_t fit = 0;  // positions of the kernel
            while (fit * stride + dilation * (kernel - 1) < padded) {
                ++fit;
            }
            return fit;
        };
        return {o_.channels,
                count(x[1] + o_.padding.top + o_.padding.bottom, o_.kernel.height, o_.stride.height,
                      o_.dilation.height),
                count(x[2] + o_.padding.left + o_.padding.right, o_.kernel.width, o_.stride.width,
                      o_.dilation.width)};
    }
    /// f(output element, its channel)
    template <class F>
    void for_each_output(const ReferenceTensor& input, F&& f) const {
        const ReferenceExtents y(output_shape(input.shape));
        for (std::int64_t i = 0; i < input.samples * y.c * y.h * y.w; ++i) {
            f(cell(i), cell(i / (y.h * y.w) % y.c));
        }
    }
    /// f(input element, weight element, output element) for every multiplication.
    template <class F>
    void for_each_tap(const ReferenceTensor& input, F&& f) const {
        const ReferenceExtents x(input.shape);
        const ReferenceExtents y(output_shape(input.shape));
        const std::int64_t depth = x.c / o_.groups;
        for (std::int64_t i = 0; i < input.samples * y.c * y.h * y.w; ++i) {
            const std::int64_t column = i % y.w;
            const std::int64_t row = i / y.w % y.h;
            const std::int64_t channel = i / (y.w * y.h) % y.c;
            const std::int64_t n = i / (y.w * y.h * y.c);
            const std::int64_t group = channel / (y.c / o_.groups);
            const auto [kernel_h, kernel_w] = o_.kernel;
            std::int64_t weight = channel * depth * kernel_h * kernel_w;
            for (std::int64_t k = group * depth; k < (group + 1) * depth; ++k) {
                for (std::int64_t ky = 0; ky < kernel_h; ++ky) {
                    for (std::int64_t kx = 0; kx < kernel_w; ++kx, ++weight) {
                        const std::int64_t iy =
                            row * o_.stride.height - o_.padding.top + ky * o_.dilation.height;
                        const std::int64_t ix =
                            column * o_.stride.width - o_.padding.left + kx * o_.dilation.width;
                        if (x.holds(iy, ix)) {
                            f(cell(x.index(n, k, iy, ix)), cell(weight), cell(i));
                        }
                    }
                }
            }
        }
    }

    ConvOptions o_;
};

class Linear final : public ReferenceLayer {
public:
    explicit Linear(const LinearOptions& options) : o_(options) {}
    [[nodiscard]] std::vector<std::string> parameters() const override {
        return o_.bias ? std::vector<std::string>{"weight", "bias"}
                       : std::vector<std::string>{"weight"};
    }
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        const std::int64_t features = x.shape[x.shape.rank() - 1];
        ReferenceTensor y(x.samples, output_shape(x.shape));
        for (std::int64_t i = 0; i < rows(x) * o_.features; ++i) {
            const std::int64_t n = i / o_.features;
            const std::int64_t row = i % o_.features;
            double sum = o_.bias ? scope.parameters[1][row] : 0.0;
            for (std::int64_t f = 0; f < features; ++f) {
                sum += scope.parameters[0][row * features + f] * x.values[cell(n * features + f)];
            }
            y.values[cell(i)] = sum;
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const ReferenceTensor& x = *inputs[0];
        const std::int64_t features = x.shape[x.shape.rank() - 1];
        for (std::int64_t i = 0; i < rows(x) * o_.features; ++i) {
            const std::int64_t n = i / o_.features;
            const std::int64_t row = i % o_.features;
            if (o_.bias) {
                scope.gradients[1][row] += g.values[cell(i)];
            }
            for (std::int64_t f = 0; f < features; ++f) {
                scope.gradients[0][row * features + f] +=
                    g.values[cell(i)] * x.values[cell(n * features + f)];
                input_gradients[0]->values[cell(n * features + f)] +=
                    g.values[cell(i)] * scope.parameters[0][row * features + f];
            }
        }
    }

private:
    /// A sequence [T,F] is T rows.
    static std::int64_t rows(const ReferenceTensor& x) {
        return x.shape.rank() == 2 ? x.samples * x.shape[0] : x.samples;
    }
    [[nodiscard]] Shape output_shape(const Shape& x) const {
        return x.rank() == 2 ? Shape{x[0], o_.features} : Shape{o_.features};
    }

    LinearOptions o_;
};

/// Ioffe & Szegedy 2015, algorithm 1; biased variance.
class BatchNorm final : public ReferenceLayer {
public:
    explicit BatchNorm(const BatchNormOptions& options)
        : epsilon_(static_cast<double>(options.epsilon)) {}
    [[nodiscard]] std::vector<std::string> parameters() const override {
        return {"weight", "bias"};
    }
    [[nodiscard]] std::vector<std::string> state() const override {
        return {"running_mean", "running_var"};
    }
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        ReferenceTensor y(x.samples, x.shape);
        for (std::int64_t c = 0; c < x.shape[0]; ++c) {
            double mean = scope.state[0][c];
            double variance = scope.state[1][c];
            if (scope.training) {
                moments(x, c, mean, variance);
                scope.batch_state[0][c] = mean;
                scope.batch_state[1][c] = variance;
            }
            for_each(x, c, [&](std::size_t i) {
                y.values[i] =
                    scope.parameters[0][c] * (x.values[i] - mean) / std::sqrt(variance + epsilon_) +
                    scope.parameters[1][c];
            });
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const ReferenceTensor& x = *inputs[0];
        for (std::int64_t c = 0; c < x.shape[0]; ++c) {
            double mean = 0;
            double variance = 0;
            moments(x, c, mean, variance);
            const double deviation = std::sqrt(variance + epsilon_);
            double sum = 0;
            double product = 0;
            double count = 0;
            for_each(x, c, [&](std::size_t i) {
                sum += g.values[i];
                product += g.values[i] * (x.values[i] - mean) / deviation;
                count += 1;
            });
            scope.gradients[0][c] += product;
            scope.gradients[1][c] += sum;
            for_each(x, c, [&](std::size_t i) {
                const double normal = (x.values[i] - mean) / deviation;
                input_gradients[0]->values[i] +=
                    scope.parameters[0][c] / deviation *
                    (g.values[i] - sum / count - normal * product / count);
            });
        }
    }

private:
    template <class F>
    static void for_each(const ReferenceTensor& x, std::int64_t channel, F&& f) {
        const ReferenceExtents e(x.shape);
        for (std::int64_t n = 0; n < x.samples; ++n) {
            for (std::int64_t p = 0; p < e.h * e.w; ++p) {
                f(cell((n * e.c + channel) * e.h * e.w + p));
            }
        }
    }
    static void moments(const ReferenceTensor& x, std::int64_t channel, double& mean,
                        double& variance) {
        double count = 0;
        mean = 0;
        variance = 0;
        for_each(x, channel, [&](std::size_t i) {
            mean += x.values[i];
            count += 1;
        });
        mean /= count;
        for_each(x, channel,
                 [&](std::size_t i) { variance += (x.values[i] - mean) * (x.values[i] - mean); });
        variance /= count;
    }

    double epsilon_;
};

class Activation final : public ReferenceLayer {
public:
    explicit Activation(ActivationKind kind) : kind_(kind) {}
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        ReferenceTensor y = *inputs[0];
        const std::vector<double> noted = scope.kinks != nullptr ? kinks() : std::vector<double>{};
        for (double& v : y.values) {
            for (const double at : noted) {
                scope.kinks->push_back({.side = v > at ? 1 : 0,
                                        .element = static_cast<std::size_t>(&v - y.values.data()),
                                        .distance = v - at});
            }
            v = value(v);
        }
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            input_gradients[0]->values[i] += g.values[i] * slope(inputs[0]->values[i]);
        }
    }

private:
    [[nodiscard]] std::vector<double> kinks() const {
        switch (kind_) {
            case ActivationKind::kRelu: return {0};
            case ActivationKind::kRelu6: return {0, bound()};
            default: return {};
        }
    }
    [[nodiscard]] double bound() const {
        return kind_ == ActivationKind::kRelu6 ? 6 : std::numeric_limits<double>::infinity();
    }
    [[nodiscard]] double value(double x) const {
        switch (kind_) {
            case ActivationKind::kRelu:
            case ActivationKind::kRelu6: return std::clamp(x, 0.0, bound());
            case ActivationKind::kGelu: return x * normal_cdf(x);
            case ActivationKind::kSigmoid: return 1 / (1 + std::exp(-x));
            case ActivationKind::kTanh: return std::tanh(x);
        }
        return 0;
    }
    [[nodiscard]] double slope(double x) const {
        const double y = value(x);
        switch (kind_) {
            case ActivationKind::kRelu:
            case ActivationKind::kRelu6: return x > 0 && x < bound() ? 1 : 0;
            case ActivationKind::kGelu:
                return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
            case ActivationKind::kSigmoid: return y * (1 - y);
            case ActivationKind::kTanh: return 1 - y * y;
        }
        return 0;
    }
    static double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

    ActivationKind kind_;
};

}  // namespace

ReferenceMade reference_conv(const ConvOptions& options) {
    return std::make_unique<Conv>(options);
}
ReferenceMade reference_linear(const LinearOptions& options) {
    return std::make_unique<Linear>(options);
}
ReferenceMade reference_batch_norm(const BatchNormOptions& options) {
    return std::make_unique<BatchNorm>(options);
}
ReferenceMade reference_activation(ActivationKind kind) {
    return std::make_unique<Activation>(kind);
}

}  // namespace cohort::test
