#pragma once

#include <array>
#include <cstdint>

#include "cohort/core/host_device.hpp"

namespace cohort {

/// What a random stream is for. Part of the key, so that streams never overlap.
enum class RngPurpose : std::uint32_t {
    kInitialise = 1,
    kDropout = 2,
    kAugment = 3,
    kChunkOrder = 4,
    kWindowOrder = 5,
    kTestSplit = 6,
    kValidation = 7,
    kInjection = 8,
    kPattern = 9,
    kPredictor = 10,
    kBootstrap = 11,
    kFleet = 12,
    kGenerate = 13,
    kImport = 14,
    kTest = 100,
};

/// The raw Philox4x32-10 bijection; known-answer tests use it.
[[nodiscard]] COHORT_HD constexpr std::array<std::uint32_t, 4> philox4x32(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
    constexpr std::uint64_t kMul0 = 0xD2511F53U;
    constexpr std::uint64_t kMul1 = 0xCD9E8D57U;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
    constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
    constexpr int kRounds = 10;
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t p0 = kMul0 * counter[0];
        const std::uint64_t p1 = kMul1 * counter[2];
        counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(p1),
                   static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(p0)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

/// The generator's key: seed and purpose are mixed by one extra Philox call, so that neighbouring
/// seeds give unrelated keys.
[[nodiscard]] COHORT_HD constexpr std::array<std::uint32_t, 2> rng_key(
    std::uint64_t seed, RngPurpose purpose) noexcept {
    const std::array<std::uint32_t, 4> words =
        philox4x32({static_cast<std::uint32_t>(purpose), 0, 0, 0},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return {words[0], words[1]};
}

/// Rng(seed, purpose, stream, substream).block(index), given the key: for draws on a GPU.
[[nodiscard]] COHORT_HD constexpr std::array<std::uint32_t, 4> rng_block(
    std::array<std::uint32_t, 2> key, std::uint64_t stream, std::uint32_t substream,
    std::uint32_t index) noexcept {
    return philox4x32({index, static_cast<std::uint32_t>(stream),
                       static_cast<std::uint32_t>(stream >> 32), substream},
                      key);
}

/// 32 random bits as a number, uniform in [0, 1), 24 bits.
[[nodiscard]] COHORT_HD constexpr float uniform_of(std::uint32_t word) noexcept {
    return static_cast<float>(word >> 8) * 0x1p-24F;
}

/// Counter-based generator Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
/// 1, 2, 3", SC 2011). A pure function of (seed, purpose, stream, counter): two calls with the
/// same arguments give the same numbers on every rank, thread and machine.
/// Key each draw by *its purpose* (sample id, epoch, layer), never by the rank or thread that
/// draws.
class Rng {
public:
    /// @param stream  first 64-bit key, e.g. the sample id
    /// @param substream  second 32-bit key, e.g. epoch or layer index
    Rng(std::uint64_t seed, RngPurpose purpose, std::uint64_t stream = 0,
        std::uint32_t substream = 0) noexcept;

    /// Four independent 32-bit words of block `index`, random access.
    [[nodiscard]] std::array<std::uint32_t, 4> block(std::uint32_t index) const noexcept;

    /// Next 32 random bits, sequential access.
    std::uint32_t next_u32() noexcept;
    /// Uniform in [0, 1), 24 bits.
    float next_uniform() noexcept { return uniform_of(next_u32()); }
    /// Uniform integer in [0, n), n > 0, without modulo bias.
    std::uint32_t next_below(std::uint32_t n) noexcept;
    /// Standard normal (Box-Muller).
    float next_normal() noexcept;

private:
    std::array<std::uint32_t, 2> key_;
    std::array<std::uint32_t, 3> base_;
    std::uint32_t index_ = 0;
    unsigned used_ = 4;
    std::array<std::uint32_t, 4> words_{};
};

}  // namespace cohort
