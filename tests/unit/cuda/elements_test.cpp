// Numerics and index arithmetic of the elementwise kernels, on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/tensor/cuda/elements.cuh"
#include "layers/cuda/kernels/matrix_kernels.hpp"
#include "layers/cuda/rules/activation_rules.hpp"
#include "layers/cuda/rules/lstm_weights.hpp"

namespace cohort::cuda {
namespace {

TEST(Elements, RoundToNearestEvenAndOverflowToInfinity) {
    // bfloat16 has 8 significant bits, half precision 11.
    EXPECT_EQ(to_float(from_float<__nv_bfloat16>(1.0F + 0x1p-8F)), 1.0F);
    EXPECT_EQ(to_float(from_float<__nv_bfloat16>(1.0F + 0x1.8p-7F)), 1.0F + 0x1p-6F);
    EXPECT_EQ(to_float(from_float<__nv_bfloat16>(-3.0e38F)), -0x1.c4p127F);
    EXPECT_EQ(to_float(from_float<__half>(1.0F + 0x1p-11F)), 1.0F);
    EXPECT_EQ(to_float(from_float<__half>(1.0F + 0x1.8p-10F)), 1.0F + 0x1p-9F);
    EXPECT_EQ(to_float(from_float<__half>(65504.0F)), 65504.0F);
    EXPECT_TRUE(std::isinf(to_float(from_float<__half>(70000.0F))));
    EXPECT_TRUE(std::isnan(to_float(from_float<__half>(std::nanf("")))));
    EXPECT_TRUE(std::isnan(to_float(from_float<__nv_bfloat16>(std::nanf("")))));
    EXPECT_EQ(from_float<float>(0.1F), 0.1F);
}

TEST(Elements, PacksAreSixteenBytes) {
    EXPECT_EQ(Pack<float>::kSize, 4);
    EXPECT_EQ(Pack<__half>::kSize, 8);
    EXPECT_EQ(sizeof(Pack<__nv_bfloat16>), 16U);
}

TEST(Elements, LaunchesCoverSmallCountsAndFillTheGpuWithLargeOnes) {
    EXPECT_EQ(launch_for(0, 100).blocks, 1U);
    EXPECT_EQ(launch_for(256, 100).blocks, 1U);
    EXPECT_EQ(launch_for(257, 100).blocks, 2U);
    EXPECT_EQ(launch_for(std::int64_t{1} << 40, 100).blocks, 100U);
}

double gelu_in_double(double x) {
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

TEST(Activations, AreTheirFormulas) {
    for (double x = -6; x <= 6; x += 0.03125) {
        const auto single = static_cast<float>(x);
        EXPECT_NEAR(gelu(single), gelu_in_double(x), 1e-6 + 1e-6 * std::abs(x));
        EXPECT_NEAR(sigmoid(single), 1 / (1 + std::exp(-x)), 1e-6);
        EXPECT_EQ(relu_of(single), std::max(single, 0.0F));
    }
    EXPECT_EQ(sigmoid(-200.0F), 0.0F);
    EXPECT_EQ(sigmoid(200.0F), 1.0F);
}

TEST(Activations, SlopesAreThoseOfTheFormulas) {
    constexpr double kStep = 1e-5;
    for (double x = -5; x <= 5; x += 0.0625) {
        const auto slope = [&](auto&& f) { return (f(x + kStep) - f(x - kStep)) / (2 * kStep); };
        const double gelu_true = slope(gelu_in_double);
        const double sigmoid_true = slope([](double v) { return 1 / (1 + std::exp(-v)); });
        const double tanh_true = slope([](double v) { return std::tanh(v); });
        const auto single = static_cast<float>(x);
        EXPECT_NEAR(gelu_slope(single, 3.0F), 3 * gelu_true, 1e-5);
        EXPECT_NEAR(sigmoid_slope(sigmoid(single), 3.0F), 3 * sigmoid_true, 1e-5);
        EXPECT_NEAR(tanh_slope(std::tanh(single), 3.0F), 3 * tanh_true, 1e-5);
    }
    EXPECT_EQ(relu_slope(0.0F, 3.0F), 0.0F);
    EXPECT_EQ(relu_slope(0.5F, 3.0F), 3.0F);
}

TEST(Activations, PassNanOn) {
    const float nan = std::nanf("");
    EXPECT_TRUE(std::isnan(relu_of(nan)));
    EXPECT_TRUE(std::isnan(gelu(nan)));
    EXPECT_TRUE(std::isnan(sigmoid(nan)));
    EXPECT_TRUE(std::isnan(relu_slope(nan, nan)));
    EXPECT_TRUE(std::isnan(gelu_slope(nan, 1.0F)));
}

/// The copy as the kernel does it, `unit` elements at a time.
std::vector<int> copied(const ColumnCopy& copy, std::int64_t unit, const std::vector<int>& from,
                        std::size_t size) {
    std::vector<int> to(size, -1);
    const ColumnCopy units = in_units(copy, unit);
    for (std::int64_t i = 0; i < units.rows * units.filled; ++i) {
        const CopyPlaces places = copy_places(units, static_cast<std::uint32_t>(i));
        const CopyPlaces wide = copy_places(units, static_cast<std::uint64_t>(i));
        EXPECT_EQ(wide.from, places.from);
        EXPECT_EQ(wide.to, places.to);
        for (std::int64_t j = 0; j < unit; ++j) {
            to.at(static_cast<std::size_t>(places.to * unit + j)) =
                places.from < 0 ? 0 : from.at(static_cast<std::size_t>(places.from * unit + j));
        }
    }
    return to;
}

TEST(ColumnCopy, TakesEveryColumnToItsPlaceWhateverTheUnit) {
    const ColumnCopy copy{.rows = 3,
                          .width = 8,
                          .filled = 12,
                          .from_stride = 16,
                          .from_column = 4,
                          .to_stride = 20,
                          .to_column = 8};
    std::vector<int> from(48);
    std::iota(from.begin(), from.end(), 100);
    std::vector<int> wanted(60, -1);
    for (std::size_t row = 0; row < 3; ++row) {
        for (std::size_t column = 0; column < 12; ++column) {
            wanted[row * 20 + 8 + column] = column < 8 ? from[row * 16 + 4 + column] : 0;
        }
    }
    for (const std::int64_t unit : {1, 2, 4}) {
        EXPECT_EQ(copied(copy, unit, from, 60), wanted) << unit;
    }
}

TEST(ColumnCopy, TakesTheWidestUnitThatFitsAllNumbers) {
    ColumnCopy copy{.rows = 3,
                    .width = 8,
                    .filled = 8,
                    .from_stride = 16,
                    .from_column = 8,
                    .to_stride = 24,
                    .to_column = 0};
    EXPECT_EQ(copy_unit_bytes(copy, 2), 16);
    EXPECT_EQ(copy_unit_bytes(copy, 4), 16);
    copy.to_column = 4;
    EXPECT_EQ(copy_unit_bytes(copy, 2), 8);
    copy.from_stride = 17;
    EXPECT_EQ(copy_unit_bytes(copy, 2), 2);
    EXPECT_EQ(copy_unit_bytes(copy, 4), 4);
}

TEST(LstmWeights, EveryParameterHasItsPlaceInTheRightMatrix) {
    LstmWeights weights{.features = 3, .hidden = 5, .offsets = {}};
    std::int64_t next = 10;  // parts apart, in an order that is not ours
    for (const int part : {7, 0, 11, 2, 1, 9, 8, 3, 5, 4, 10, 6}) {
        weights.offsets[part] = next;
        next += weights.part_elements(part) + 2;
    }
    const std::int64_t width[3] = {3, 5, 1};
    std::int64_t i = 0;
    for (int parameter = 0; parameter < 3; ++parameter) {
        for (std::int64_t row = 0; row < 4 * 5; ++row) {  // gate by gate, 5 rows each
            for (std::int64_t column = 0; column < width[parameter]; ++column) {
                const LstmPlace place = lstm_place(weights, i++);
                const auto gate = static_cast<int>(row / 5);
                ASSERT_EQ(place.parameter, parameter);
                ASSERT_EQ(place.ours, row * width[parameter] + column);
                ASSERT_EQ(place.theirs, weights.offsets[4 * parameter + gate] +
                                            row % 5 * width[parameter] + column);
            }
        }
    }
    EXPECT_EQ(i, weights.elements());
}

}  // namespace
}  // namespace cohort::cuda
