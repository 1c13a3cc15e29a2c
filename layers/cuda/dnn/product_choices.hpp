#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "layers/cuda/dnn/blas.hpp"

namespace cohort::cuda {

/// Algorithms that were fastest for products of one replica, which batches of other sizes use too.
class ProductChoices {
public:
    void add(const ProductShape& shape, const cublasLtMatmulAlgo_t& algorithm) {
        const auto known = std::ranges::find(choices_, shape, &Choice::shape);
        if (known != choices_.end()) {
            known->algorithm = algorithm;
        } else {
            choices_.push_back({shape, algorithm});
        }
    }
    /// That of the product which differs in the batch's size alone, by the least
    /// factor and by no more than two. nullptr: there is none.
    [[nodiscard]] const cublasLtMatmulAlgo_t* nearest(const ProductShape& shape) const {
        std::int64_t ProductShape::*const rows = batch_rows(shape);
        const Choice* nearest = nullptr;
        double least = 2;
        for (const Choice& choice : choices_) {
            ProductShape same = choice.shape;
            same.*rows = shape.*rows;
            const auto size = static_cast<double>(shape.*rows);
            const auto known = static_cast<double>(choice.shape.*rows);
            const double ratio = std::max(size, known) / std::min(size, known);
            if (same == shape && ratio <= least) {
                least = ratio;
                nearest = &choice;
            }
        }
        return nearest == nullptr ? nullptr : &nearest->algorithm;
    }

private:
    struct Choice {
        ProductShape shape;
        cublasLtMatmulAlgo_t algorithm;
    };

    /// The gradient of a weight sums over the batch, products of several matrices have some for
    /// each sample, others a row.
    static std::int64_t ProductShape::*batch_rows(const ProductShape& shape) noexcept {
        return shape.batch > 1     ? &ProductShape::batch
               : shape.transpose_a ? &ProductShape::depth
                                   : &ProductShape::rows;
    }

    std::vector<Choice> choices_;
};

}  // namespace cohort::cuda
