// The loops of batch normalisation over one cache-resident slice. Sums run in float over at most
// kRun pixels and are then folded into double.
#include "layers/cpu/batch_norm_loops.hpp"

#include <algorithm>
#include <cstring>

#include "core/system/simd.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kRun = 256;

#define COHORT_INLINE inline __attribute__((always_inline))

// One pixel's lanes as one value: the compiler maps it to whatever registers the target has, where
// plain loops over lanes end in shuffles.
template <int kLanes>
struct Lanes {
    using Type [[gnu::vector_size(kLanes * sizeof(float))]] = float;
};
template <>
struct Lanes<1> {
    using Type = float;
};
template <int kLanes>
using Vector = typename Lanes<kLanes>::Type;

template <int kLanes>
COHORT_INLINE Vector<kLanes> load(const float* from) {
    Vector<kLanes> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
template <int kLanes>
COHORT_INLINE void store(float* to, const Vector<kLanes>& value) {
    std::memcpy(to, &value, sizeof value);
}
/// sums[lane] += values[lane] in double.
template <int kLanes>
COHORT_INLINE void fold(const Vector<kLanes>& values, double* sums) {
    float lanes[kLanes];
    std::memcpy(lanes, &values, sizeof values);
    for (int l = 0; l < kLanes; ++l) {
        sums[l] += static_cast<double>(lanes[l]);
    }
}

template <int kLanes>
COHORT_INLINE void statistics_run(const float* x, const float* shift, std::int64_t pixels,
                                  double* sum, double* square) {
    using V = Vector<kLanes>;
    const V centre = load<kLanes>(shift);
    V s[2] = {};  // two chains hide the latency of the additions
    V q[2] = {};
    std::int64_t p = 0;
    for (; p + 2 <= pixels; p += 2) {
        for (int k = 0; k < 2; ++k) {
            const V value = load<kLanes>(x + (p + k) * kLanes) - centre;
            s[k] += value;
            q[k] += value * value;
        }
    }
    if (p < pixels) {
        const V value = load<kLanes>(x + p * kLanes) - centre;
        s[0] += value;
        q[0] += value * value;
    }
    fold<kLanes>(s[0] + s[1], sum);
    fold<kLanes>(q[0] + q[1], square);
}

template <int kLanes, ReluMask kMask>
COHORT_INLINE void reduce_run(const BnChannels& channels, std::int64_t c, const float* x,
                              const float* y, float* gradient, std::int64_t pixels, double* sum,
                              double* product) {
    using V = Vector<kLanes>;
    const V centre = load<kLanes>(channels.mean + c);
    const V scale = load<kLanes>(channels.scale + c);
    const V offset = load<kLanes>(channels.offset + c);
    const V zero = {};
    V s = {};
    V q = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
        const std::int64_t i = p * kLanes;
        V g = load<kLanes>(gradient + i);
        const V value = load<kLanes>(x + i);
        if constexpr (kMask == ReluMask::kFromOutput) {
            g = load<kLanes>(y + i) <= zero ? zero : g;
        } else if constexpr (kMask == ReluMask::kFromInput) {
            const V output = value * scale + offset;
            g = output <= zero ? zero : g;
        }
        if constexpr (kMask != ReluMask::kNone) {
            store<kLanes>(gradient + i, g);
        }
        s += g;
        q += g * (value - centre);
    }
    fold<kLanes>(s, sum);
    fold<kLanes>(q, product);
}

template <int kLanes>
COHORT_INLINE void apply_group(const float* x, const float* scale, const float* offset,
                               const float* added, bool relu, std::int64_t pixels, float* y) {
    using V = Vector<kLanes>;
    const V a = load<kLanes>(scale);
    const V b = load<kLanes>(offset);
    const V zero = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
        const std::int64_t i = p * kLanes;
        V value = load<kLanes>(x + i) * a + b;
        if (added != nullptr) {
            value += load<kLanes>(added + i);
        }
        if (relu) {
            value = value < zero ? zero : value;
        }
        store<kLanes>(y + i, value);
    }
}

template <int kLanes>
COHORT_INLINE void gradient_group(const float* x, const float* gradient, const float* mean,
                                  const float* a, const float* b, const float* d,
                                  std::int64_t pixels, float* gradient_x) {
    using V = Vector<kLanes>;
    const V va = load<kLanes>(a);
    const V vb = load<kLanes>(b);
    const V centre = load<kLanes>(mean);
    const V vd = load<kLanes>(d);
    for (std::int64_t p = 0; p < pixels; ++p) {
        const std::int64_t i = p * kLanes;
        store<kLanes>(gradient_x + i,
                      va * load<kLanes>(gradient + i) + vb * (load<kLanes>(x + i) - centre) + vd);
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

template <int kLanes, ReluMask kMask>
COHORT_INLINE void reduce_masked(const ChannelView& view, const BnChannels& channels,
                                 const float* x, const float* y, float* gradient, double* sum,
                                 double* product) {
    for_each_lane_run<kLanes>(view, kRun, [&](std::int64_t i, std::int64_t c, std::int64_t n) {
        reduce_run<kLanes, kMask>(channels, c, x + i, y + (kMask == ReluMask::kFromOutput ? i : 0),
                                  gradient + i, n, sum + c, product + c);
    });
}

template <int kLanes>
COHORT_INLINE void reduce_all(const ChannelView& view, const BnChannels& channels, ReluMask mask,
                              const float* x, const float* y, float* gradient, double* sum,
                              double* product) {
    switch (mask) {
        case ReluMask::kNone:
            reduce_masked<kLanes, ReluMask::kNone>(view, channels, x, x, gradient, sum, product);
            break;
        case ReluMask::kFromInput:
            reduce_masked<kLanes, ReluMask::kFromInput>(view, channels, x, x, gradient, sum,
                                                        product);
            break;
        case ReluMask::kFromOutput:
            reduce_masked<kLanes, ReluMask::kFromOutput>(view, channels, x, y, gradient, sum,
                                                         product);
            break;
    }
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
void bn_reduce(const ChannelView& view, const BnChannels& channels, ReluMask mask, const float* x,
               const float* y, float* gradient, double* sum, double* product) {
    switch (view.lanes) {
        case 16: reduce_all<16>(view, channels, mask, x, y, gradient, sum, product); break;
        case 8: reduce_all<8>(view, channels, mask, x, y, gradient, sum, product); break;
        default: reduce_all<1>(view, channels, mask, x, y, gradient, sum, product); break;
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
