#pragma once

#include <tuple>

namespace cohort {

/// What those who apply an update are asked about its mean gradient.
struct GradientQuestion {
    bool norm = false;     ///< the sum of its squares
    bool keep = false;     ///< to keep it, to compare later ones with
    bool compare = false;  ///< its product with the one kept
    [[nodiscard]] bool any() const noexcept { return norm || keep || compare; }

    auto fields() { return std::tie(norm, keep, compare); }
};

/// What they say, or a part of them; parts add up.
struct GradientAnswer {
    double squares = 0;  ///< of the mean gradient
    double product = 0;  ///< with the one kept

    void add(const GradientAnswer& part) noexcept {
        squares += part.squares;
        product += part.product;
    }
    auto fields() { return std::tie(squares, product); }
};

}  // namespace cohort
