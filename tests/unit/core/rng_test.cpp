#include "cohort/core/rng.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace cohort {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers published with "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
TEST(Philox, KnownAnswerOfZeros) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
              (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
}

TEST(Philox, KnownAnswerOfOnes) {
    constexpr std::uint32_t kOnes = 0xffffffffU;
    EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
}

TEST(Philox, KnownAnswerOfPi) {
    EXPECT_EQ(philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U},
                         {0xa4093822U, 0x299f31d0U}),
              (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Rng, SameArgumentsGiveTheSameNumbers) {
    Rng a(7, RngPurpose::kTest, 11, 3);
    Rng b(7, RngPurpose::kTest, 11, 3);
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(a.next_u32(), b.next_u32()) << "draw " << i;
    }
}

TEST(Rng, SequentialDrawsAreTheBlocksInOrder) {
    Rng rng(7, RngPurpose::kTest, 11, 3);
    const Rng blocks = rng;
    for (std::uint32_t index = 0; index < 5; ++index) {
        for (const std::uint32_t word : blocks.block(index)) {
            ASSERT_EQ(rng.next_u32(), word) << "block " << index;
        }
    }
}

TEST(Rng, EveryPartOfTheKeyChangesTheStream) {
    std::set<std::uint64_t> firsts;
    const auto insert = [&firsts](Rng rng) {
        const std::uint64_t high = rng.next_u32();
        return firsts.insert(high << 32 | rng.next_u32()).second;
    };
    EXPECT_TRUE(insert(Rng(7, RngPurpose::kTest, 11, 3)));
    EXPECT_TRUE(insert(Rng(8, RngPurpose::kTest, 11, 3)));
    EXPECT_TRUE(insert(Rng(7ULL + (1ULL << 32), RngPurpose::kTest, 11, 3)));
    EXPECT_TRUE(insert(Rng(7, RngPurpose::kDropout, 11, 3)));
    EXPECT_TRUE(insert(Rng(7, RngPurpose::kTest, 12, 3)));
    EXPECT_TRUE(insert(Rng(7, RngPurpose::kTest, 11ULL + (1ULL << 32), 3)));
    EXPECT_TRUE(insert(Rng(7, RngPurpose::kTest, 11, 4)));
    EXPECT_FALSE(insert(Rng(7, RngPurpose::kTest, 11, 3)));
}

TEST(Rng, UniformStaysInTheHalfOpenIntervalAndFillsIt) {
    Rng rng(1, RngPurpose::kTest);
    constexpr int kDraws = 100000;
    double sum = 0;
    float lowest = 1;
    float highest = 0;
    for (int i = 0; i < kDraws; ++i) {
        const float x = rng.next_uniform();
        ASSERT_GE(x, 0.0F);
        ASSERT_LT(x, 1.0F);
        sum += x;
        lowest = std::min(lowest, x);
        highest = std::max(highest, x);
    }
    // Six standard deviations of the mean of uniform numbers.
    EXPECT_NEAR(sum / kDraws, 0.5, 6 * std::sqrt(1.0 / 12 / kDraws));
    EXPECT_LT(lowest, 0.001F);
    EXPECT_GT(highest, 0.999F);
}

TEST(Rng, NextBelowIsUnbiased) {
    constexpr std::uint32_t kSides = 6;
    constexpr int kDraws = 60000;
    Rng rng(2, RngPurpose::kTest);
    std::array<int, kSides> seen{};
    for (int i = 0; i < kDraws; ++i) {
        const std::uint32_t side = rng.next_below(kSides);
        ASSERT_LT(side, kSides);
        ++seen[side];
    }
    const double expected = static_cast<double>(kDraws) / kSides;
    double chi_squared = 0;
    for (const int count : seen) {
        chi_squared += (count - expected) * (count - expected) / expected;
    }
    EXPECT_LT(chi_squared, 30.0);  // five degrees of freedom: p < 2e-5
}

TEST(Rng, NextBelowRejectsWhatWouldBias) {
    // With n = 3 * 2^30 a quarter of all words must be rejected; a plain multiply would make every
    // third value twice as likely.
    constexpr std::uint32_t kBelow = 3U << 30;
    constexpr int kDraws = 30000;
    Rng rng(3, RngPurpose::kTest);
    std::array<int, 3> residue{};
    for (int i = 0; i < kDraws; ++i) {
        const std::uint32_t x = rng.next_below(kBelow);
        ASSERT_LT(x, kBelow);
        ++residue[x % 3];
    }
    for (const int count : residue) {
        EXPECT_NEAR(count, kDraws / 3.0, 6 * std::sqrt(kDraws * 2.0 / 9));
    }
}

TEST(Rng, NextBelowOneIsZero) {
    Rng rng(4, RngPurpose::kTest);
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(rng.next_below(1), 0U);
    }
}

TEST(Rng, NormalHasTheRightMoments) {
    Rng rng(5, RngPurpose::kTest);
    constexpr int kDraws = 100000;
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    for (int i = 0; i < kDraws; ++i) {
        const double x = rng.next_normal();
        ASSERT_TRUE(std::isfinite(x));
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    EXPECT_NEAR(sum / kDraws, 0.0, 6 / std::sqrt(kDraws));
    EXPECT_NEAR(squares / kDraws, 1.0, 6 * std::sqrt(2.0 / kDraws));
    EXPECT_NEAR(fourth / kDraws, 3.0, 6 * std::sqrt(96.0 / kDraws));
}

}  // namespace
}  // namespace cohort
