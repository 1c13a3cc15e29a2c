#pragma once

#include <array>
#include <cstdint>

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
    kTest = 100,
};

/// Counter-based generator Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
/// 1, 2, 3", SC 2011). A pure function of (seed, purpose, stream, counter): two calls with the
/// same arguments give the same numbers on every rank, thread and machine.
///
/// Key what you draw by *what it is for* (sample id, epoch, layer), never by who draws it.
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
    float next_uniform() noexcept { return static_cast<float>(next_u32() >> 8) * 0x1p-24F; }
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

/// The raw Philox4x32-10 bijection; known-answer tests use it.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key) noexcept;

}  // namespace cohort
