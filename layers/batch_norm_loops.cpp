// The loops of batch normalisation over one cache-resident slice. Sums run in float over at most
// kRun pixels and are then folded into double.
#include "batch_norm_loops.hpp"

#include <algorithm>

#include "cohort/core/simd.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kRun = 256;

#define COHORT_INLINE inline __attribute__((always_inline))

template <int kLanes>
COHORT_INLINE void statistics_run(const float* __restrict x, const float* __restrict shift,
                                  std::int64_t pixels, double* __restrict sum,
                                  double* __restrict square) {
    float s[kLanes] = {};
    float q[kLanes] = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
        for (int l = 0; l < kLanes; ++l) {
            const float value = x[p * kLanes + l] - shift[l];
            s[l] += value;
            q[l] += value * value;
        }
    }
    for (int l = 0; l < kLanes; ++l) {
        sum[l] += static_cast<double>(s[l]);
        square[l] += static_cast<double>(q[l]);
    }
}

template <int kLanes>
COHORT_INLINE void reduce_run(const float* __restrict x, const float* __restrict mean,
                              const float* __restrict y, float* __restrict gradient,
                              std::int64_t pixels, double* __restrict sum,
                              double* __restrict product) {
    float s[kLanes] = {};
    float q[kLanes] = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
        for (int l = 0; l < kLanes; ++l) {
            const std::int64_t i = p * kLanes + l;
            float g = gradient[i];
            if (y != nullptr) {
                g = y[i] <= 0.0F ? 0.0F : g;
                gradient[i] = g;
            }
            s[l] += g;
            q[l] += g * (x[i] - mean[l]);
        }
    }
    for (int l = 0; l < kLanes; ++l) {
        sum[l] += static_cast<double>(s[l]);
        product[l] += static_cast<double>(q[l]);
    }
}

template <int kLanes>
COHORT_INLINE void apply_group(const float* __restrict x, const float* __restrict scale,
                               const float* __restrict offset, const float* __restrict added,
                               bool relu, std::int64_t pixels, float* __restrict y) {
    for (std::int64_t p = 0; p < pixels; ++p) {
        for (int l = 0; l < kLanes; ++l) {
            const std::int64_t i = p * kLanes + l;
            float value = x[i] * scale[l] + offset[l];
            if (added != nullptr) {
                value += added[i];
            }
            y[i] = relu && value < 0.0F ? 0.0F : value;
        }
    }
}

template <int kLanes>
COHORT_INLINE void gradient_group(const float* __restrict x, const float* __restrict gradient,
                                  const float* __restrict mean, const float* __restrict a,
                                  const float* __restrict b, const float* __restrict d,
                                  std::int64_t pixels, float* __restrict gradient_x) {
    for (std::int64_t p = 0; p < pixels; ++p) {
        for (int l = 0; l < kLanes; ++l) {
            const std::int64_t i = p * kLanes + l;
            gradient_x[i] = a[l] * gradient[i] + b[l] * (x[i] - mean[l]) + d[l];
        }
    }
}

/// Calls f(first element, channel, pixels) for every run of one group's pixels.
template <class F>
COHORT_INLINE void for_each_run(const ChannelView& view, std::int64_t run, F&& f) {
    for (std::int64_t n = 0; n < view.samples; ++n) {
        for (std::int64_t group = 0; group < view.groups; ++group) {
            const std::int64_t base = (n * view.groups + group) * view.pixels * view.lanes;
            for (std::int64_t p = 0; p < view.pixels; p += run) {
                f(base + p * view.lanes, group * view.lanes, std::min(run, view.pixels - p));
            }
        }
    }
}

// Lanes that are no compile-time constant are handled one by one: row-major images have one lane,
// and [N,F] has one pixel, so the stride between pixels never matters.
template <int kLanes, class F>
COHORT_INLINE void for_each_lane_run(const ChannelView& view, std::int64_t run, F&& f) {
    if constexpr (kLanes == 1) {
        for_each_run(view, run, [&](std::int64_t base, std::int64_t channel, std::int64_t pixels) {
            for (std::int64_t l = 0; l < view.lanes; ++l) {
                f(base + l, channel + l, pixels);
            }
        });
    } else {
        for_each_run(view, run, f);
    }
}

template <int kLanes>
COHORT_INLINE void statistics_all(const ChannelView& view, const float* x, const float* shift,
                                  double* sum, double* square) {
    for_each_lane_run<kLanes>(view, kRun, [&](std::int64_t i, std::int64_t c, std::int64_t n) {
        statistics_run<kLanes>(x + i, shift + c, n, sum + c, square + c);
    });
}

template <int kLanes>
COHORT_INLINE void apply_all(const ChannelView& view, const float* x, const float* scale,
                             const float* offset, const float* added, bool relu, float* y) {
    for_each_lane_run<kLanes>(
        view, view.pixels, [&](std::int64_t i, std::int64_t c, std::int64_t n) {
            apply_group<kLanes>(x + i, scale + c, offset + c,
                                added == nullptr ? nullptr : added + i, relu, n, y + i);
        });
}

template <int kLanes>
COHORT_INLINE void reduce_all(const ChannelView& view, const float* x, const float* mean,
                              const float* y, float* gradient, double* sum, double* product) {
    for_each_lane_run<kLanes>(view, kRun, [&](std::int64_t i, std::int64_t c, std::int64_t n) {
        reduce_run<kLanes>(x + i, mean + c, y == nullptr ? nullptr : y + i, gradient + i, n,
                           sum + c, product + c);
    });
}

template <int kLanes>
COHORT_INLINE void gradient_all(const ChannelView& view, const float* x, const float* gradient,
                                const float* mean, const float* a, const float* b, const float* d,
                                float* gradient_x) {
    for_each_lane_run<kLanes>(view, view.pixels,
                              [&](std::int64_t i, std::int64_t c, std::int64_t n) {
                                  gradient_group<kLanes>(x + i, gradient + i, mean + c, a + c,
                                                         b + c, d + c, n, gradient_x + i);
                              });
}

}  // namespace

COHORT_SIMD_CLONES
void bn_statistics(const ChannelView& view, const float* x, const float* shift, double* sum,
                   double* square) {
    switch (view.lanes) {
        case 16: statistics_all<16>(view, x, shift, sum, square); break;
        case 8: statistics_all<8>(view, x, shift, sum, square); break;
        default: statistics_all<1>(view, x, shift, sum, square); break;
    }
}

COHORT_SIMD_CLONES
void bn_apply(const ChannelView& view, const float* x, const float* scale, const float* offset,
              const float* added, bool relu, float* y) {
    switch (view.lanes) {
        case 16: apply_all<16>(view, x, scale, offset, added, relu, y); break;
        case 8: apply_all<8>(view, x, scale, offset, added, relu, y); break;
        default: apply_all<1>(view, x, scale, offset, added, relu, y); break;
    }
}

COHORT_SIMD_CLONES
void bn_reduce(const ChannelView& view, const float* x, const float* mean, const float* y,
               float* gradient, double* sum, double* product) {
    switch (view.lanes) {
        case 16: reduce_all<16>(view, x, mean, y, gradient, sum, product); break;
        case 8: reduce_all<8>(view, x, mean, y, gradient, sum, product); break;
        default: reduce_all<1>(view, x, mean, y, gradient, sum, product); break;
    }
}

COHORT_SIMD_CLONES
void bn_input_gradient(const ChannelView& view, const float* x, const float* gradient,
                       const float* mean, const float* a, const float* b, const float* d,
                       float* gradient_x) {
    switch (view.lanes) {
        case 16: gradient_all<16>(view, x, gradient, mean, a, b, d, gradient_x); break;
        case 8: gradient_all<8>(view, x, gradient, mean, a, b, d, gradient_x); break;
        default: gradient_all<1>(view, x, gradient, mean, a, b, d, gradient_x); break;
    }
}

}  // namespace cohort
