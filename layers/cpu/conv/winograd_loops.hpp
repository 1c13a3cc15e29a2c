#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/system/simd.hpp"
#include "layers/cpu/conv/winograd_kernels.hpp"
#include "layers/cpu/lanes.hpp"

// Products of lanes, vectors and taps are small.
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)

// The loops of WinogradKernels, to become part of functions that are compiled for one set of
// instructions each. Vectors run over channels, so that a transform is plain arithmetic on them.
namespace cohort::winograd {

// Not by memcpy as in lanes.hpp: GCC 12 copies what is stored in a loop by halves.
template <int kLanes>
struct Memory {
    using Type
        [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
            float;
};
template <int kLanes>
COHORT_INLINE inline Vector<kLanes> load(const float* from) {
    return *reinterpret_cast<const typename Memory<kLanes>::Type*>(from);
}
template <int kLanes>
COHORT_INLINE inline void store(float* to, const Vector<kLanes>& value) {
    *reinterpret_cast<typename Memory<kLanes>::Type*>(to) = value;
}

/// f(0) ... f(kCount - 1) as constants, so that arrays of vectors become registers.
template <int kCount, class F>
COHORT_INLINE inline void unrolled(F&& f) {
    [&]<int... i>(std::integer_sequence<int, i...>) COHORT_INLINE {
        (f(std::integral_constant<int, i>{}), ...);
    }
    (std::make_integer_sequence<int, kCount>{});
}

/// Where a sample's `lanes` channels from `channel` on begin.
COHORT_INLINE inline std::int64_t channel_offset(const WinogradImage& image, std::int64_t sample,
                                                 std::int64_t channel) {
    return sample * image.sample_floats() +
           channel / image.block * image.block * image.height * image.width + channel % image.block;
}
COHORT_INLINE inline float* panel_of(const WinogradOperand& operand, std::int64_t channel) {
    return operand.data + channel / operand.width * operand.panel_stride + channel % operand.width;
}

/// Tiles side by side in one row of tiles.
struct Run {
    std::int64_t sample;
    std::int64_t row;
    std::int64_t column;
    std::int64_t count;
    std::int64_t at;  ///< its first tile's number among the tiles asked for
};
constexpr std::int64_t kLongestRun = 16;  // its columns stay in the first-level cache

template <class F>
COHORT_INLINE inline void for_each_run(const WinogradTiles& tiles, F&& f) {
    const std::int64_t in_sample = tiles.rows * tiles.columns;
    for (std::int64_t at = 0; at < tiles.count;) {
        const std::int64_t tile = tiles.first + at;
        const std::int64_t row = tile % in_sample / tiles.columns;
        const std::int64_t column = tile % tiles.columns;
        const std::int64_t count =
            std::min({tiles.columns - column, tiles.count - at, kLongestRun});
        f(Run{tile / in_sample, row, column, count, at});
        at += count;
    }
}

/// Both transforms of tiles of an image: the vertical pass does every column of a run once,
/// though source tiles overlap; then the horizontal pass does every tile.
/// @param kExtent  rows and columns of the image in a tile
/// @param transform  (const V* from, V* to), of kExtent values to Tile::kPoints
template <int kLanes, class Tile, int kExtent, class Transform, class Seen>
COHORT_INLINE inline void image_tiles(const WinogradImage& image, const WinogradTiles& tiles,
                                      const float* from, const WinogradOperand& to,
                                      Transform&& transform, Seen&& seen) {
    using V = Vector<kLanes>;
    constexpr int kPoints = Tile::kPoints;
    constexpr std::int64_t kColumns = (kLongestRun - 1) * Tile::kOutput + kExtent;
    V columns[kPoints][kColumns];
    const std::int64_t stride = to.point_stride;
    const std::int64_t width = to.width;
    for_each_run(tiles, [&](const Run& run) COHORT_INLINE {
        const std::int64_t top = run.row * Tile::kOutput + tiles.offset;
        const std::int64_t left = run.column * Tile::kOutput + tiles.offset;
        const std::int64_t wide = (run.count - 1) * Tile::kOutput + kExtent;
        const std::int64_t begin = std::clamp(-left, std::int64_t{0}, wide);
        const std::int64_t end = std::clamp(image.width - left, begin, wide);
        for (std::int64_t channel = 0; channel < image.channels; channel += kLanes) {
            const float* base = from + channel_offset(image, run.sample, channel);
            const float* rows[kExtent];
            for (int r = 0; r < kExtent; ++r) {
                const std::int64_t y = top + r;
                rows[r] =
                    y >= 0 && y < image.height ? base + y * image.width * image.block : image.zeros;
            }
            for (std::int64_t c = 0; c < begin; ++c) {
                unrolled<kPoints>([&](auto p) COHORT_INLINE { columns[p][c] = V{}; });
            }
            V sum = {};
            for (std::int64_t c = begin; c < end; ++c) {
                V d[kExtent];
                V points[kPoints];
                const std::int64_t x = (left + c) * image.block;
                unrolled<kExtent>([&](auto r) COHORT_INLINE {
                    d[r] = load<kLanes>(rows[r] + x);
                    sum += d[r];
                });
                transform(static_cast<const V*>(d), static_cast<V*>(points));
                unrolled<kPoints>([&](auto p) COHORT_INLINE { columns[p][c] = points[p]; });
            }
            for (std::int64_t c = end; c < wide; ++c) {
                unrolled<kPoints>([&](auto p) COHORT_INLINE { columns[p][c] = V{}; });
            }
            seen(channel, sum);
            float* target = panel_of(to, channel) + run.at * width;
            for (std::int64_t tile = 0; tile < run.count; ++tile) {
                unrolled<kPoints>([&](auto p) COHORT_INLINE {
                    V points[kPoints];
                    transform(static_cast<const V*>(&columns[p][tile * Tile::kOutput]),
                              static_cast<V*>(points));
                    unrolled<kPoints>([&](auto q) COHORT_INLINE {
                        store<kLanes>(target + (p * kPoints + q) * stride, points[q]);
                    });
                });
                target += width;
            }
        }
    });
}

template <int kLanes, class Tile>
COHORT_INLINE inline void source(const WinogradImage& image, const WinogradTiles& tiles,
                                 const float* from, const WinogradOperand& to) {
    using V = Vector<kLanes>;
    image_tiles<kLanes, Tile, Tile::kInput>(
        image, tiles, from, to,
        [](const V* d, V* points) COHORT_INLINE { Tile::source(d, points); },
        [](std::int64_t /*channel*/, const V& /*sum*/) COHORT_INLINE {});
}

template <int kLanes, class Tile>
COHORT_INLINE inline void gradient(const WinogradImage& image, const WinogradTiles& tiles,
                                   const float* from, const WinogradOperand& to, float* sums) {
    using V = Vector<kLanes>;
    image_tiles<kLanes, Tile, Tile::kOutput>(
        image, tiles, from, to,
        [](const V* d, V* points) COHORT_INLINE { Tile::gradient(d, points); },
        [&](std::int64_t channel, const V& sum) COHORT_INLINE {
            if (sums != nullptr) {
                store<kLanes>(sums + channel, load<kLanes>(sums + channel) + sum);
            }
        });
}

template <int kLanes, class Tile>
COHORT_INLINE inline void output(const WinogradImage& image, const WinogradTiles& tiles,
                                 const WinogradOperand& from, std::int64_t channel,
                                 const float* bias, float* to) {
    using V = Vector<kLanes>;
    constexpr int kPoints = Tile::kPoints;
    constexpr int kOutput = Tile::kOutput;
    const std::int64_t stride = from.point_stride;
    const std::int64_t vectors = std::min(from.width, image.channels - channel) / kLanes;
    for_each_run(tiles, [&](const Run& run) COHORT_INLINE {
        const std::int64_t top = run.row * kOutput;
        const std::int64_t height = std::min<std::int64_t>(kOutput, image.height - top);
        for (std::int64_t v = 0; v < vectors; ++v) {
            const std::int64_t c = channel + v * kLanes;
            float* base =
                to + channel_offset(image, run.sample, c) + top * image.width * image.block;
            const V offset = bias == nullptr ? V{} : load<kLanes>(bias + c);
            for (std::int64_t tile = 0; tile < run.count; ++tile) {
                const float* source = from.data + (run.at + tile) * from.width + v * kLanes;
                V half[kOutput][kPoints];
                unrolled<kPoints>([&](auto q) COHORT_INLINE {
                    V m[kPoints];
                    V y[kOutput];
                    unrolled<kPoints>([&](auto p) COHORT_INLINE {
                        m[p] = load<kLanes>(source + (p * kPoints + q) * stride);
                    });
                    Tile::output(static_cast<const V*>(m), static_cast<V*>(y));
                    unrolled<kOutput>([&](auto r) COHORT_INLINE { half[r][q] = y[r]; });
                });
                const std::int64_t left = (run.column + tile) * kOutput;
                const std::int64_t width = std::min<std::int64_t>(kOutput, image.width - left);
                for (std::int64_t r = 0; r < height; ++r) {
                    V y[kOutput];
                    Tile::output(static_cast<const V*>(half[r]), static_cast<V*>(y));
                    float* pixel = base + (r * image.width + left) * image.block;
                    unrolled<kOutput>([&](auto x) COHORT_INLINE {
                        if (x < width) {
                            store<kLanes>(pixel + x * image.block, y[x] + offset);
                        }
                    });
                }
            }
        }
    });
}

/// The taps of one input and a panel's outputs, which lie apart in memory.
template <int kPanel>
COHORT_INLINE inline void gather_taps(const WinogradWeights& shape, std::int64_t output,
                                      std::int64_t input, const float* from,
                                      float (*taps)[kPanel]) {
    constexpr int kTaps = 9;
    const std::int64_t there = std::min<std::int64_t>(kPanel, shape.outputs - output);
    const float* first = from + output * shape.output_stride + input * shape.input_stride;
    for (std::int64_t o = 0; o < there; ++o) {
        const float* kernel = first + o * shape.output_stride;
        for (int tap = 0; tap < kTaps; ++tap) {
            taps[tap][o] = kernel[shape.turned ? kTaps - 1 - tap : tap];
        }
    }
}

template <int kLanes, class Tile>
COHORT_INLINE inline void weights(const WinogradWeights& shape, std::int64_t output,
                                  const float* from, const WinogradOperand& to) {
    using V = Vector<kLanes>;
    constexpr int kPoints = Tile::kPoints;
    constexpr int kPanel = 2 * kLanes;
    const std::int64_t stride = to.point_stride;
    float taps[9][kPanel] = {};
    for (std::int64_t input = 0; input < shape.inputs; ++input) {
        gather_taps<kPanel>(shape, output, input, from, taps);
        for (int v = 0; v < 2; ++v) {
            V half[3][kPoints];
            unrolled<3>([&](auto x) COHORT_INLINE {
                const V g[3] = {load<kLanes>(&taps[x][v * kLanes]),
                                load<kLanes>(&taps[3 + x][v * kLanes]),
                                load<kLanes>(&taps[6 + x][v * kLanes])};
                Tile::weights(static_cast<const V*>(g), static_cast<V*>(half[x]));
            });
            float* target = to.data + input * kPanel + v * kLanes;
            unrolled<kPoints>([&](auto p) COHORT_INLINE {
                const V g[3] = {half[0][p], half[1][p], half[2][p]};
                V points[kPoints];
                Tile::weights(static_cast<const V*>(g), static_cast<V*>(points));
                unrolled<kPoints>([&](auto q) COHORT_INLINE {
                    store<kLanes>(target + (p * kPoints + q) * stride, points[q]);
                });
            });
        }
    }
}

template <int kLanes, class Tile>
COHORT_INLINE inline void weight_gradient(std::int64_t inputs, const WinogradOperand& from,
                                          bool adds, float* to) {
    using V = Vector<kLanes>;
    constexpr int kPoints = Tile::kPoints;
    constexpr int kPanel = 2 * kLanes;
    const std::int64_t stride = from.point_stride;
    for (std::int64_t input = 0; input < inputs; ++input) {
        for (int v = 0; v < 2; ++v) {
            const float* source = from.data + input * kPanel + v * kLanes;
            float* target = to + input * 9 * kPanel + v * kLanes;
            V half[3][kPoints];
            unrolled<kPoints>([&](auto q) COHORT_INLINE {
                V m[kPoints];
                V g[3];
                unrolled<kPoints>([&](auto p) COHORT_INLINE {
                    m[p] = load<kLanes>(source + (p * kPoints + q) * stride);
                });
                Tile::weight_gradient(static_cast<const V*>(m), static_cast<V*>(g));
                unrolled<3>([&](auto y) COHORT_INLINE { half[y][q] = g[y]; });
            });
            unrolled<3>([&](auto y) COHORT_INLINE {
                V g[3];
                Tile::weight_gradient(static_cast<const V*>(half[y]), static_cast<V*>(g));
                unrolled<3>([&](auto x) COHORT_INLINE {
                    float* tap = target + (y * 3 + x) * kPanel;
                    store<kLanes>(tap, adds ? load<kLanes>(tap) + g[x] : g[x]);
                });
            });
        }
    }
}

/// kRows rows of the product by kVectors vectors of columns, all of it in registers.
template <int kLanes, bool kTransposed, int kRows, int kVectors>
COHORT_INLINE inline void product_rows(const WinogradProduct& p, const float* a, const float* b,
                                       float* to) {
    using V = Vector<kLanes>;
    constexpr int kPanel = 2 * kLanes;
    const std::int64_t row_stride = kTransposed ? 1 : p.a_stride;
    const std::int64_t depth_stride = kTransposed ? p.a_stride : 1;
    V sums[kRows][kVectors];
    const auto for_sums = [&](auto&& f) COHORT_INLINE {
        unrolled<kRows>([&](auto r) COHORT_INLINE {
            unrolled<kVectors>([&](auto v)
                                   COHORT_INLINE { f(sums[r][v], to + r * kPanel + v * kLanes); });
        });
    };
    if (p.adds) {
        for_sums([](V& sum, const float* at) COHORT_INLINE { sum = load<kLanes>(at); });
    } else {
        for_sums([](V& sum, const float* /*at*/) COHORT_INLINE { sum = V{}; });
    }
    for (std::int64_t k = 0; k < p.depth; ++k) {
        V columns[kVectors];
        unrolled<kVectors>([&](auto v)
                               COHORT_INLINE { columns[v] = load<kLanes>(b + v * kLanes); });
        unrolled<kRows>([&](auto r) COHORT_INLINE {
            const float value = a[r * row_stride];
            unrolled<kVectors>([&](auto v) COHORT_INLINE { sums[r][v] += columns[v] * value; });
        });
        a += depth_stride;
        b += kPanel;
    }
    for_sums([](const V& sum, float* at) COHORT_INLINE { store<kLanes>(at, sum); });
}

template <int kLanes, bool kTransposed, int kRows, int kVectors>
COHORT_INLINE inline void product_of(const WinogradProduct& p, const float* a, const float* b,
                                     float* to) {
    constexpr int kPanel = 2 * kLanes;
    const std::int64_t step = kTransposed ? 1 : p.a_stride;
    // The last two parts are equal: 16 rows are 6 + 5 + 5, for a part of few rows waits for its
    // sums.
    for (std::int64_t left = p.rows; left > 0;) {
        const std::int64_t rows = left >= 2 * kRows || left == kRows ? kRows
                                  : left > kRows                     ? (left + 1) / 2
                                                                     : left;
        const auto run = [&](auto count) COHORT_INLINE {
            product_rows<kLanes, kTransposed, decltype(count)::value, kVectors>(p, a, b, to);
        };
        if constexpr (kRows == 8) {
            with_constant<8, 7, 6, 5, 4, 3, 2, 1>(static_cast<int>(rows), run);
        } else {
            with_constant<6, 5, 4, 3, 2, 1>(static_cast<int>(rows), run);
        }
        left -= rows;
        a += rows * step;
        to += rows * kPanel;
    }
}

template <int kLanes, bool kTransposed, int kRows>
COHORT_INLINE inline void product(const WinogradProduct& p, const float* a, const float* b,
                                  float* to) {
    if (p.vectors == 2) {
        product_of<kLanes, kTransposed, kRows, 2>(p, a, b, to);
    } else {
        product_of<kLanes, kTransposed, kRows, 1>(p, a, b, to);
    }
}

}  // namespace cohort::winograd
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
