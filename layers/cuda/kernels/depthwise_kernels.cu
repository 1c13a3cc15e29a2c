#include "layers/cuda/kernels/depthwise_kernels.hpp"

#include <limits>

#include "channel_tiles.cuh"
#include "core/tensor/cuda.hpp"
#include "layers/cuda/kernels/conv_kernels.hpp"

namespace cohort::cuda {
namespace {

/// Neighbouring pixels of a line that a thread makes together: it reads each weight once for them.
constexpr int kStrip = 4;
constexpr int kMostLanes = 32;

constexpr int kSide = kDepthwiseKernel;
constexpr int kTaps = kSide * kSide;

/// Pixels of strips, of which the last of a line may be shorter.
COHORT_HD inline int strips_of(int width) {
    return (width + kStrip - 1) / kStrip;
}

/// Results from images, or gradients of images from those of results.
template <class T, int V, bool kForward>
__global__ void gather_kernel(DepthwiseProblem p, ChannelTiles tiles, const T* from,
                              const T* filter, bool adds, T* to) {
    __shared__ float weights[kTaps][kMostLanes * V];
    const int width = tiles.lanes * V;  // channels of the block
    for (int i = static_cast<int>(threadIdx.x); i < kTaps * width; i += kTileThreads) {
        const int tap = i / width;
        const int lane = i - tap * width;
        const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * width + lane;
        weights[tap][lane] = c < p.channels ? to_float(filter[c * kTaps + tap]) : 0.0F;
    }
    __syncthreads();
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t c = place.group * V;
    const int from_height = kForward ? p.height.image : p.height.result;
    const int from_width = kForward ? p.width.image : p.width.result;
    const int to_height = kForward ? p.height.result : p.height.image;
    const int to_width = kForward ? p.width.result : p.width.image;
    const int strips = strips_of(to_width);
    const int items = p.samples * to_height * strips;
    for (auto item = static_cast<int>(place.first_row); item < items;
         item += static_cast<int>(place.row_step)) {
        const int line = item / strips;
        const int first = (item - line * strips) * kStrip;
        const int sample = line / to_height;
        const int row = line - sample * to_height;
        T* out = to + (static_cast<std::int64_t>(line) * to_width + first) * p.channels + c;
        float sum[kStrip][V];
#pragma unroll
        for (int q = 0; q < kStrip; ++q) {
            clear(sum[q]);
            if (adds && first + q < to_width) {
                load(out + q * p.channels, sum[q]);
            }
        }
#pragma unroll
        for (int r = 0; r < kSide; ++r) {
            const int h = kForward ? image_pixel(p.height, row, r) : result_pixel(p.height, row, r);
            if (h < 0) {
                continue;
            }
            const T* pixels =
                from +
                (static_cast<std::int64_t>(sample) * from_height + h) * from_width * p.channels + c;
#pragma unroll
            for (int s = 0; s < kSide; ++s) {
#pragma unroll
                for (int q = 0; q < kStrip; ++q) {
                    const int w = kForward ? image_pixel(p.width, first + q, s)
                                           : result_pixel(p.width, first + q, s);
                    if (w < 0 || first + q >= to_width) {
                        continue;
                    }
                    float value[V];
                    load(pixels + w * p.channels, value);
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        sum[q][v] += value[v] * weights[r * kSide + s][place.lane * V + v];
                    }
                }
            }
        }
#pragma unroll
        for (int q = 0; q < kStrip; ++q) {
            if (first + q < to_width) {
                store(out + q * p.channels, sum[q]);
            }
        }
    }
}

/// Sums of a block's results, to partials[channel][tap][block].
template <class T, int V>
__global__ void filter_kernel(DepthwiseProblem p, ChannelTiles tiles, const T* image,
                              const T* gradient, float* partials) {
    __shared__ float shared[V * kTileThreads];
    const TilePlace place = tile_place(tiles);
    const std::int64_t c = place.group * V;
    float sum[kTaps][V];
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        clear(sum[tap]);
    }
    const int items = place.active ? p.samples * p.height.result * p.width.result : 0;
    for (auto item = static_cast<int>(place.first_row); item < items;
         item += static_cast<int>(place.row_step)) {
        const int line = item / p.width.result;
        const int column = item - line * p.width.result;
        const int sample = line / p.height.result;
        const int row = line - sample * p.height.result;
        float g[V];
        load(gradient + static_cast<std::int64_t>(item) * p.channels + c, g);
#pragma unroll
        for (int r = 0; r < kSide; ++r) {
            const int h = image_pixel(p.height, row, r);
            if (h < 0) {
                continue;
            }
            const T* pixels = image +
                              (static_cast<std::int64_t>(sample) * p.height.image + h) *
                                  p.width.image * p.channels +
                              c;
#pragma unroll
            for (int s = 0; s < kSide; ++s) {
                const int w = image_pixel(p.width, column, s);
                if (w < 0) {
                    continue;
                }
                float value[V];
                load(pixels + w * p.channels, value);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    sum[r * kSide + s][v] += value[v] * g[v];
                }
            }
        }
    }
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        fold_rows(tiles, place, sum[tap], shared);
        if (place.active && place.row_in_tile == 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const std::int64_t weight = (c + v) * kTaps + tap;
                partials[weight * gridDim.y + blockIdx.y] = sum[tap][v];
            }
        }
    }
}

/// Of strips of `width` pixels.
ChannelTiles strip_tiles(const DepthwiseProblem& p, int height, int width) {
    return channel_tiles(static_cast<std::int64_t>(p.samples) * height * strips_of(width),
                         p.channels, p.type, p.multiprocessors);
}
/// Four channels per thread whatever the type: a sum for each and every tap.
ChannelTiles filter_tiles(const DepthwiseProblem& p) {
    return channel_tiles(static_cast<std::int64_t>(p.samples) * p.height.result * p.width.result,
                         p.channels, ElementType::kF32, p.multiprocessors);
}
constexpr int kFilterVector = kVector<float>;

template <bool kForward>
void gather(cudaStream_t stream, const DepthwiseProblem& p, const void* from, const void* filter,
            bool adds, void* to) {
    const ChannelTiles tiles = kForward ? strip_tiles(p, p.height.result, p.width.result)
                                        : strip_tiles(p, p.height.image, p.width.image);
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        constexpr int kV = decltype(vector)::value;
        const auto* source = static_cast<const T*>(from);
        const auto* weights = static_cast<const T*>(filter);
        auto* target = static_cast<T*>(to);
        gather_kernel<T, kV, kForward>
            <<<grid_of(tiles), kTileThreads, 0, stream>>>(p, tiles, source, weights, adds, target);
    });
    check_launch(kForward ? "depthwise convolution" : "gradient of depthwise convolution");
}

template <class T, int V>
void filter_gradient(cudaStream_t stream, const DepthwiseProblem& p, const ChannelTiles& tiles,
                     const void* image, const void* gradient, float* partials) {
    const auto* x = static_cast<const T*>(image);
    const auto* g = static_cast<const T*>(gradient);
    filter_kernel<T, V><<<grid_of(tiles), kTileThreads, 0, stream>>>(p, tiles, x, g, partials);
}

}  // namespace

bool depthwise_possible(const DepthwiseProblem& p) noexcept {
    const auto pixels = [&p](int height, int width) {
        return static_cast<std::int64_t>(p.samples) * height * width;
    };
    constexpr std::int64_t kMostPixels = std::numeric_limits<int>::max() / 2;  // counted in ints
    return pixels(p.height.image, p.width.image) < kMostPixels &&
           pixels(p.height.result, p.width.result) < kMostPixels;
}

void depthwise_forward(cudaStream_t stream, const DepthwiseProblem& p, const void* image,
                       const void* filter, void* result) {
    gather<true>(stream, p, image, filter, false, result);
}

void depthwise_image_gradient(cudaStream_t stream, const DepthwiseProblem& p,
                              const void* result_gradient, const void* filter, bool adds,
                              void* image_gradient) {
    gather<false>(stream, p, result_gradient, filter, adds, image_gradient);
}

std::size_t depthwise_partial_bytes(const DepthwiseProblem& p) noexcept {
    return static_cast<std::size_t>(p.channels) * static_cast<std::size_t>(kTaps) *
           filter_tiles(p).blocks_y * sizeof(float);
}

void depthwise_filter_gradient(cudaStream_t stream, const DepthwiseProblem& p, const void* image,
                               const void* result_gradient, float* partials,
                               float* filter_gradient_out) {
    const ChannelTiles tiles = filter_tiles(p);
    with_type(p.type, [&](auto zero) {
        using T = decltype(zero);
        if (tiles.vector == 1) {
            filter_gradient<T, 1>(stream, p, tiles, image, result_gradient, partials);
        } else {
            filter_gradient<T, kFilterVector>(stream, p, tiles, image, result_gradient, partials);
        }
    });
    check_launch("gradient of depthwise filters");
    sum_partials(stream, p.channels * kTaps, tiles.blocks_y, partials, filter_gradient_out);
}

}  // namespace cohort::cuda
