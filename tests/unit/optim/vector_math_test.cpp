#include "optim/vector_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cohort/core/error.hpp"
#include "support/optim/optimizer_run.hpp"

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

TEST(LookAhead, IsWhereHeavyBallGlidesTo) {
    OptimizerOptions options;
    options.momentum = 0.9;
    test::OptimizerRun run(options, {1.0F, -2.0F});
    run.update({0.5F, 1.0F}, 1, 0.1);
    run.update({0.25F, -3.0F}, 0.5, 0.1);
    for (const double lag : {0.0, 1.0, 3.0, 0.5}) {
        std::vector<float> ahead(2);
        look_ahead(run.theta, run.slot(0), 0.1, 0.9, lag, ahead);
        test::OptimizerRun later(options, run.theta);
        std::copy(run.slot(0).begin(), run.slot(0).end(), later.slot(0).begin());
        for (double left = lag; left > 0; left -= 0.5) {
            later.update({0.0F, 0.0F}, 0.5, 0.1);
        }
        EXPECT_NEAR(ahead[0], later.theta[0], 1e-6) << lag;
        EXPECT_NEAR(ahead[1], later.theta[1], 1e-6) << lag;
    }
}

TEST(LookAhead, NoLagOrNoMomentumChangesNothing) {
    EXPECT_EQ(look_ahead_factor(0.1, 0.9, 0), 0);
    EXPECT_EQ(look_ahead_factor(0.1, 0, 5), 0);
    // eta vel m (1 - m^L) / (1 - m) with u = (1 - m) vel
    EXPECT_NEAR(look_ahead_factor(0.1, 0.5, 2), 0.1 * 0.5 * 0.75 / 0.25, 1e-15);
    std::vector<float> out(1);
    EXPECT_THROW(look_ahead(std::vector<float>{1, 2}, std::vector<float>{1}, 0.1, 0.9, 1, out),
                 ShapeError);
}

}  // namespace
}  // namespace cohort
