#include "cohort/core/rng.hpp"

#include <cmath>
#include <numbers>

namespace cohort {

Rng::Rng(std::uint64_t seed, RngPurpose purpose, std::uint64_t stream,
         std::uint32_t substream) noexcept
    : key_(rng_key(seed, purpose)),
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
