#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/interface.hpp"
#include "cohort/core/words.hpp"
#include "cohort/layers/kernel.hpp"
#include "cohort/layers/options.hpp"
#include "cohort/tensor/shape.hpp"

namespace cohort {

/// How a parameter is drawn at the start.
enum class Initialisation {
    kHeNormal,  ///< normal, variance 2 / fan-in (He et al. 2015)
    kZero,
    kOne,
    kUniform,     ///< uniform in +-1/sqrt(fan-in)
    kForgetGate,  ///< gate biases of an LSTM: 1 for the forget gate, else 0 (Gers et al. 2000)
};

/// A tensor a layer owns: trainable (parameter) or not (state).
struct TensorSpec {
    std::string name;  ///< "weight", "bias", "running_mean", ...
    Shape shape;
    Initialisation initialisation = Initialisation::kZero;
    bool decay = true;  ///< weight decay applies (parameters only)
};

/// A layer's options by the names that they have in options.hpp; yes and no are 1 and 0. One number
/// each, or several where they are not all the same: height and width; top, left, bottom and right.
using LayerAttributes = std::map<std::string, std::vector<double>, std::less<>>;

/// What a layer computes, independent of device and batch size. Immutable.
class Layer : public Interface {
public:
    /// "conv", "batch_norm", ...
    [[nodiscard]] virtual std::string_view kind() const = 0;
    /// What make_layer needs to make a layer that computes the same, fusions left aside.
    [[nodiscard]] virtual LayerAttributes attributes() const = 0;
    /// Shape of one output sample. Errors: ShapeError.
    [[nodiscard]] virtual Shape infer(std::span<const Shape> inputs) const = 0;
    [[nodiscard]] virtual std::vector<TensorSpec> parameters(
        std::span<const Shape> /*inputs*/) const {
        return {};
    }
    [[nodiscard]] virtual std::vector<TensorSpec> state(std::span<const Shape> /*inputs*/) const {
        return {};
    }
    /// Floating-point operations of the forward pass of one sample (a multiply-add counts 2).
    [[nodiscard]] virtual double forward_flops(std::span<const Shape> /*inputs*/) const {
        return 0;
    }
    /// The same computation with `relu` applied to its output, or nullptr when this layer has no
    /// fused form.
    [[nodiscard]] virtual std::shared_ptr<const Layer> with_relu() const { return nullptr; }
    /// The same computation with a second input added to the output, or nullptr.
    [[nodiscard]] virtual std::shared_ptr<const Layer> with_add() const { return nullptr; }

    /// Makes the layer's kernel for a device. Errors: DeviceError when the device has none.
    [[nodiscard]] virtual std::unique_ptr<Kernel> compile(const KernelContext& context) const = 0;
    /// The layer and the softmax cross entropy of its output as one kernel for training, which
    /// never has the logits of a whole batch in memory; nullptr when there is none.
    [[nodiscard]] virtual std::unique_ptr<Kernel> compile_with_loss(
        const KernelContext& /*context*/) const {
        return nullptr;
    }
};

/// The layer of that kind with those attributes. Errors: UsageError for an unknown kind, an
/// attribute that is missing, unknown or no number of its type; ShapeError for options that do not
/// fit.
[[nodiscard]] std::shared_ptr<const Layer> make_layer(std::string_view kind,
                                                      const LayerAttributes& attributes);

[[nodiscard]] std::shared_ptr<const Layer> make_conv(const ConvOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_linear(const LinearOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_lstm(const LstmOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_last_position();
/// @param vocabulary  different tokens, the rows of its table
[[nodiscard]] std::shared_ptr<const Layer> make_embedding(const EmbeddingOptions& options,
                                                          std::int64_t vocabulary);
[[nodiscard]] std::shared_ptr<const Layer> make_position(const PositionOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_layer_norm(const LayerNormOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_attention(const AttentionOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_batch_norm(const BatchNormOptions& options);
enum class ActivationKind { kRelu, kGelu, kSigmoid, kTanh, kRelu6 };
template <>
inline constexpr auto kWords<ActivationKind> =
    std::to_array<std::string_view>({"relu", "gelu", "sigmoid", "tanh", "relu6"});
/// The largest output of a ReLU6.
inline constexpr float kRelu6Bound = 6;
[[nodiscard]] std::shared_ptr<const Layer> make_activation(ActivationKind kind);
enum class PoolKind { kMax, kAverage, kGlobalAverage };
template <>
inline constexpr auto kWords<PoolKind> =
    std::to_array<std::string_view>({"max_pool", "average_pool", "global_average_pool"});
[[nodiscard]] std::shared_ptr<const Layer> make_pool(PoolKind kind, const PoolOptions& options);
[[nodiscard]] std::shared_ptr<const Layer> make_add();
[[nodiscard]] std::shared_ptr<const Layer> make_concat();
[[nodiscard]] std::shared_ptr<const Layer> make_flatten();
/// @param stream  second key of the masks: distinguishes the dropouts of one network
[[nodiscard]] std::shared_ptr<const Layer> make_dropout(float probability, std::uint32_t stream);

}  // namespace cohort
