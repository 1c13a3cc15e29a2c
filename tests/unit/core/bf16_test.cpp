#include "core/bf16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace cohort {
namespace {

using Limits = std::numeric_limits<float>;

std::uint16_t narrowed(float value) {
    std::uint16_t to = 0;
    narrow_to_bf16({&value, 1}, &to);
    return to;
}

float widened(std::uint16_t value) {
    float to = 0;
    widen_bf16(&value, {&to, 1});
    return to;
}

/// Of the two neighbours the nearer one, of equally near ones the even one.
std::uint16_t slow_nearest(float value) {
    const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
    const auto above = static_cast<std::uint16_t>(below + 1U);
    const double from_below = std::abs(double{value} - double{widened(below)});
    const double from_above = std::abs(double{widened(above)} - double{value});
    if (from_below == from_above) {
        return below % 2 == 0 ? below : above;
    }
    return from_below < from_above ? below : above;
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
    std::mt19937 random(3);
    for (int i = 0; i < 200'000; ++i) {
        // Half of them ties, and all magnitudes but the largest.
        auto bits = static_cast<std::uint32_t>(random()) & 0xfeffffffU;
        bits = i % 2 == 0 ? bits : (bits & 0xffff0000U) | 0x8000U;
        const auto value = std::bit_cast<float>(bits);
        ASSERT_EQ(narrowed(value), slow_nearest(value)) << value;
    }
}

TEST(Bf16, KeepsWhatItHoldsExactly) {
    for (std::uint32_t value = 0; value <= 0xffffU; ++value) {
        const auto shorter = static_cast<std::uint16_t>(value);
        if (std::isnan(widened(shorter))) {
            EXPECT_TRUE(std::isnan(widened(narrowed(widened(shorter)))));
        } else {
            ASSERT_EQ(narrowed(widened(shorter)), shorter);
        }
    }
}

TEST(Bf16, InfinityAndNanStayWhatTheyAre) {
    EXPECT_EQ(widened(narrowed(Limits::infinity())), Limits::infinity());
    EXPECT_EQ(widened(narrowed(-Limits::infinity())), -Limits::infinity());
    EXPECT_EQ(widened(narrowed(Limits::max())), Limits::infinity());
    // A NaN whose payload lies in the bits that go.
    EXPECT_TRUE(std::isnan(widened(narrowed(std::bit_cast<float>(0x7f800001U)))));
    EXPECT_TRUE(std::isnan(widened(narrowed(std::bit_cast<float>(0xffffffffU)))));
}

TEST(Bf16, WidensInPlaceForEverySize) {
    for (const std::size_t size : {0U, 1U, 2U, 3U, 511U, 512U, 513U, 1025U, 5000U}) {
        std::vector<float> values(size);
        std::vector<std::uint16_t> shorts(size);
        for (std::size_t i = 0; i < size; ++i) {
            values[i] = static_cast<float>(i) - 7.5F;
        }
        narrow_to_bf16(values, shorts.data());
        std::vector<float> memory(size, -1);
        std::byte* const bytes = std::as_writable_bytes(std::span(memory)).data();
        if (size > 0) {
            std::memcpy(bytes + size * sizeof(std::uint16_t), shorts.data(),
                        size * sizeof(std::uint16_t));
        }
        widen_bf16_in_place(memory);
        for (std::size_t i = 0; i < size; ++i) {
            ASSERT_EQ(memory[i], widened(shorts[i])) << i << " of " << size;
        }
    }
}

TEST(Bf16, WhatIsRoundedAwayIsExactAndAddedTheNextTime) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> values(1003);
    std::vector<float> rest(values.size());
    std::vector<double> sent(values.size());
    std::vector<double> made(values.size());
    std::vector<std::uint16_t> to(values.size());
    for (int step = 0; step < 200; ++step) {
        for (float& value : values) {
            value = normal(random);
        }
        narrow_with_rest(values, rest.data(), rest.data(), to.data());
        for (std::size_t i = 0; i < values.size(); ++i) {
            made[i] += values[i];
            sent[i] += widened(to[i]);
            EXPECT_LE(std::abs(rest[i]), std::ldexp(std::abs(widened(to[i])), -8));
        }
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        // What f32 rounds in 200 additions of a value and a rest.
        EXPECT_NEAR(sent[i] + rest[i], made[i], 200 * 4.0 * Limits::epsilon());
    }
}

TEST(Bf16, NothingIsKeptOfWhatIsNotFinite) {
    const std::vector<float> values{Limits::infinity(), Limits::quiet_NaN(), Limits::max(), 1};
    std::vector<float> rest(values.size());
    std::vector<std::uint16_t> to(values.size());
    narrow_with_rest(values, rest.data(), rest.data(), to.data());
    EXPECT_EQ(rest, std::vector<float>(values.size()));
    EXPECT_EQ(widened(to[3]), 1);
}

TEST(Bf16, Adds) {
    std::vector<float> sum{1, 2, 3};
    const std::vector<float> values{0.5F, -2, 1024};
    std::vector<std::uint16_t> shorts(values.size());
    narrow_to_bf16(values, shorts.data());
    add_bf16(shorts.data(), sum);
    EXPECT_EQ(sum, (std::vector<float>{1.5F, 0, 1027}));
}

}  // namespace
}  // namespace cohort
