// A tile is some pixels x one or two vectors of output channels, whose sums stay in registers: per
// float of a pixel one broadcast, per float of a run one or two loads of weights. (The shape of
// tiles follows Goto & van de Geijn 2008; that the source needs no copy by taps is "indirect
// convolution", Dukhan 2019, with offsets that all pixels share.)
#include "layers/cpu/conv/conv_loops.hpp"

#include <algorithm>
#include <cstring>

#include "core/system/simd.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/cpu/lanes.hpp"

// Products of lanes, vectors and taps are small. Attributes and declarations are no expressions.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result,bugprone-misplaced-widening-cast,bugprone-macro-parentheses)

namespace cohort {
namespace {

/// All vectors of the panel are whole runs of channels in the tensor.
template <int kLanes, int kVectors, class Panel>
COHORT_INLINE inline bool has_vectors(const Panel& panel) {
    bool whole = panel.channels == kLanes * kVectors;
    for (int c = 0; whole && c < kLanes * kVectors; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        const auto first = static_cast<std::size_t>(c / kLanes * kLanes);
        whole = panel.channel_offsets[channel] == panel.channel_offsets[first] + c % kLanes;
    }
    return whole;
}

/// Writes the first `count` pixels of a tile.
template <int kLanes, int kVectors, int kPixels>
COHORT_INLINE inline void write_tile(const ConvPanel& panel, bool vectors, std::size_t first,
                                     int count, const Vector<kLanes> (&sums)[kPixels][kVectors]) {
    for (int p = 0; p < kPixels && p < count; ++p) {
        float* to = panel.output + panel.targets[first + static_cast<std::size_t>(p)];
        if (vectors) {
            for (int v = 0; v < kVectors; ++v) {
                store<kLanes>(to + panel.channel_offsets[static_cast<std::size_t>(v * kLanes)],
                              sums[p][v]);
            }
            continue;
        }
        float values[kLanes * kVectors];
        for (int v = 0; v < kVectors; ++v) {
            store<kLanes>(values + v * kLanes, sums[p][v]);
        }
        for (int c = 0; c < panel.channels; ++c) {
            to[panel.channel_offsets[static_cast<std::size_t>(c)]] = values[c];
        }
    }
}

/// Calls tile(sources, sums) for every kPixels pixels; the last ones are repeated to fill a tile.
template <int kLanes, int kVectors, int kPixels, class Tile>
COHORT_INLINE inline void for_tiles(const ConvPanel& panel, const Tile& tile) {
    const bool vectors = has_vectors<kLanes, kVectors>(panel);
    const std::size_t count = panel.pixels.size();
    for (std::size_t first = 0; first < count; first += kPixels) {
        const float* sources[kPixels];
        Vector<kLanes> sums[kPixels][kVectors];
        for (int p = 0; p < kPixels; ++p) {
            const std::size_t pixel = std::min(first + static_cast<std::size_t>(p), count - 1);
            sources[p] = panel.source + panel.pixels[pixel];
            for (int v = 0; v < kVectors; ++v) {
                sums[p][v] = load<kLanes>(panel.bias + v * kLanes);
            }
        }
        tile(sources, sums);
        write_tile<kLanes, kVectors, kPixels>(panel, vectors, first,
                                              static_cast<int>(count - first), sums);
    }
}

template <int kLanes, int kVectors, int kPixels>
COHORT_INLINE inline void product(const ConvPanel& panel) {
    for_tiles<kLanes, kVectors, kPixels>(
        panel, [&](const float* const(&sources)[kPixels], Vector<kLanes>(&sums)[kPixels][kVectors])
                   __attribute__((always_inline)) {
                       const float* weights = panel.weights;
                       for (const ConvRun& run : panel.runs) {
                           const float* from[kPixels];
                           for (int p = 0; p < kPixels; ++p) {
                               from[p] = sources[p] + run.offset;
                           }
                           for (std::int64_t k = 0; k < run.length; ++k) {
                               Vector<kLanes> w[kVectors];
                               for (int v = 0; v < kVectors; ++v) {
                                   w[v] = load<kLanes>(weights + v * kLanes);
                               }
                               weights += kLanes * kVectors;
                               for (int p = 0; p < kPixels; ++p) {
                                   const float x = from[p][k];
                                   for (int v = 0; v < kVectors; ++v) {
                                       sums[p][v] += x * w[v];
                                   }
                               }
                           }
                       }
                   });
}

template <int kLanes, int kVectors>
COHORT_INLINE inline void copy(const ConvPanelCopy& panel) {
    const bool vectors = has_vectors<kLanes, kVectors>(panel);
    Vector<kLanes> sums[kVectors] = {};
    float* to = panel.panel;
    for (const std::int32_t pixel : panel.pixels) {
        const float* from = panel.tensor + pixel;
        Vector<kLanes> values[kVectors];
        if (vectors) {
            for (int v = 0; v < kVectors; ++v) {
                values[v] = load<kLanes>(
                    from + panel.channel_offsets[static_cast<std::size_t>(v * kLanes)]);
            }
        } else {
            float single[kLanes * kVectors] = {};
            for (int c = 0; c < panel.channels; ++c) {
                single[c] = from[panel.channel_offsets[static_cast<std::size_t>(c)]];
            }
            for (int v = 0; v < kVectors; ++v) {
                values[v] = load<kLanes>(single + v * kLanes);
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            store<kLanes>(to + v * kLanes, values[v]);
            sums[v] += values[v];
        }
        to += kLanes * kVectors;
    }
    for (int v = 0; v < kVectors; ++v) {
        store<kLanes>(panel.sums + v * kLanes, load<kLanes>(panel.sums + v * kLanes) + sums[v]);
    }
}

/// kRows floats of a run x one panel.
template <int kLanes, int kVectors, int kRows>
COHORT_INLINE inline void gradient_rows(const ConvGradientPanel& panel, const float* source,
                                        float* to) {
    Vector<kLanes> sums[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
            sums[r][v] =
                panel.adds ? load<kLanes>(to + (r * kVectors + v) * kLanes) : Vector<kLanes>{};
        }
    }
    const float* gradient = panel.output_gradient;
    for (const std::int32_t pixel : panel.pixels) {
        const float* from = source + pixel;
        Vector<kLanes> g[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            g[v] = load<kLanes>(gradient + v * kLanes);
        }
        gradient += kLanes * kVectors;
        for (int r = 0; r < kRows; ++r) {
            for (int v = 0; v < kVectors; ++v) {
                sums[r][v] += from[r] * g[v];
            }
        }
    }
    for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
            store<kLanes>(to + (r * kVectors + v) * kLanes, sums[r][v]);
        }
    }
}

template <int kLanes, int kVectors>
COHORT_INLINE inline void gradient(const ConvGradientPanel& panel) {
    constexpr int kRows = 6;
    float* to = panel.sums;
    for (const ConvRun& run : panel.runs) {
        const float* from = panel.source + run.offset;
        std::int64_t k = 0;
        for (; k + kRows <= run.length; k += kRows) {
            gradient_rows<kLanes, kVectors, kRows>(panel, from + k, to);
            to += kRows * kVectors * kLanes;
        }
        const auto rest = static_cast<int>(run.length - k);
        with_constant<1, 2, 3, 4, 5>(
            rest, [&](auto rows) __attribute__((always_inline)) {
                gradient_rows<kLanes, kVectors, rows()>(panel, from + k, to);
            });
        to += rest * kVectors * kLanes;
    }
}

template <int kLanes, int kVectors, int kPixels>
COHORT_INLINE inline void depthwise(const ConvPanel& panel) {
    for_tiles<kLanes, kVectors, kPixels>(
        panel, [&](const float* const(&sources)[kPixels],
                   Vector<kLanes>(&sums)[kPixels][kVectors]) __attribute__((always_inline)) {
            const float* weights = panel.weights;
            for (const ConvRun& run : panel.runs) {
                for (int v = 0; v < kVectors; ++v) {
                    const Vector<kLanes> w = load<kLanes>(weights + v * kLanes);
                    for (int p = 0; p < kPixels; ++p) {
                        sums[p][v] += load<kLanes>(sources[p] + run.offset + v * kLanes) * w;
                    }
                }
                weights += kLanes * kVectors;
            }
        });
}

/// kTaps taps x one panel.
template <int kLanes, int kVectors, int kTaps>
COHORT_INLINE inline void depthwise_gradient_taps(const ConvGradientPanel& panel,
                                                  const ConvRun* runs, float* to) {
    Vector<kLanes> sums[kTaps][kVectors];
    const float* from[kTaps];
    for (int t = 0; t < kTaps; ++t) {
        from[t] = panel.source + runs[t].offset;
        for (int v = 0; v < kVectors; ++v) {
            sums[t][v] =
                panel.adds ? load<kLanes>(to + (t * kVectors + v) * kLanes) : Vector<kLanes>{};
        }
    }
    const float* gradient = panel.output_gradient;
    for (const std::int32_t pixel : panel.pixels) {
        for (int v = 0; v < kVectors; ++v) {
            const Vector<kLanes> g = load<kLanes>(gradient + v * kLanes);
            for (int t = 0; t < kTaps; ++t) {
                sums[t][v] += load<kLanes>(from[t] + pixel + v * kLanes) * g;
            }
        }
        gradient += kLanes * kVectors;
    }
    for (int t = 0; t < kTaps; ++t) {
        for (int v = 0; v < kVectors; ++v) {
            store<kLanes>(to + (t * kVectors + v) * kLanes, sums[t][v]);
        }
    }
}

template <int kLanes, int kVectors>
COHORT_INLINE inline void depthwise_gradient(const ConvGradientPanel& panel) {
    constexpr int kTaps = 3;
    float* to = panel.sums;
    const ConvRun* run = panel.runs.data();
    for (std::size_t left = panel.runs.size(); left > 0;) {
        const int taps = static_cast<int>(std::min<std::size_t>(left, kTaps));
        with_constant<1, 2, 3>(
            taps, [&](auto count) __attribute__((always_inline)) {
                depthwise_gradient_taps<kLanes, kVectors, count()>(panel, run, to);
            });
        run += taps;
        left -= static_cast<std::size_t>(taps);
        to += taps * kVectors * kLanes;
    }
}

// Instances for a set of instructions: everything above becomes part of them.
#define COHORT_CONV_LOOPS(NAME, TARGET, LANES, PIXELS)                          \
    struct NAME {                                                               \
        template <int kVectors>                                                 \
        TARGET static void product(const ConvPanel& panel) {                    \
            cohort::product<LANES, kVectors, PIXELS>(panel);                    \
        }                                                                       \
        template <int kVectors>                                                 \
        TARGET static void gradient(const ConvGradientPanel& panel) {           \
            cohort::gradient<LANES, kVectors>(panel);                           \
        }                                                                       \
        template <int kVectors>                                                 \
        TARGET static void copy(const ConvPanelCopy& panel) {                   \
            cohort::copy<LANES, kVectors>(panel);                               \
        }                                                                       \
        TARGET static void depthwise(const ConvPanel& panel) {                  \
            cohort::depthwise<LANES, 2, 4>(panel);                              \
        }                                                                       \
        TARGET static void depthwise_gradient(const ConvGradientPanel& panel) { \
            cohort::depthwise_gradient<LANES, 2>(panel);                        \
        }                                                                       \
        static ConvLoops loops() {                                              \
            return {LANES,                                                      \
                    {nullptr, product<1>, product<2>},                          \
                    {nullptr, gradient<1>, gradient<2>},                        \
                    {nullptr, copy<1>, copy<2>},                                \
                    depthwise,                                                  \
                    depthwise_gradient};                                        \
        }                                                                       \
    }
COHORT_CONV_LOOPS(Sse, , 4, 6);
#if defined(__x86_64__) && defined(__GNUC__)
COHORT_CONV_LOOPS(Avx, __attribute__((target("avx"))), 8, 6);
COHORT_CONV_LOOPS(Avx2, __attribute__((target("avx2,fma"))), 8, 6);
COHORT_CONV_LOOPS(Avx512, __attribute__((target("avx512f,avx2,fma"))), 16, 8);
#endif
#undef COHORT_CONV_LOOPS

ConvLoops loops_for_this_machine() {
#if defined(__x86_64__) && defined(__GNUC__)
    switch (vector_level()) {
        case VectorLevel::kAvx512: return Avx512::loops();
        case VectorLevel::kAvx2: return Avx2::loops();
        case VectorLevel::kAvx: return Avx::loops();
        case VectorLevel::kSse: break;
    }
#endif
    return Sse::loops();
}

}  // namespace

const ConvLoops& conv_loops() {
    static const ConvLoops loops = loops_for_this_machine();
    return loops;
}

}  // namespace cohort
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result,bugprone-misplaced-widening-cast,bugprone-macro-parentheses)
