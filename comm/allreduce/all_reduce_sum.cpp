// Sums over members. Cost: bound by memory; a pass over n buffers reads and writes each once. More
// than four buffers go through a block that stays in the first-level cache. There are only
// additions, so nothing can be contracted or reassociated and all instruction sets agree.
#include "comm/allreduce/all_reduce_sum.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/system/simd.hpp"

namespace cohort {
namespace {

constexpr std::size_t kBlock = 2048;

COHORT_SIMD_CLONES
void sum_two(float* a, float* b, std::size_t count) {
#pragma GCC ivdep  // NOLINT(clang-diagnostic-unknown-pragmas)
    for (std::size_t i = 0; i < count; ++i) {
        const float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

COHORT_SIMD_CLONES
void sum_three(float* a, float* b, float* c, std::size_t count) {
#pragma GCC ivdep  // NOLINT(clang-diagnostic-unknown-pragmas)
    for (std::size_t i = 0; i < count; ++i) {
        const float sum = (a[i] + b[i]) + c[i];
        a[i] = sum;
        b[i] = sum;
        c[i] = sum;
    }
}

COHORT_SIMD_CLONES
void sum_four(float* a, float* b, float* c, float* d, std::size_t count) {
#pragma GCC ivdep  // NOLINT(clang-diagnostic-unknown-pragmas)
    for (std::size_t i = 0; i < count; ++i) {
        const float sum = ((a[i] + b[i]) + c[i]) + d[i];
        a[i] = sum;
        b[i] = sum;
        c[i] = sum;
        d[i] = sum;
    }
}

/// sum = a + b; sum is apart from both.
COHORT_SIMD_CLONES
void add_two(float* __restrict sum, const float* a, const float* b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        sum[i] = a[i] + b[i];
    }
}

COHORT_SIMD_CLONES
void add_to(float* __restrict sum, const float* __restrict x, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        sum[i] += x[i];
    }
}

/// The sum of the elements [at, at + count), count <= kBlock, in `block`.
void sum_block(std::array<float, kBlock>& block, std::span<const float* const> x, std::size_t at,
               std::size_t count) {
    if (x.size() == 1) {
        std::memcpy(block.data(), x[0] + at, count * sizeof(float));
        return;
    }
    add_two(block.data(), x[0] + at, x[1] + at, count);
    for (std::size_t j = 2; j < x.size(); ++j) {
        add_to(block.data(), x[j] + at, count);
    }
}

}  // namespace

void sum_into_all(std::span<float* const> x, std::size_t count) {
    switch (x.size()) {
        case 0:
        case 1: return;
        case 2: return sum_two(x[0], x[1], count);
        case 3: return sum_three(x[0], x[1], x[2], count);
        case 4: return sum_four(x[0], x[1], x[2], x[3], count);
        default: break;
    }
    alignas(64) std::array<float, kBlock> block;
    const std::span<const float* const> inputs(x.data(), x.size());
    for (std::size_t at = 0; at < count; at += kBlock) {
        const std::size_t part = std::min(kBlock, count - at);
        sum_block(block, inputs, at, part);
        for (float* out : x) {
            std::memcpy(out + at, block.data(), part * sizeof(float));
        }
    }
}

void sum_into(float* out, std::span<const float* const> x, std::size_t count) {
    alignas(64) std::array<float, kBlock> block;
    for (std::size_t at = 0; at < count && !x.empty(); at += kBlock) {
        const std::size_t part = std::min(kBlock, count - at);
        sum_block(block, x, at, part);
        std::memcpy(out + at, block.data(), part * sizeof(float));
    }
}

void add_into(float* out, const float* in, std::size_t count) {
    add_to(out, in, count);
}

}  // namespace cohort
