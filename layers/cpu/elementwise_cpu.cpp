// Elementwise loops, written so that the compiler vectorises them for each instruction set. The
// comparisons are such that NaN passes through: the trainer's guard must see it.
#include "layers/cpu/elementwise_cpu.hpp"

#include "core/bf16.hpp"
#include "core/system/simd.hpp"

namespace cohort {
namespace {

COHORT_INLINE inline float as_float(const float* from) {
    return *from;
}
COHORT_INLINE inline float as_float(const std::uint16_t* from) {
    return float_of_bf16(*from);
}
COHORT_INLINE inline void put(float value, float* to) {
    *to = value;
}
COHORT_INLINE inline void put(float value, std::uint16_t* to) {
    *to = nearest_bf16(value);
}

/// Whether y is at most 0; bfloat16 compares as integers (a negative NaN is above infinity).
COHORT_INLINE inline bool at_most_zero(float y) {
    return y <= 0.0F;
}
COHORT_INLINE inline bool at_most_zero(std::uint16_t y) {
    return y == 0 || (y >= 0x8000U && y <= 0xff80U);
}
COHORT_INLINE inline bool below_zero(float y) {
    return y < 0.0F;
}
COHORT_INLINE inline bool below_zero(std::uint16_t y) {
    return y > 0x8000U && y <= 0xff80U;
}
/// Of a positive bound.
COHORT_INLINE inline bool at_least(float y, float bound) {
    return y >= bound;
}
COHORT_INLINE inline bool at_least(std::uint16_t y, std::uint16_t bound) {
    return y >= bound && y <= 0x7f80U;
}

template <class Element>
COHORT_INLINE inline void relu_loop(const Element* x, Element* y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        y[i] = below_zero(x[i]) ? Element{} : x[i];
    }
}

template <class Element>
COHORT_INLINE inline void bounded_loop(const Element* x, Element bound, Element* y,
                                       std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const Element above = below_zero(x[i]) ? Element{} : x[i];
        y[i] = at_least(above, bound) ? bound : above;
    }
}

template <class Element>
COHORT_INLINE inline void mask_loop(const Element* y, const Element* gradient, Element* to,
                                    std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] = at_most_zero(y[i]) ? Element{} : gradient[i];
    }
}

template <class Element>
COHORT_INLINE inline void bounded_mask_loop(const Element* y, Element bound,
                                            const Element* gradient, Element* to,
                                            std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] = at_most_zero(y[i]) || at_least(y[i], bound) ? Element{} : gradient[i];
    }
}

template <class Element>
COHORT_INLINE inline void add_loop(const Element* __restrict a, const Element* __restrict b,
                                   bool relu, Element* __restrict y, std::int64_t count) {
    if (relu) {
        for (std::int64_t i = 0; i < count; ++i) {
            const float sum = as_float(a + i) + as_float(b + i);
            put(sum < 0.0F ? 0.0F : sum, y + i);
        }
    } else {
        for (std::int64_t i = 0; i < count; ++i) {
            put(as_float(a + i) + as_float(b + i), y + i);
        }
    }
}

}  // namespace

COHORT_SIMD_CLONES
void relu_forward(const float* __restrict x, float bound, float* __restrict y, std::int64_t count) {
    bounded_loop(x, bound, y, count);
}
COHORT_SIMD_CLONES
void relu_forward(const std::uint16_t* __restrict x, float bound, std::uint16_t* __restrict y,
                  std::int64_t count) {
    bounded_loop(x, nearest_bf16(bound), y, count);
}

COHORT_SIMD_CLONES
void relu_in_place(float* y, std::int64_t count) {
    relu_loop(y, y, count);
}
COHORT_SIMD_CLONES
void relu_in_place(std::uint16_t* y, std::int64_t count) {
    relu_loop(y, y, count);
}

COHORT_SIMD_CLONES
void relu_mask(const float* __restrict y, float* __restrict gradient, std::int64_t count) {
    mask_loop(y, gradient, gradient, count);
}
COHORT_SIMD_CLONES
void relu_mask(const std::uint16_t* __restrict y, std::uint16_t* __restrict gradient,
               std::int64_t count) {
    mask_loop(y, gradient, gradient, count);
}

COHORT_SIMD_CLONES
void relu_backward(const float* __restrict y, float bound, const float* __restrict gradient,
                   float* __restrict gradient_out, std::int64_t count) {
    bounded_mask_loop(y, bound, gradient, gradient_out, count);
}
COHORT_SIMD_CLONES
void relu_backward(const std::uint16_t* __restrict y, float bound,
                   const std::uint16_t* __restrict gradient, std::uint16_t* __restrict gradient_out,
                   std::int64_t count) {
    bounded_mask_loop(y, nearest_bf16(bound), gradient, gradient_out, count);
}

COHORT_SIMD_CLONES
void add_forward(const float* a, const float* b, bool relu, float* y, std::int64_t count) {
    add_loop(a, b, relu, y, count);
}
COHORT_SIMD_CLONES
void add_forward(const std::uint16_t* a, const std::uint16_t* b, bool relu, std::uint16_t* y,
                 std::int64_t count) {
    add_loop(a, b, relu, y, count);
}

COHORT_SIMD_CLONES
void scaled_sum(float scale, const float* __restrict a, const float* __restrict b,
                float* __restrict y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        y[i] = scale * a[i] + b[i];
    }
}

COHORT_SIMD_CLONES
void accumulate(float* __restrict to, const float* __restrict from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] += from[i];
    }
}
COHORT_SIMD_CLONES
void accumulate(std::uint16_t* __restrict to, const std::uint16_t* __restrict from,
                std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        to[i] = nearest_bf16(float_of_bf16(to[i]) + float_of_bf16(from[i]));
    }
}

COHORT_SIMD_CLONES
void bias_forward(float* __restrict y, const float* __restrict bias, std::int64_t samples,
                  std::int64_t features, bool relu) {
    for (std::int64_t n = 0; n < samples; ++n) {
        float* __restrict row = y + n * features;
        if (relu) {
            for (std::int64_t f = 0; f < features; ++f) {
                const float sum = row[f] + bias[f];
                row[f] = sum < 0.0F ? 0.0F : sum;
            }
        } else {
            for (std::int64_t f = 0; f < features; ++f) {
                row[f] += bias[f];
            }
        }
    }
}

COHORT_SIMD_CLONES
void bias_backward(const float* __restrict gradient, float* __restrict sums, std::int64_t samples,
                   std::int64_t features) {
    for (std::int64_t n = 0; n < samples; ++n) {
        const float* __restrict row = gradient + n * features;
        for (std::int64_t f = 0; f < features; ++f) {
            sums[f] += row[f];
        }
    }
}

void add_member_sums(ThreadTeam& team, float* sums, std::size_t floats,
                     std::span<const char> used) {
    constexpr long long kLine = 16;  // floats; parts of whole cache lines
    const auto total = static_cast<long long>(floats);
    const auto add_part = [&](int adder, int adders) {
        const auto [first, last] = part_of(total / kLine, adder, adders);
        for (std::size_t member = 1; member < used.size(); ++member) {
            if (used[member] != 0) {
                const float* from = sums + static_cast<long long>(member) * total;
                accumulate(sums + first * kLine, from + first * kLine, (last - first) * kLine);
            }
        }
    };
    if (team.size() == 1 || floats * sizeof(float) < kWorthSharing) {
        add_part(0, 1);
    } else {
        team.run([&](int member) { add_part(member, team.size()); });
    }
}

}  // namespace cohort
