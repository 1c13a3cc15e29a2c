#include "layers/cuda/kernels/batch_norm_kernels.hpp"

#include <cmath>

#include "channel_tiles.cuh"
#include "layers/cuda/rules/activation_rules.hpp"
#include "tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

/// Moments of each channel over a block's rows, to partials[channel][block]: mean and squares.
template <class T, int V>
__global__ void moments_kernel(ChannelTiles tiles, std::int64_t rows, std::int64_t stored,
                               const T* x, float2* partials) {
    __shared__ float counts[kTileThreads];
    __shared__ float means[V][kTileThreads];
    __shared__ float squares[V][kTileThreads];
    const TilePlace place = tile_place(tiles);
    float shift[V];
    float sum[V];
    float square[V];
    clear(shift);
    clear(sum);
    clear(square);
    int count = 0;
    if (place.active && place.first_row < rows) {
        const T* first = x + place.group * V;
        load(first + place.first_row * stored, shift);
#pragma unroll 4
        for (std::int64_t row = place.first_row; row < rows; row += place.row_step) {
            float value[V];
            load(first + row * stored, value);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const float distance = value[v] - shift[v];
                sum[v] += distance;
                square[v] += distance * distance;
            }
            ++count;
        }
    }
    counts[threadIdx.x] = static_cast<float>(count);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const Moments<float> own =
            moments_of_sums(static_cast<float>(count), shift[v], sum[v], square[v]);
        means[v][threadIdx.x] = own.mean;
        squares[v][threadIdx.x] = own.squares;
    }
    for (int half = tiles.rows() / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place.row_in_tile < half) {
            const int own = static_cast<int>(threadIdx.x);
            const int other = own + half * tiles.lanes;
            float both = 0;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const Moments<float> merged =
                    merge(Moments<float>{counts[own], means[v][own], squares[v][own]},
                          Moments<float>{counts[other], means[v][other], squares[v][other]});
                both = merged.count;
                means[v][own] = merged.mean;
                squares[v][own] = merged.squares;
            }
            counts[own] = both;
        }
    }
    if (place.active && place.row_in_tile == 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            partials[(place.group * V + v) * gridDim.y + blockIdx.y] = {means[v][threadIdx.x],
                                                                        squares[v][threadIdx.x]};
        }
    }
}

/// y = x scale + offset for a channel with these statistics.
__device__ void set_affine(const BnProblem& p, std::int64_t c, double mean, double variance) {
    const double inverse = 1.0 / sqrt(variance + static_cast<double>(p.epsilon));
    const double scale = static_cast<double>(p.weight[c]) * inverse;
    p.values.inverse[c] = inverse;
    p.values.mean[c] = static_cast<float>(mean);
    p.values.scale[c] = static_cast<float>(scale);
    p.values.offset[c] = static_cast<float>(static_cast<double>(p.bias[c]) - mean * scale);
}

__device__ Moments<double> merge_down(Moments<double> own) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        const Moments<double> other{__shfl_down_sync(0xFFFFFFFFU, own.count, distance),
                                    __shfl_down_sync(0xFFFFFFFFU, own.mean, distance),
                                    __shfl_down_sync(0xFFFFFFFFU, own.squares, distance)};
        own = merge(own, other);
    }
    return own;
}

/// A warp for each channel.
__global__ void statistics_kernel(BnProblem p, const float2* partials, float* batch_mean,
                                  float* batch_variance) {
    const std::int64_t c =
        static_cast<std::int64_t>(blockIdx.x) * kChannelsPerBlock + threadIdx.x / kWarp;
    if (c >= p.channels) {
        return;  // the whole warp
    }
    const auto blocks = static_cast<std::int64_t>(p.tiles.blocks_y);
    Moments<double> sum;
    for (std::int64_t b = threadIdx.x % kWarp; b < blocks; b += kWarp) {
        const float2 partial = partials[c * blocks + b];
        const auto count = static_cast<double>(rows_of_block(p.rows, p.tiles.rows(), blocks, b));
        sum = merge(sum, Moments<double>{count, static_cast<double>(partial.x),
                                         static_cast<double>(partial.y)});
    }
    sum = merge_down(sum);
    if (threadIdx.x % kWarp == 0) {
        const double variance = sum.squares / static_cast<double>(p.rows);
        batch_mean[c] = static_cast<float>(sum.mean);
        batch_variance[c] = static_cast<float>(variance);
        set_affine(p, c, sum.mean, variance);
    }
}

__global__ void inference_kernel(BnProblem p, const float* mean, const float* variance) {
    const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (c < p.channels) {
        set_affine(p, c, static_cast<double>(mean[c]), static_cast<double>(variance[c]));
    }
}

template <class T, int V>
__global__ void apply_kernel(BnProblem p, const T* x, const T* added, std::int64_t added_stored,
                             bool relu, T* y) {
    const TilePlace place = tile_place(p.tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t c = place.group * V;
    // Of rows of another length what lies behind the last channel does not belong to it.
    const bool adds = added != nullptr && (added_stored == p.stored || c < p.channels);
    float scale[V];
    float offset[V];
    channel_values(p.values.scale + c, scale);
    channel_values(p.values.offset + c, offset);
#pragma unroll 4
    for (std::int64_t row = place.first_row; row < p.rows; row += place.row_step) {
        float value[V];
        float other[V];
        clear(other);
        load(x + row * p.stored + c, value);
        if (adds) {
            load(added + row * added_stored + c, other);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const float sum = value[v] * scale[v] + offset[v] + other[v];
            value[v] = relu ? relu_of(sum) : sum;
        }
        store(y + row * p.stored + c, value);
    }
}

/// The gradient behind the ReLU of one element.
__device__ float masked(BnMask mask, float gradient, float x, float scale, float offset, float y) {
    switch (mask) {
        case BnMask::kNone: return gradient;
        case BnMask::kFromInput: return relu_slope(x * scale + offset, gradient);
        case BnMask::kFromOutput: return relu_slope(y, gradient);
    }
    return gradient;
}

/// Sums of g and g (x - mean) over a block's rows, to partials[channel][block].
template <class T, int V>
__global__ void reduce_kernel(BnProblem p, BnMask mask, const T* x, const T* y, T* gradient,
                              float2* partials) {
    __shared__ float shared[V * kTileThreads];
    const TilePlace place = tile_place(p.tiles);
    const std::int64_t c = place.group * V;
    float sum[V];
    float product[V];
    clear(sum);
    clear(product);
    if (place.active) {
        float mean[V];
        float scale[V];
        float offset[V];
        channel_values(p.values.mean + c, mean);
        channel_values(p.values.scale + c, scale);
        channel_values(p.values.offset + c, offset);
#pragma unroll 2
        for (std::int64_t row = place.first_row; row < p.rows; row += place.row_step) {
            const std::int64_t i = row * p.stored + c;
            float g[V];
            float value[V];
            float output[V];
            clear(output);
            load(gradient + i, g);
            load(x + i, value);
            if (mask == BnMask::kFromOutput) {
                load(y + i, output);
            }
#pragma unroll
            for (int v = 0; v < V; ++v) {
                g[v] = masked(mask, g[v], value[v], scale[v], offset[v], output[v]);
                sum[v] += g[v];
                product[v] += g[v] * (value[v] - mean[v]);
            }
            if (mask == BnMask::kFromOutput) {
                store(gradient + i, g);
            }
        }
    }
    fold_rows(p.tiles, place, sum, shared);
    fold_rows(p.tiles, place, product, shared);
    if (place.active && place.row_in_tile == 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            partials[(c + v) * gridDim.y + blockIdx.y] = {sum[v], product[v]};
        }
    }
}

/// A warp for each channel.
__global__ void gradients_kernel(BnProblem p, const float2* partials, float* weight_gradient,
                                 float* bias_gradient) {
    const std::int64_t c =
        static_cast<std::int64_t>(blockIdx.x) * kChannelsPerBlock + threadIdx.x / kWarp;
    if (c >= p.channels) {
        return;  // the whole warp
    }
    const auto blocks = static_cast<std::int64_t>(p.tiles.blocks_y);
    double sum = 0;
    double product = 0;
    for (std::int64_t b = threadIdx.x % kWarp; b < blocks; b += kWarp) {
        const float2 partial = partials[c * blocks + b];
        sum += static_cast<double>(partial.x);
        product += static_cast<double>(partial.y);
    }
    sum = warp_sum(sum);
    product = warp_sum(product);
    if (threadIdx.x % kWarp == 0) {
        const double inverse = p.values.inverse[c];
        const auto count = static_cast<double>(p.rows);
        product *= inverse;  // sum of g x_hat
        weight_gradient[c] = static_cast<float>(product);
        bias_gradient[c] = static_cast<float>(sum);
        const double a = static_cast<double>(p.weight[c]) * inverse;
        p.values.a[c] = static_cast<float>(a);
        p.values.b[c] = static_cast<float>(-a * inverse * product / count);
        p.values.d[c] = static_cast<float>(-a * sum / count);
    }
}

template <class T, int V>
__global__ void input_gradient_kernel(BnProblem p, BnMask mask, const T* x, const T* gradient,
                                      T* input_gradient) {
    const TilePlace place = tile_place(p.tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t c = place.group * V;
    float mean[V];
    float scale[V];
    float offset[V];
    float a[V];
    float b[V];
    float d[V];
    channel_values(p.values.mean + c, mean);
    channel_values(p.values.scale + c, scale);
    channel_values(p.values.offset + c, offset);
    channel_values(p.values.a + c, a);
    channel_values(p.values.b + c, b);
    channel_values(p.values.d + c, d);
#pragma unroll 2
    for (std::int64_t row = place.first_row; row < p.rows; row += place.row_step) {
        const std::int64_t i = row * p.stored + c;
        float g[V];
        float value[V];
        load(gradient + i, g);
        load(x + i, value);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            // With kFromOutput the gradient has been masked already.
            const float own = mask == BnMask::kFromInput
                                  ? relu_slope(value[v] * scale[v] + offset[v], g[v])
                                  : g[v];
            value[v] = a[v] * own + b[v] * (value[v] - mean[v]) + d[v];
        }
        store(input_gradient + i, value);
    }
}

}  // namespace

std::size_t bn_partial_bytes(const BnProblem& problem) noexcept {
    return static_cast<std::size_t>(problem.stored) * problem.tiles.blocks_y * sizeof(float2);
}

void bn_statistics(cudaStream_t stream, const BnProblem& p, const void* x, float2* partials,
                   float* batch_mean, float* batch_variance) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        moments_kernel<T, decltype(vector)::value><<<grid_of(p.tiles), kTileThreads, 0, stream>>>(
            p.tiles, p.rows, p.stored, static_cast<const T*>(x), partials);
    });
    check_launch("batch norm moments");
    statistics_kernel<<<warp_blocks(p.channels), kWarp * kChannelsPerBlock, 0, stream>>>(
        p, partials, batch_mean, batch_variance);
    check_launch("batch norm statistics");
}

void bn_inference(cudaStream_t stream, const BnProblem& p, const float* mean,
                  const float* variance) {
    const auto blocks = static_cast<unsigned>((p.channels + 127) / 128);
    inference_kernel<<<blocks, 128, 0, stream>>>(p, mean, variance);
    check_launch("batch norm of inference");
}

void bn_apply(cudaStream_t stream, const BnProblem& p, const void* x, const BnAdded& added,
              bool relu, void* y) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        apply_kernel<T, decltype(vector)::value><<<grid_of(p.tiles), kTileThreads, 0, stream>>>(
            p, static_cast<const T*>(x), static_cast<const T*>(added.data), added.stored, relu,
            static_cast<T*>(y));
    });
    check_launch("batch norm");
}

void bn_reduce(cudaStream_t stream, const BnProblem& p, BnMask mask, const void* x, const void* y,
               void* gradient, float2* partials, float* weight_gradient, float* bias_gradient) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        reduce_kernel<T, decltype(vector)::value><<<grid_of(p.tiles), kTileThreads, 0, stream>>>(
            p, mask, static_cast<const T*>(x), static_cast<const T*>(y), static_cast<T*>(gradient),
            partials);
    });
    check_launch("batch norm sums");
    gradients_kernel<<<warp_blocks(p.channels), kWarp * kChannelsPerBlock, 0, stream>>>(
        p, partials, weight_gradient, bias_gradient);
    check_launch("batch norm gradients");
}

void bn_input_gradient(cudaStream_t stream, const BnProblem& p, BnMask mask, const void* x,
                       const void* gradient, void* input_gradient) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        input_gradient_kernel<T, decltype(vector)::value>
            <<<grid_of(p.tiles), kTileThreads, 0, stream>>>(p, mask, static_cast<const T*>(x),
                                                            static_cast<const T*>(gradient),
                                                            static_cast<T*>(input_gradient));
    });
    check_launch("batch norm gradient of input");
}

}  // namespace cohort::cuda
