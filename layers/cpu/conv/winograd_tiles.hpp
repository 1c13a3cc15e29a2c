#pragma once

#include "core/system/simd.hpp"

// The bilinear algorithms for tiles of 3x3 convolutions, one dimension at a time. With a tile d of
// the source, weights g and a tile y of the output, each written for one dimension and meant for
// rows and columns alike:
//
//   output            y  = A^T [ (G g) * (B^T d) ]       (Lavin & Gray 2015, equation 7)
//   gradient of g     dg = G^T [ (A dy) * (B^T d) ]      (the same form, its transpose in g)
//
// where * multiplies element by element: one matrix product over channels for every point. The
// gradient of d is a convolution of dy with the turned weights.
namespace cohort {

/// F(4x4, 3x3): 36 products for 16 outputs, where a direct computation has 144. Matrices from
/// Toom-Cook at the points 0, +-a, +-b and infinity (Lavin & Gray take a = 1, b = 2; these have
/// a third of the error).
struct TileOf4 {
    static constexpr int kInput = 6;   ///< rows of the source that a tile reads
    static constexpr int kOutput = 4;  ///< rows of the output that it makes
    static constexpr int kPoints = 6;

    static constexpr float kA = 0.625F;
    static constexpr float kB = 1.5F;
    static constexpr float kA2 = kA * kA;
    static constexpr float kB2 = kB * kB;
    /// 1/N(p), N the derivative at p of the product over the finite points of (x - point).
    static constexpr float kAt0 = 1 / (kA2 * kB2);
    static constexpr float kAtA = 1 / (2 * kA2 * (kA2 - kB2));
    static constexpr float kAtB = 1 / (2 * kB2 * (kB2 - kA2));

    /// B^T d.
    template <class V>
    COHORT_INLINE static void source(const V* d, V* to) {
        const V even_a = d[4] - d[2] * kB2;
        const V odd_a = d[3] - d[1] * kB2;
        const V even_b = d[4] - d[2] * kA2;
        const V odd_b = d[3] - d[1] * kA2;
        to[0] = d[4] + (d[0] * (kA2 * kB2) - d[2] * (kA2 + kB2));
        to[1] = even_a + odd_a * kA;
        to[2] = even_a - odd_a * kA;
        to[3] = even_b + odd_b * kB;
        to[4] = even_b - odd_b * kB;
        to[5] = d[5] + (d[1] * (kA2 * kB2) - d[3] * (kA2 + kB2));
    }
    /// A^T m.
    template <class V>
    COHORT_INLINE static void output(const V* m, V* to) {
        const V sum_a = m[1] + m[2];
        const V sum_b = m[3] + m[4];
        const V difference_a = m[1] - m[2];
        const V difference_b = m[3] - m[4];
        to[0] = m[0] + sum_a + sum_b;
        to[1] = difference_a * kA + difference_b * kB;
        to[2] = sum_a * kA2 + sum_b * kB2;
        to[3] = m[5] + difference_a * (kA2 * kA) + difference_b * (kB2 * kB);
    }
    /// A dy.
    template <class V>
    COHORT_INLINE static void gradient(const V* dy, V* to) {
        const V even_a = dy[0] + dy[2] * kA2;
        const V odd_a = dy[1] + dy[3] * kA2;
        const V even_b = dy[0] + dy[2] * kB2;
        const V odd_b = dy[1] + dy[3] * kB2;
        to[0] = dy[0];
        to[1] = even_a + odd_a * kA;
        to[2] = even_a - odd_a * kA;
        to[3] = even_b + odd_b * kB;
        to[4] = even_b - odd_b * kB;
        to[5] = dy[3];
    }
    /// G g.
    template <class V>
    COHORT_INLINE static void weights(const V* g, V* to) {
        const V even_a = (g[0] + g[2] * kA2) * kAtA;
        const V even_b = (g[0] + g[2] * kB2) * kAtB;
        to[0] = g[0] * kAt0;
        to[1] = even_a + g[1] * (kA * kAtA);
        to[2] = even_a - g[1] * (kA * kAtA);
        to[3] = even_b + g[1] * (kB * kAtB);
        to[4] = even_b - g[1] * (kB * kAtB);
        to[5] = g[2];
    }
    /// G^T m.
    template <class V>
    COHORT_INLINE static void weight_gradient(const V* m, V* to) {
        const V sum_a = (m[1] + m[2]) * kAtA;
        const V sum_b = (m[3] + m[4]) * kAtB;
        to[0] = m[0] * kAt0 + sum_a + sum_b;
        to[1] = (m[1] - m[2]) * (kA * kAtA) + (m[3] - m[4]) * (kB * kAtB);
        to[2] = m[5] + sum_a * kA2 + sum_b * kB2;
    }
};

/// A whole 2x2 map between paddings of 1, which is a product with a Toeplitz matrix:
/// y0 = g1 d0 + g2 d1, y1 = g0 d0 + g1 d1. It takes three products, as in Karatsuba's algorithm:
/// y0 = g1 (d0 + d1) + (g2 - g1) d1, y1 = g1 (d0 + d1) + (g0 - g1) d0. 9 for a map, where a direct
/// computation has 16 and F(4x4, 3x3) has 36.
struct MapOf2 {
    static constexpr int kInput = 2;
    static constexpr int kOutput = 2;
    static constexpr int kPoints = 3;

    template <class V>
    COHORT_INLINE static void source(const V* d, V* to) {
        to[0] = d[0] + d[1];
        to[1] = d[1];
        to[2] = d[0];
    }
    template <class V>
    COHORT_INLINE static void output(const V* m, V* to) {
        to[0] = m[0] + m[1];
        to[1] = m[0] + m[2];
    }
    template <class V>
    COHORT_INLINE static void gradient(const V* dy, V* to) {
        to[0] = dy[0] + dy[1];
        to[1] = dy[0];
        to[2] = dy[1];
    }
    template <class V>
    COHORT_INLINE static void weights(const V* g, V* to) {
        to[0] = g[1];
        to[1] = g[2] - g[1];
        to[2] = g[0] - g[1];
    }
    template <class V>
    COHORT_INLINE static void weight_gradient(const V* m, V* to) {
        to[0] = m[2];
        to[1] = m[0] - m[1] - m[2];
        to[2] = m[1];
    }
};

}  // namespace cohort
