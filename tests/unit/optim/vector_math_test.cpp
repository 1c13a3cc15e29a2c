#include "layers/optim/vector_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cohort {
namespace {

TEST(Norm, IsExactWhereTheSumIs) {
    for (const std::size_t n : {0U, 1U, 15U, 16U, 17U, 1003U}) {
        double expected = 0;
        std::vector<float> values(n);
        for (std::size_t i = 0; i < n; ++i) {
            values[i] = static_cast<float>(i % 7) - 3;
            expected += double{values[i]} * values[i];
        }
        EXPECT_EQ(sum_of_squares(values), expected) << n;
        EXPECT_EQ(norm(values), std::sqrt(expected)) << n;
    }
}

TEST(Norm, DoesNotOverflowOrLoseSmallTerms) {
    EXPECT_NEAR(norm(std::vector<float>{3e30F, 4e30F}), 5e30, 1e24);
    std::vector<float> values(1 << 20, 1e-4F);
    values[0] = 1;
    EXPECT_NEAR(sum_of_squares(values), 1 + ((1 << 20) - 1) * 1e-8, 1e-9);
}

TEST(Scaled, IsRoundedOncePerOperation) {
    constexpr float kFactor = 0.3F;
    for (const std::size_t n : {0U, 1U, 15U, 16U, 17U, 1003U}) {
        std::vector<float> from(n);
        for (std::size_t i = 0; i < n; ++i) {
            from[i] = 1.0F / static_cast<float>(i + 3);
        }
        std::vector<float> product(n);
        scale_into(product, from, kFactor);
        std::vector<float> sum(n, 0.7F);
        add_scaled(sum, from, kFactor);
        std::vector<float> in_place = from;
        scale_into(in_place, in_place, kFactor);
        for (std::size_t i = 0; i < n; ++i) {
            // The double product is exact, so the casts round once.
            const auto expected = static_cast<float>(double{kFactor} * from[i]);
            EXPECT_EQ(product[i], expected) << i;
            EXPECT_EQ(sum[i], static_cast<float>(double{0.7F} + expected)) << i;
        }
        EXPECT_EQ(in_place, product);
    }
}

}  // namespace
}  // namespace cohort
