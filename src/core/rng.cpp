#include "cohort/core/rng.hpp"

#include <cmath>
#include <numbers>

namespace cohort {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
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

namespace {

// The user's 64-bit seed and the purpose are mixed into the 64-bit Philox key by one extra
// Philox call, so that neighbouring seeds give unrelated keys.
std::array<std::uint32_t, 2> derive_key(std::uint64_t seed, RngPurpose purpose) noexcept {
    const auto words =
        philox4x32({static_cast<std::uint32_t>(purpose), 0, 0, 0},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return {words[0], words[1]};
}

}  // namespace

Rng::Rng(std::uint64_t seed, RngPurpose purpose, std::uint64_t stream,
         std::uint32_t substream) noexcept
    : key_(derive_key(seed, purpose)),
      base_{static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32),
            substream} {
}

std::array<std::uint32_t, 4> Rng::block(std::uint32_t index) const noexcept {
    return philox4x32({index, base_[0], base_[1], base_[2]}, key_);
}

std::uint32_t Rng::next_u32() noexcept {
    if (used_ == 4) {
        words_ = block(index_++);
        used_ = 0;
    }
    return words_[used_++];
}

std::uint32_t Rng::next_below(std::uint32_t n) noexcept {
    // Lemire's multiply-and-reject.
    std::uint64_t product = std::uint64_t{next_u32()} * n;
    if (static_cast<std::uint32_t>(product) < n) {
        const std::uint32_t threshold = (0U - n) % n;
        while (static_cast<std::uint32_t>(product) < threshold) {
            product = std::uint64_t{next_u32()} * n;
        }
    }
    return static_cast<std::uint32_t>(product >> 32);
}

float Rng::next_normal() noexcept {
    const double u1 = (next_u32() + 1.0) * 0x1p-32;
    const double u2 = next_u32() * 0x1p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) *
                              std::cos(2.0 * std::numbers::pi * u2));
}

}  // namespace cohort
