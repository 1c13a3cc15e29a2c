#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/layers/layer.hpp"

namespace cohort::test {

/// A batch of samples in double precision, row-major [N,C,H,W], [N,T,F] or [N,F].
struct ReferenceTensor {
    std::int64_t samples = 0;
    Shape shape;
    std::vector<double> values;

    ReferenceTensor() = default;
    ReferenceTensor(std::int64_t count, const Shape& sample)
        : samples(count),
          shape(sample),
          values(static_cast<std::size_t>(count * sample.elements()), 0.0) {}
};

/// An index of `values`.
inline std::size_t cell(std::int64_t index) {
    return static_cast<std::size_t>(index);
}

/// Extents of a sample; [F] is [F,1,1].
struct ReferenceExtents {
    std::int64_t c, h, w;
    explicit ReferenceExtents(const Shape& s)
        : c(s[0]), h(s.rank() == 3 ? s[1] : 1), w(s.rank() == 3 ? s[2] : 1) {}
    [[nodiscard]] std::int64_t index(std::int64_t n, std::int64_t k, std::int64_t y,
                                     std::int64_t x) const {
        return ((n * c + k) * h + y) * w + x;
    }
    [[nodiscard]] bool holds(std::int64_t y, std::int64_t x) const {
        return y >= 0 && y < h && x >= 0 && x < w;
    }
};

/// Where a slope jumps: a ReLU at the ends of its range, a maximum where two candidates are equal.
struct ReferenceKink {
    std::int64_t side = 0;             ///< which slope was taken
    std::size_t element = 0;           ///< of the layer's first input
    std::optional<std::size_t> rival;  ///< the second largest; none: a bound is compared with
    double distance = 0;               ///< element minus rival or minus the nearest bound
    int value = 0;                     ///< index of that input among the network's values
};

/// What one layer sees of a run.
struct ReferenceScope {
    bool training = true;
    std::uint64_t seed = 0;
    std::uint32_t epoch = 0;
    const std::int64_t* sample_ids = nullptr;
    std::vector<const double*> parameters;  ///< canonical order: weight, bias
    std::vector<double*> gradients;         ///< += ; as parameters
    std::vector<const double*> state;       ///< running mean, variance
    std::vector<double*> batch_state;
    /// Those of piecewise layers are appended, unless there is nowhere to.
    std::vector<ReferenceKink>* kinks = nullptr;
};

/// A layer as plain loops over canonical data: slow, and short enough to be read.
class ReferenceLayer {
public:
    ReferenceLayer() = default;
    ReferenceLayer(const ReferenceLayer&) = delete;
    ReferenceLayer& operator=(const ReferenceLayer&) = delete;
    virtual ~ReferenceLayer() = default;
    /// Ends of the names of its parameters and its state, in canonical order.
    [[nodiscard]] virtual std::vector<std::string> parameters() const { return {}; }
    [[nodiscard]] virtual std::vector<std::string> state() const { return {}; }
    [[nodiscard]] virtual ReferenceTensor forward(
        const ReferenceScope& scope, const std::vector<const ReferenceTensor*>& inputs) const = 0;
    /// Adds to the inputs' gradients and to the parameters'.
    virtual void backward(const ReferenceScope& scope,
                          const std::vector<const ReferenceTensor*>& inputs,
                          const ReferenceTensor& gradient,
                          const std::vector<ReferenceTensor*>& input_gradients) const = 0;
};

using ReferenceMade = std::unique_ptr<ReferenceLayer>;
[[nodiscard]] ReferenceMade reference_conv(const ConvOptions& options);
[[nodiscard]] ReferenceMade reference_linear(const LinearOptions& options);
[[nodiscard]] ReferenceMade reference_lstm(const LstmOptions& options);
[[nodiscard]] ReferenceMade reference_last_position();
/// Its input holds tokens.
[[nodiscard]] ReferenceMade reference_embedding(const EmbeddingOptions& options);
[[nodiscard]] ReferenceMade reference_position(const PositionOptions& options);
[[nodiscard]] ReferenceMade reference_layer_norm(const LayerNormOptions& options);
[[nodiscard]] ReferenceMade reference_attention(const AttentionOptions& options);
[[nodiscard]] ReferenceMade reference_batch_norm(const BatchNormOptions& options);
[[nodiscard]] ReferenceMade reference_activation(ActivationKind kind);
[[nodiscard]] ReferenceMade reference_pool(PoolKind kind, const PoolOptions& options);
[[nodiscard]] ReferenceMade reference_add();
[[nodiscard]] ReferenceMade reference_concat();
[[nodiscard]] ReferenceMade reference_flatten();
[[nodiscard]] ReferenceMade reference_dropout(float probability, std::uint32_t stream);

}  // namespace cohort::test
