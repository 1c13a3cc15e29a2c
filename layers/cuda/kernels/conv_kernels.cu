#include "layers/cuda/kernels/conv_kernels.hpp"

#include "channel_tiles.cuh"
#include "core/tensor/cuda.hpp"
#include "layers/cuda/rules/activation_rules.hpp"

namespace cohort::cuda {
namespace {

template <class T, int V>
__global__ void bias_relu_kernel(RowProblem p, const float* bias, bool relu, T* y) {
    const TilePlace place = tile_place(p.tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t c = place.group * V;
    float own[V];
    clear(own);
    if (bias != nullptr) {
        channel_values(bias + c, own);
    }
    for (std::int64_t row = place.first_row; row < p.rows; row += place.row_step) {
        T* at = y + row * p.channels + c;
        float value[V];
        load(at, value);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            value[v] += own[v];
            value[v] = relu ? relu_of(value[v]) : value[v];
        }
        store(at, value);
    }
}

/// Sums of a block's rows, to partials[channel][block].
template <class T, int V>
__global__ void gradient_kernel(RowProblem p, bool relu, const T* y, T* gradient, float* partials) {
    __shared__ float shared[V * kTileThreads];
    const TilePlace place = tile_place(p.tiles);
    const std::int64_t c = place.group * V;
    float sum[V];
    clear(sum);
    if (place.active) {
#pragma unroll 2
        for (std::int64_t row = place.first_row; row < p.rows; row += place.row_step) {
            const std::int64_t i = row * p.channels + c;
            float g[V];
            load(gradient + i, g);
            if (relu) {
                float output[V];
                load(y + i, output);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    g[v] = relu_slope(output[v], g[v]);
                }
                store(gradient + i, g);
            }
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sum[v] += g[v];
            }
        }
    }
    if (partials == nullptr) {
        return;  // the whole grid
    }
    fold_rows(p.tiles, place, sum, shared);
    if (place.active && place.row_in_tile == 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            partials[(c + v) * gridDim.y + blockIdx.y] = sum[v];
        }
    }
}

/// A warp for each channel.
__global__ void sums_kernel(std::int64_t channels, std::int64_t blocks, const float* partials,
                            float* sums) {
    const std::int64_t c =
        static_cast<std::int64_t>(blockIdx.x) * kChannelsPerBlock + threadIdx.x / kWarp;
    if (c >= channels) {
        return;  // the whole warp
    }
    double sum = 0;
    for (std::int64_t b = threadIdx.x % kWarp; b < blocks; b += kWarp) {
        sum += static_cast<double>(partials[c * blocks + b]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) {
        sums[c] = static_cast<float>(sum);
    }
}

}  // namespace

void add_bias_relu(cudaStream_t stream, const RowProblem& p, const float* bias, bool relu,
                   void* y) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        bias_relu_kernel<T, decltype(vector)::value>
            <<<grid_of(p.tiles), kTileThreads, 0, stream>>>(p, bias, relu, static_cast<T*>(y));
    });
    check_launch("bias and ReLU");
}

void sum_partials(cudaStream_t stream, std::int64_t count, std::int64_t blocks,
                  const float* partials, float* sums) {
    sums_kernel<<<warp_blocks(count), kWarp * kChannelsPerBlock, 0, stream>>>(count, blocks,
                                                                              partials, sums);
    check_launch("partial sums");
}

std::size_t bias_partial_bytes(const RowProblem& p) noexcept {
    return static_cast<std::size_t>(p.channels) * p.tiles.blocks_y * sizeof(float);
}

void relu_bias_gradient(cudaStream_t stream, const RowProblem& p, bool relu, const void* y,
                        void* gradient, float* partials, float* bias_gradient) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        gradient_kernel<T, decltype(vector)::value><<<grid_of(p.tiles), kTileThreads, 0, stream>>>(
            p, relu, static_cast<const T*>(y), static_cast<T*>(gradient),
            bias_gradient == nullptr ? nullptr : partials);
    });
    check_launch("gradient of bias and ReLU");
    if (bias_gradient != nullptr) {
        sum_partials(stream, p.channels, p.tiles.blocks_y, partials, bias_gradient);
    }
}

}  // namespace cohort::cuda
