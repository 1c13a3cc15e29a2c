#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "layers/cuda/dnn/product.hpp"
#include "layers/cuda/kernels/attention_kernels.hpp"
#include "layers/cuda/rules/part_sizes.hpp"
#include "layers/cuda/support.hpp"
#include "layers/kernels.hpp"

namespace cohort::cuda {

/// Attention by products: every head's queries, keys and values become matrices of their own,
/// padded so that products read 16 bytes at a time; scores and probabilities exist for a few
/// samples at a time, and backward makes them again from the logarithm of what divided a row.
/// Scores are single precision whatever the activations are. Cost per sample: 4 T^2 F flops forward
/// and 10 T^2 F backward, padding aside, and T^2 numbers per head, written and read within the
/// second-level cache.
class AttentionProducts {
public:
    AttentionProducts(const AttentionSpec& spec, const KernelContext& context);

    /// Makes those of so many samples. Errors: DeviceError.
    [[nodiscard]] KernelMemory prepare(std::int64_t samples);
    void forget(std::int64_t samples);
    /// @param slice  its saved memory is [samples, heads, positions] in single precision: the
    /// logarithms; null in inference
    void forward(const KernelSlice& slice);
    void backward(const KernelSlice& slice);

private:
    // Split parts in scratch: queries, keys and values, then the output; in backward the output's
    // gradient and those of queries, keys and values.
    static constexpr int kForwardParts = 4;
    static constexpr int kBackwardParts = 7;

    /// Products of one number of samples, for all heads at once.
    struct Products {
        std::unique_ptr<Product> scores;  ///< Q K^T, and the gradient of P: dO V^T
        std::unique_ptr<Product> output;  ///< P V, and dQ = dS K
        std::unique_ptr<Product> keys;    ///< dS^T Q, and dV = P^T dO
        std::size_t scratch = 0;
    };
    /// Offsets in the scratch of a call.
    struct Layout {
        std::size_t part = 0;           ///< bytes of a split part
        std::size_t parts = 0;          ///< of all of them
        std::size_t scores = 0;         ///< bytes, single precision
        std::size_t probabilities = 0;  ///< bytes; 0: they take the scores' place
        int squares = 1;                ///< in backward there are two of each

        [[nodiscard]] std::byte* score_place(std::byte* scratch, int square) const {
            return scratch + parts + static_cast<std::size_t>(square) * scores;
        }
        [[nodiscard]] std::byte* probability_place(std::byte* scratch, int square) const {
            return probabilities == 0 ? score_place(scratch, square)
                                      : score_place(scratch, squares) +
                                            static_cast<std::size_t>(square) * probabilities;
        }
        [[nodiscard]] std::byte* product_place(std::byte* scratch) const {
            return score_place(scratch, squares) +
                   static_cast<std::size_t>(squares) * probabilities;
        }
        [[nodiscard]] std::size_t bytes(std::size_t product) const {
            return parts + static_cast<std::size_t>(squares) * (scores + probabilities) + product;
        }
    };

    [[nodiscard]] HeadShape shape_of(std::int64_t samples) const;
    [[nodiscard]] std::int64_t divisors() const { return sample_.heads * sample_.positions; }
    [[nodiscard]] std::int64_t features() const { return sample_.heads * sample_.width; }
    [[nodiscard]] Layout layout(std::int64_t samples, int parts) const;
    [[nodiscard]] Products make(const HeadShape& shape) const;
    /// A tensor from a sample on. @param width  elements of a position
    [[nodiscard]] std::byte* at(const float* tensor, std::int64_t sample, std::int64_t width) const;
    [[nodiscard]] Scores scores_of(const KernelSlice& slice, std::int64_t first,
                                   std::int64_t samples, std::byte* scores) const;
    void forward_some(const KernelSlice& slice, std::int64_t first, std::int64_t samples);
    void backward_some(const KernelSlice& slice, std::int64_t first, std::int64_t samples);

    bool causal_;
    KernelContext context_;
    Support& support_;
    HeadShape sample_;  ///< of one sample
    PartSizes parts_{1};
    std::map<std::int64_t, Products> products_;
};

}  // namespace cohort::cuda
