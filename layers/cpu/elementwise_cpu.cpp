// Elementwise loops, written so that the compiler vectorises them for each instruction set. The
// comparisons are such that NaN passes through: the trainer's guard must see it.
#include "layers/cpu/elementwise_cpu.hpp"

#include "core/system/simd.hpp"

namespace cohort {

COHORT_SIMD_CLONES
void relu_forward(const float* __restrict x, float* __restrict y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        y[i] = x[i] < 0.0F ? 0.0F : x[i];
    }
}

COHORT_SIMD_CLONES
void relu_in_place(float* y, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        y[i] = y[i] < 0.0F ? 0.0F : y[i];
    }
}

COHORT_SIMD_CLONES
void relu_mask(const float* __restrict y, float* __restrict gradient, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        gradient[i] = y[i] <= 0.0F ? 0.0F : gradient[i];
    }
}

COHORT_SIMD_CLONES
void relu_backward(const float* __restrict y, const float* __restrict gradient,
                   float* __restrict gradient_out, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        gradient_out[i] = y[i] <= 0.0F ? 0.0F : gradient[i];
    }
}

COHORT_SIMD_CLONES
void add_forward(const float* __restrict a, const float* __restrict b, float* __restrict y,
                 std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        y[i] = a[i] + b[i];
    }
}

COHORT_SIMD_CLONES
void add_relu_forward(const float* __restrict a, const float* __restrict b, float* __restrict y,
                      std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float sum = a[i] + b[i];
        y[i] = sum < 0.0F ? 0.0F : sum;
    }
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
