#pragma once

#include <cstdint>
#include <cstring>

#include "core/bf16.hpp"
#include "core/system/simd.hpp"

namespace cohort {

// One pixel's lanes as one value: the compiler maps it to whatever registers the target has, where
// plain loops over lanes end in shuffles.
template <class Element, int kLanes>
struct Lanes {
    using Type [[gnu::vector_size(kLanes * sizeof(Element))]] = Element;
};
template <class Element>
struct Lanes<Element, 1> {
    using Type = Element;
};
template <int kLanes>
using Vector = typename Lanes<float, kLanes>::Type;
template <int kLanes>
using Words = typename Lanes<std::uint32_t, kLanes>::Type;
template <int kLanes>
using Shorts = typename Lanes<std::uint16_t, kLanes>::Type;

template <int kLanes>
COHORT_INLINE inline Vector<kLanes> load(const float* from) {
    Vector<kLanes> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
// __builtin_bit_cast and not std::bit_cast, here and in bf16.hpp: where that is not inlined, the
// copy that a source for AVX-512 makes may become the whole program's.
template <int kLanes>
COHORT_INLINE inline Vector<kLanes> load(const std::uint16_t* from) {
    if constexpr (kLanes == 1) {
        return float_of_bf16(*from);
    } else {
        Shorts<kLanes> upper;
        std::memcpy(&upper, from, sizeof upper);
        return __builtin_bit_cast(Vector<kLanes>, __builtin_convertvector(upper, Words<kLanes>)
                                                      << 16);
    }
}
template <int kLanes>
COHORT_INLINE inline void store(float* to, const Vector<kLanes>& value) {
    std::memcpy(to, &value, sizeof value);
}
/// nearest_bf16() of all lanes.
template <int kLanes>
COHORT_INLINE inline void store(std::uint16_t* to, const Vector<kLanes>& value) {
    if constexpr (kLanes == 1) {
        *to = nearest_bf16(value);
    } else {
        const auto bits = __builtin_bit_cast(Words<kLanes>, value);
        const Words<kLanes> rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        const Words<kLanes> nan = (bits >> 16) | 0x40U;
        const Words<kLanes> chosen = (bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded;
        const auto upper = __builtin_convertvector(chosen, Shorts<kLanes>);
        std::memcpy(to, &upper, sizeof upper);
    }
}

}  // namespace cohort
