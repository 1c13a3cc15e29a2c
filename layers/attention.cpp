// Attention: [T,3F] -> [T,F], scaled dot products over heads (Vaswani et al. 2017, section 3.2) of
// queries, keys and values that lie side by side in the input; and its kernel for the CPU.
//   output of head h = softmax(Q K^T / sqrt(d)) V with d = F / heads; causal: a position sees
//   itself and those before it.
// A block of queries at a time meets all keys that it may see, so that scores take O(T) memory per
// team member (as in Rabe & Staats 2021); of the probabilities only the logarithm of their common
// divisor is kept, backward makes them again (Dao et al. 2022). Cost per sample: 4 T^2 F flops
// forward and 10 T^2 F backward, about half of them when causal.
#include <algorithm>
#include <cmath>

#include "cohort/core/error.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/softmax_loops.hpp"
#include "layers/kernels.hpp"

namespace cohort {
namespace {

class AttentionCpu final : public Kernel {
public:
    AttentionCpu(const AttentionSpec& spec, const KernelContext& context)
        : options_(spec.options),
          positions_(context.inputs.at(0).shape[0]),
          features_(context.inputs[0].shape[1] / 3),
          head_(features_ / options_.heads),
          block_(std::min(positions_, kQueries)),
          scale_(1.0F / std::sqrt(static_cast<float>(head_))) {
        traits_.output = {Shape{positions_, features_}, 1};
        traits_.saved_bytes =
            context.training ? static_cast<std::size_t>(options_.heads * positions_) * sizeof(float)
                             : 0;
    }

    [[nodiscard]] KernelMemory prepare(std::span<const std::int64_t> /*sizes*/) override {
        const std::size_t scores = static_cast<std::size_t>(block_ * positions_) * sizeof(float);
        return {.forward_scratch = scores, .backward_scratch = 2 * scores};
    }

    void forward(int /*pass*/, const KernelSlice& slice) override {
        for (std::int64_t i = 0; i < slice.samples * options_.heads; ++i) {
            const Head at = head(slice, i);
            for (std::int64_t first = 0; first < positions_; first += block_) {
                forward_block(at, block_at(first));
            }
        }
    }

    void backward(int /*pass*/, const KernelSlice& slice) override {
        if (slice.input_gradients[0] == nullptr) {
            return;
        }
        for (std::int64_t i = 0; i < slice.samples * options_.heads; ++i) {
            const Head at = head(slice, i);
            // The last block sees all keys: it assigns their gradients, the others add.
            for (std::int64_t first = (positions_ - 1) / block_ * block_; first >= 0;
                 first -= block_) {
                backward_block(at, block_at(first));
            }
        }
    }

private:
    static constexpr std::int64_t kQueries = 64;

    /// One head of one sample. Rows of queries, keys and values lie 3 F floats apart, those of the
    /// output F.
    struct Head {
        const float* queries;
        float* output;
        const float* output_gradient;
        float* queries_gradient;
        float* divisors;       ///< [T], logarithms; null outside of training
        float* probabilities;  ///< [queries of a block, keys]
        float* scores_gradient;
    };
    /// Queries [first, first + queries) and the keys that they see.
    struct Block {
        std::int64_t first;
        std::int64_t queries;
        std::int64_t keys;
    };

    [[nodiscard]] Block block_at(std::int64_t first) const {
        const std::int64_t queries = std::min(block_, positions_ - first);
        return {first, queries, options_.causal ? first + queries : positions_};
    }
    /// Keys that a query of a block sees.
    [[nodiscard]] std::int64_t seen(const Block& block, std::int64_t query) const {
        return options_.causal ? block.first + query + 1 : block.keys;
    }

    [[nodiscard]] Head head(const KernelSlice& slice, std::int64_t index) const {
        const std::int64_t sample = index / options_.heads;
        const std::int64_t column = index % options_.heads * head_;
        const std::int64_t input = sample * positions_ * 3 * features_ + column;
        const std::int64_t output = sample * positions_ * features_ + column;
        auto* scratch = reinterpret_cast<float*>(slice.scratch);
        const bool backward = slice.output_gradient != nullptr;
        return {.queries = slice.inputs[0] + input,
                .output = backward ? nullptr : slice.output + output,
                .output_gradient = backward ? slice.output_gradient + output : nullptr,
                .queries_gradient = backward ? slice.input_gradients[0] + input : nullptr,
                .divisors = slice.saved == nullptr
                                ? nullptr
                                : reinterpret_cast<float*>(slice.saved) + index * positions_,
                .probabilities = scratch,
                .scores_gradient = scratch + block_ * positions_};
    }

    /// Puts the products of queries and keys in the place of the probabilities.
    void multiply_keys(const Head& at, const Block& block) const {
        sgemm('N', 'T', block.queries, block.keys, head_, at.queries + block.first * 3 * features_,
              3 * features_, at.queries + features_, 3 * features_, 0.0F, at.probabilities,
              block.keys);
    }

    void forward_block(const Head& at, const Block& block) const {
        multiply_keys(at, block);
        for (std::int64_t query = 0; query < block.queries; ++query) {
            float* row = at.probabilities + query * block.keys;
            const std::int64_t keys = seen(block, query);
            const float divisor = softmax_row(row, keys, scale_);
            std::fill(row + keys, row + block.keys, 0.0F);
            if (at.divisors != nullptr) {
                at.divisors[block.first + query] = divisor;
            }
        }
        sgemm('N', 'N', block.queries, head_, block.keys, at.probabilities, block.keys,
              at.queries + 2 * features_, 3 * features_, 0.0F, at.output + block.first * features_,
              features_);
    }

    void backward_block(const Head& at, const Block& block) const {
        const std::int64_t row = 3 * features_;
        const float* queries = at.queries + block.first * row;
        const float* gradient = at.output_gradient + block.first * features_;
        float* queries_gradient = at.queries_gradient + block.first * row;
        const float beta = block.first + block_ >= positions_ ? 0.0F : 1.0F;
        multiply_keys(at, block);
        sgemm('N', 'T', block.queries, block.keys, head_, gradient, features_,
              at.queries + 2 * features_, row, 0.0F, at.scores_gradient, block.keys);
        for (std::int64_t query = 0; query < block.queries; ++query) {
            float* probabilities = at.probabilities + query * block.keys;
            float* scores = at.scores_gradient + query * block.keys;
            const std::int64_t keys = seen(block, query);
            softmax_again(probabilities, keys, scale_, at.divisors[block.first + query]);
            softmax_backward(probabilities, keys, scale_, scores);
            std::fill(probabilities + keys, probabilities + block.keys, 0.0F);
            std::fill(scores + keys, scores + block.keys, 0.0F);
        }
        sgemm('T', 'N', block.keys, head_, block.queries, at.probabilities, block.keys, gradient,
              features_, beta, at.queries_gradient + 2 * features_, row);
        sgemm('T', 'N', block.keys, head_, block.queries, at.scores_gradient, block.keys, queries,
              row, beta, at.queries_gradient + features_, row);
        sgemm('N', 'N', block.queries, head_, block.keys, at.scores_gradient, block.keys,
              at.queries + features_, row, 0.0F, queries_gradient, row);
    }

    AttentionOptions options_;
    std::int64_t positions_;
    std::int64_t features_;  ///< of the output
    std::int64_t head_;      ///< features of a head
    std::int64_t block_;     ///< queries at a time
    float scale_;
};

class Attention final : public SpecLayer<AttentionSpec, AttentionCpu> {
public:
    explicit Attention(const AttentionSpec& spec) : SpecLayer(spec) {
        if (spec.options.heads < 1) {
            fail<ShapeError>({.where = "attention", .what = "heads must be at least 1"});
        }
    }
    [[nodiscard]] std::string_view kind() const override { return "attention"; }
    [[nodiscard]] Shape infer(std::span<const Shape> inputs) const override {
        const Shape& joined = only_input("attention", inputs, 2);
        if (joined[1] % 3 != 0 || joined[1] / 3 % spec_.options.heads != 0) {
            fail<ShapeError>({.where = "attention",
                              .what = "the width does not divide into heads",
                              .expected = "[T,3F], F a multiple of " +
                                          std::to_string(spec_.options.heads) + " heads",
                              .got = to_string(joined)});
        }
        return {joined[0], joined[1] / 3};
    }
    [[nodiscard]] double forward_flops(std::span<const Shape> inputs) const override {
        const auto positions = static_cast<double>(inputs[0][0]);
        const double pairs =
            spec_.options.causal ? positions * (positions + 1) / 2 : positions * positions;
        const std::int64_t width = inputs[0][1] / 3;
        return 4.0 * pairs * static_cast<double>(width);
    }
};

}  // namespace

std::shared_ptr<const Layer> make_attention(const AttentionOptions& options) {
    return std::make_shared<Attention>(AttentionSpec{options});
}

}  // namespace cohort
