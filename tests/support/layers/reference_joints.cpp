// Layers that move, select or add values: pooling, sums, concatenation, flatten, dropout.
#include <algorithm>

#include "cohort/core/rng.hpp"
#include "support/layers/reference_layers.hpp"

namespace cohort::test {
namespace {

using Inputs = std::vector<const ReferenceTensor*>;
using Gradients = std::vector<ReferenceTensor*>;

class Pool final : public ReferenceLayer {
public:
    Pool(PoolKind kind, const PoolOptions& options) : kind_(kind), o_(options) {}
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        const ReferenceTensor& x = *inputs[0];
        ReferenceTensor y(x.samples, output_shape(x.shape));
        for_each_window(x, [&](std::size_t out, const std::vector<std::size_t>& cells) {
            if (kind_ == PoolKind::kMax) {
                const std::size_t best = largest(x, cells);
                y.values[out] = x.values[best];
                if (scope.kinks != nullptr && cells.size() > 1) {
                    std::vector<std::size_t> others = cells;
                    std::erase(others, best);
                    const std::size_t second = largest(x, others);
                    scope.kinks->push_back({.side = static_cast<std::int64_t>(best),
                                            .element = best,
                                            .rival = second,
                                            .distance = x.values[best] - x.values[second]});
                }
                return;
            }
            for (const std::size_t cell : cells) {
                y.values[out] += x.values[cell] / divisor(cells);
            }
        });
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const ReferenceTensor& x = *inputs[0];
        std::vector<double>& to = input_gradients[0]->values;
        for_each_window(x, [&](std::size_t out, const std::vector<std::size_t>& cells) {
            if (kind_ == PoolKind::kMax) {
                to[largest(x, cells)] += g.values[out];
                return;
            }
            for (const std::size_t cell : cells) {
                to[cell] += g.values[out] / divisor(cells);
            }
        });
    }

private:
    [[nodiscard]] double divisor(const std::vector<std::size_t>& cells) const {
        return o_.count_padding ? static_cast<double>(o_.kernel.height * o_.kernel.width)
                                : static_cast<double>(cells.size());
    }
    static std::size_t largest(const ReferenceTensor& x, const std::vector<std::size_t>& cells) {
        return *std::max_element(cells.begin(), cells.end(), [&](std::size_t a, std::size_t b) {
            return x.values[a] < x.values[b];
        });
    }
    [[nodiscard]] Shape output_shape(const Shape& x) const {
        if (kind_ == PoolKind::kGlobalAverage) {
            return {x[0], 1, 1};
        }
        const std::int64_t height = x[1] + o_.padding.top + o_.padding.bottom;
        const std::int64_t width = x[2] + o_.padding.left + o_.padding.right;
        return {x[0],
                (height - o_.dilation.height * (o_.kernel.height - 1) - 1) / o_.stride.height + 1,
                (width - o_.dilation.width * (o_.kernel.width - 1) - 1) / o_.stride.width + 1};
    }
    /// f(output element, input elements of its window); cells in the padding do not exist.
    template <class F>
    void for_each_window(const ReferenceTensor& input, F&& f) const {
        const bool global = kind_ == PoolKind::kGlobalAverage;
        const ReferenceExtents x(input.shape);
        const ReferenceExtents y(output_shape(input.shape));
        const PerAxis kernel = global ? PerAxis(x.h, x.w) : o_.kernel;
        std::vector<std::size_t> cells;
        for (std::int64_t i = 0; i < input.samples * y.c * y.h * y.w; ++i) {
            const std::int64_t top = global ? 0 : i / y.w % y.h * o_.stride.height - o_.padding.top;
            const std::int64_t left = global ? 0 : i % y.w * o_.stride.width - o_.padding.left;
            const std::int64_t plane = i / (y.w * y.h);
            cells.clear();
            for (std::int64_t ky = 0; ky < kernel.height; ++ky) {
                for (std::int64_t kx = 0; kx < kernel.width; ++kx) {
                    const std::int64_t iy = top + ky * o_.dilation.height;
                    const std::int64_t ix = left + kx * o_.dilation.width;
                    if (x.holds(iy, ix)) {
                        cells.push_back(cell(x.index(plane / x.c, plane % x.c, iy, ix)));
                    }
                }
            }
            f(cell(i), cells);
        }
    }

    PoolKind kind_;
    PoolOptions o_;
};

class Add final : public ReferenceLayer {
public:
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& /*scope*/,
                                          const Inputs& inputs) const override {
        ReferenceTensor y = *inputs[0];
        for (std::size_t i = 0; i < y.values.size(); ++i) {
            y.values[i] += inputs[1]->values[i];
        }
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& /*inputs*/,
                  const ReferenceTensor& g, const Gradients& input_gradients) const override {
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            input_gradients[0]->values[i] += g.values[i];
            input_gradients[1]->values[i] += g.values[i];
        }
    }
};

class Concat final : public ReferenceLayer {
public:
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& /*scope*/,
                                          const Inputs& inputs) const override {
        const Shape& first = inputs[0]->shape;
        const int axis = first.rank() == 2 ? 1 : 0;
        std::vector<std::int64_t> extents(first.extents().begin(), first.extents().end());
        extents[cell(axis)] = 0;
        for (const ReferenceTensor* input : inputs) {
            extents[cell(axis)] += input->shape[axis];
        }
        ReferenceTensor y(inputs[0]->samples, Shape(extents));
        for_each(y, inputs, [&](std::size_t part, std::size_t in, std::size_t out) {
            y.values[out] = inputs[part]->values[in];
        });
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& inputs, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        for_each(g, inputs, [&](std::size_t part, std::size_t in, std::size_t out) {
            input_gradients[part]->values[in] += g.values[out];
        });
    }

private:
    /// f(part, element of the part, element of the whole)
    template <class F>
    static void for_each(const ReferenceTensor& whole, const Inputs& inputs, F&& f) {
        // [T,F] joins row by row, the others sample by sample.
        const std::int64_t rows = whole.shape.rank() == 2 ? whole.shape[0] : 1;
        const std::int64_t whole_size = whole.shape.elements() / rows;
        std::int64_t before = 0;
        for (std::size_t part = 0; part < inputs.size(); ++part) {
            const std::int64_t size = inputs[part]->shape.elements() / rows;
            for (std::int64_t i = 0; i < whole.samples * rows * size; ++i) {
                f(part, cell(i), cell(i / size * whole_size + before + i % size));
            }
            before += size;
        }
    }
};

class Flatten final : public ReferenceLayer {
public:
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& /*scope*/,
                                          const Inputs& inputs) const override {
        ReferenceTensor y = *inputs[0];
        y.shape = Shape{inputs[0]->shape.elements()};
        return y;
    }
    void backward(const ReferenceScope& /*scope*/, const Inputs& /*inputs*/,
                  const ReferenceTensor& g, const Gradients& input_gradients) const override {
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            input_gradients[0]->values[i] += g.values[i];
        }
    }
};

/// The mask of an element is a function of (seed, layer, sample id, epoch, row-major position).
class Dropout final : public ReferenceLayer {
public:
    Dropout(float probability, std::uint32_t stream) : probability_(probability), stream_(stream) {}
    [[nodiscard]] ReferenceTensor forward(const ReferenceScope& scope,
                                          const Inputs& inputs) const override {
        ReferenceTensor y = *inputs[0];
        const std::vector<double> scales = mask(scope, y);
        for (std::size_t i = 0; i < scales.size(); ++i) {
            y.values[i] *= scales[i];
        }
        return y;
    }
    void backward(const ReferenceScope& scope, const Inputs& /*inputs*/, const ReferenceTensor& g,
                  const Gradients& input_gradients) const override {
        const std::vector<double> scales = mask(scope, g);
        for (std::size_t i = 0; i < scales.size(); ++i) {
            input_gradients[0]->values[i] += g.values[i] * scales[i];
        }
    }

private:
    [[nodiscard]] std::vector<double> mask(const ReferenceScope& scope,
                                           const ReferenceTensor& x) const {
        std::vector<double> scales(x.values.size(), 1.0);
        if (!scope.training) {
            return scales;
        }
        const std::int64_t size = x.shape.elements();
        for (std::int64_t n = 0; n < x.samples; ++n) {
            Rng rng(scope.seed, RngPurpose::kDropout,
                    static_cast<std::uint64_t>(scope.sample_ids[n]),
                    (stream_ << 16U) ^ scope.epoch);
            for (std::int64_t i = 0; i < size; ++i) {
                scales[cell(n * size + i)] = rng.next_uniform() >= probability_
                                                 ? 1 / (1 - static_cast<double>(probability_))
                                                 : 0.0;
            }
        }
        return scales;
    }

    float probability_;
    std::uint32_t stream_;
};

}  // namespace

ReferenceMade reference_pool(PoolKind kind, const PoolOptions& options) {
    return std::make_unique<Pool>(kind, options);
}
ReferenceMade reference_add() {
    return std::make_unique<Add>();
}
ReferenceMade reference_concat() {
    return std::make_unique<Concat>();
}
ReferenceMade reference_flatten() {
    return std::make_unique<Flatten>();
}
ReferenceMade reference_dropout(float probability, std::uint32_t stream) {
    return std::make_unique<Dropout>(probability, stream);
}

}  // namespace cohort::test
