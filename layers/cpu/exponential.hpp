#pragma once

#include <bit>
#include <cstdint>

namespace cohort {

/// e^x for -87 <= x <= 87, beyond that as at the ends; relative error below 2e-7. 2^n e^r with
/// n = round(x / ln 2), e^r by its series (|r| <= ln(2)/2). Written so that loops that call it are
/// vectorised; NaN passes through.
[[gnu::always_inline]] inline float exponential(float x) {
    constexpr float kMost = 87.0F;  // results stay normal numbers
    constexpr float kToPowersOfTwo = 1.44269504F;
    constexpr float kLog2High = 0.693145752F;  // with few bits: n times it is exact
    constexpr float kLog2Low = 1.42860682e-6F;
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer
    const float above = x < -kMost ? -kMost : x;
    const float within = above > kMost ? kMost : above;
    const float shifted = within * kToPowersOfTwo + kRound;
    const float n = shifted - kRound;
    const float r = (within - n * kLog2High) - n * kLog2Low;
    float series = 1.0F / 5040;
    series = series * r + 1.0F / 720;
    series = series * r + 1.0F / 120;
    series = series * r + 1.0F / 24;
    series = series * r + 1.0F / 6;
    series = series * r + 0.5F;
    series = series * r + 1.0F;
    series = series * r + 1.0F;
    const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
    return series * std::bit_cast<float>(power);
}

}  // namespace cohort
