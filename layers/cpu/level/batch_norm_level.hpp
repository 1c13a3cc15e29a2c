#pragma once

#include "layers/cpu/level/batch_norm_task.hpp"
#include "layers/cpu/level/level_width.hpp"

// The loops of batch normalisation over one cache-resident slice, for the instructions that the
// source that includes this is compiled for. Sums run in float over at most kRun pixels and are
// then folded into double.
namespace cohort {
namespace {

constexpr std::int64_t kRun = 256;  // NOLINT(misc-definitions-in-headers): a copy for each level

/// sums[lane] += values[lane] in double.
template <int kLanes>
COHORT_INLINE inline void fold(const Vector<kLanes>& values, double* sums) {
    float lanes[kLanes];
    std::memcpy(lanes, &values, sizeof values);
    for (int l = 0; l < kLanes; ++l) {
        sums[l] += static_cast<double>(lanes[l]);
    }
}

template <int kLanes, class Element, class Stride>
COHORT_INLINE inline void statistics_run(const Element* x, Stride stride, const float* shift,
                                         std::int64_t pixels, double* sum, double* square) {
    using V = Vector<kLanes>;
    const V centre = load<kLanes>(shift);
    V s[2] = {};  // two chains hide the latency of the additions
    V q[2] = {};
    std::int64_t p = 0;
    for (; p + 2 <= pixels; p += 2) {
        for (int k = 0; k < 2; ++k) {
            const V value = load<kLanes>(x + (p + k) * stride) - centre;
            s[k] += value;
            q[k] += value * value;
        }
    }
    if (p < pixels) {
        const V value = load<kLanes>(x + p * stride) - centre;
        s[0] += value;
        q[0] += value * value;
    }
    fold<kLanes>(s[0] + s[1], sum);
    fold<kLanes>(q[0] + q[1], square);
}

template <int kLanes, ReluMask kMask, class Element, class Stride>
COHORT_INLINE inline void reduce_run(const BnChannels& channels, std::int64_t c, Stride stride,
                                     const Element* x, const Element* y, Element* gradient,
                                     std::int64_t pixels, double* sum, double* product) {
    using V = Vector<kLanes>;
    const V centre = load<kLanes>(channels.mean + c);
    const V scale = load<kLanes>(channels.scale + c);
    const V offset = load<kLanes>(channels.offset + c);
    const V zero = {};
    V s = {};
    V q = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
        const std::int64_t i = p * stride;
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

template <int kLanes, class Element, class Stride>
COHORT_INLINE inline void apply_group(const Element* x, Stride stride, const float* scale,
                                      const float* offset, const Element* added, bool relu,
                                      std::int64_t pixels, Element* y) {
    using V = Vector<kLanes>;
    const V a = load<kLanes>(scale);
    const V b = load<kLanes>(offset);
    const V zero = {};
    for (std::int64_t p = 0; p < pixels; ++p) {
        const std::int64_t i = p * stride;
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

template <int kLanes, class Element, class Stride>
COHORT_INLINE inline void gradient_group(const Element* x, Stride stride, const Element* gradient,
                                         const float* mean, const float* a, const float* b,
                                         const float* d, std::int64_t pixels, Element* gradient_x) {
    using V = Vector<kLanes>;
    const V va = load<kLanes>(a);
    const V vb = load<kLanes>(b);
    const V centre = load<kLanes>(mean);
    const V vd = load<kLanes>(d);
    for (std::int64_t p = 0; p < pixels; ++p) {
        const std::int64_t i = p * stride;
        store<kLanes>(gradient_x + i,
                      va * load<kLanes>(gradient + i) + vb * (load<kLanes>(x + i) - centre) + vd);
    }
}

/// Calls f(lanes at once, elements from pixel to pixel, first element, channel, pixels) for every
/// run of at most `most` pixels. The distance of pixels of one lane is a constant, so that their
/// loops become vectors.
template <class F>
COHORT_INLINE inline void for_each_run(const ChannelView& view, std::int64_t most, F&& f) {
    const auto each = [&](auto width, auto stride) COHORT_INLINE {
        for (std::int64_t n = 0; n < view.samples; ++n) {
            for (std::int64_t group = 0; group < view.groups; ++group) {
                const std::int64_t base = (n * view.groups + group) * view.pixels * view.lanes;
                for (std::int64_t p = 0; p < view.pixels; p += most) {
                    const std::int64_t left = view.pixels - p;
                    for (std::int64_t l = 0; l < view.lanes; l += decltype(width)::value) {
                        f(width, stride, base + p * view.lanes + l, group * view.lanes + l,
                          left < most ? left : most);
                    }
                }
            }
        }
    };
    if (view.lanes == 1) {
        each(std::integral_constant<int, 1>{}, std::integral_constant<std::int64_t, 1>{});
    } else {
        with_width(view.lanes, [&](auto width) COHORT_INLINE { each(width, view.lanes); });
    }
}

template <class Element>
void statistics(const ChannelView& view, const Element* x, const float* shift, double* sum,
                double* square) {
    for_each_run(view, kRun,
                 [&](auto lanes, auto stride, std::int64_t i, std::int64_t c, std::int64_t n)
                     COHORT_INLINE {
                         statistics_run<decltype(lanes)::value>(x + i, stride, shift + c, n,
                                                                sum + c, square + c);
                     });
}

template <class Element>
void apply(const ChannelView& view, const Element* x, const float* scale, const float* offset,
           const Element* added, bool relu, Element* y) {
    for_each_run(view, view.pixels,
                 [&](auto lanes, auto stride, std::int64_t i, std::int64_t c, std::int64_t n)
                     COHORT_INLINE {
                         apply_group<decltype(lanes)::value>(x + i, stride, scale + c, offset + c,
                                                             added == nullptr ? nullptr : added + i,
                                                             relu, n, y + i);
                     });
}

template <class Element>
void reduce(const ChannelView& view, const BnChannels& channels, ReluMask mask, const Element* x,
            const Element* y, Element* gradient, double* sum, double* product) {
    with_constant<ReluMask::kNone, ReluMask::kFromInput, ReluMask::kFromOutput>(
        mask, [&](auto kind) COHORT_INLINE {
            constexpr ReluMask kMask = decltype(kind)::value;
            for_each_run(view, kRun,
                         [&](auto lanes, auto stride, std::int64_t i, std::int64_t c,
                             std::int64_t n) COHORT_INLINE {
                             reduce_run<decltype(lanes)::value, kMask>(
                                 channels, c, stride, x + i,
                                 kMask == ReluMask::kFromOutput ? y + i : nullptr, gradient + i, n,
                                 sum + c, product + c);
                         });
        });
}

template <class Element>
void input_gradient(const ChannelView& view, const Element* x, const Element* gradient,
                    const float* mean, const float* a, const float* b, const float* d,
                    Element* gradient_x) {
    for_each_run(
        view, view.pixels,
        [&](auto lanes, auto stride, std::int64_t i, std::int64_t c, std::int64_t n) COHORT_INLINE {
            gradient_group<decltype(lanes)::value>(x + i, stride, gradient + i, mean + c, a + c,
                                                   b + c, d + c, n, gradient_x + i);
        });
}

}  // namespace
}  // namespace cohort
