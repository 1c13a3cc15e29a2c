#pragma once

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "cohort/core/rng.hpp"

// Which element of a sample draws which random number: the number of an element is its place in
// row-major order ([C,H,W]), as on the CPU, and four consecutive ones share a block of Philox.
namespace cohort::cuda {

/// How a sample lies in memory: `pixels` rows of `block` channels, `channels` of them used. [F] and
/// [T,F] are one pixel.
struct DropoutShape {
    std::int64_t channels = 1;
    std::int64_t pixels = 1;
    std::int64_t block = 1;

    [[nodiscard]] COHORT_HD std::int64_t elements() const { return channels * pixels; }
    /// Blocks of four random numbers for one sample.
    [[nodiscard]] COHORT_HD std::int64_t draws() const { return (elements() + 3) / 4; }
};

/// The block that thread `t` of a sample's draws() takes: neighbouring threads take neighbouring
/// channels where a block does not reach from one channel into the next. Samples have less than
/// 2^32 elements: divisions of 32 bits are faster.
[[nodiscard]] COHORT_HD inline std::uint32_t dropout_draw(const DropoutShape& shape,
                                                          std::uint32_t t) {
    if (shape.pixels % 4 != 0) {
        return t;
    }
    const auto channels = static_cast<std::uint32_t>(shape.channels);
    return t % channels * static_cast<std::uint32_t>(shape.pixels / 4) + t / channels;
}

/// Where row-major element `i` lies in the sample.
[[nodiscard]] COHORT_HD inline std::int64_t dropout_place(const DropoutShape& shape,
                                                          std::uint32_t i) {
    if (shape.pixels == 1) {
        return i;
    }
    const auto pixels = static_cast<std::uint32_t>(shape.pixels);
    return static_cast<std::int64_t>(i % pixels) * shape.block + i / pixels;
}

/// The four random words of a block; 16 bits of the substream tell dropouts apart, 16 the epoch.
[[nodiscard]] COHORT_HD inline std::array<std::uint32_t, 4> dropout_words(
    std::array<std::uint32_t, 2> key, std::int64_t sample_id, std::uint32_t layer,
    std::uint32_t epoch, std::uint32_t draw) {
    return rng_block(key, static_cast<std::uint64_t>(sample_id), (layer << 16U) ^ epoch, draw);
}

/// The element stays.
[[nodiscard]] COHORT_HD inline bool dropout_keeps(std::uint32_t word, float probability) {
    return uniform_of(word) >= probability;
}

}  // namespace cohort::cuda
