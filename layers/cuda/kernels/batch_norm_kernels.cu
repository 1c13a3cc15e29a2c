#include "layers/cuda/kernels/batch_norm_kernels.hpp"

#include <cmath>

#include "channel_tiles.cuh"
#include "core/tensor/cuda.hpp"
#include "layers/cuda/rules/activation_rules.hpp"

namespace cohort::cuda {
namespace {

/// Registers for at least so many blocks on a multiprocessor. With fewer the compiler moves the
/// loads of a turn's last rows behind the use of the first ones.
constexpr int kLeastBlocks = 2;

/// y = x scale + offset for a channel with these statistics.
__device__ void set_affine(const BnProblem& p, std::int64_t c, double mean, double variance) {
    const double inverse = 1.0 / sqrt(variance + static_cast<double>(p.epsilon));
    const double scale = static_cast<double>(p.weight[c]) * inverse;
    p.values.inverse[c] = inverse;
    p.values.mean[c] = static_cast<float>(mean);
    p.values.scale[c] = static_cast<float>(scale);
    p.values.offset[c] = static_cast<float>(static_cast<double>(p.bias[c]) - mean * scale);
}

/// Moments around the first block's mean: in double precision nothing cancels that matters.
__device__ void finish_statistics(const BnProblem& p, float2* moments, float* batch_mean,
                                  float* batch_variance) {
    const RowShares shares(p.rows, p.tiles.rows(), gridDim.y);
    const std::int64_t c = channel_to_finish(p.tiles);
    const double shift = c < p.channels ? static_cast<double>(__ldcg(moments + c).x) : 0.0;
    const BlockSums sums =
        add_blocks(p.tiles, {p.channels, p.stored, moments}, [&](float2 block, int b) {
            const auto count = static_cast<double>(shares[b]);
            const double distance = static_cast<double>(block.x) - shift;
            return double2{count * distance,
                           static_cast<double>(block.y) + count * distance * distance};
        });
    if (sums.active) {
        const Moments<double> all =
            moments_of_sums(static_cast<double>(p.rows), shift, sums.first, sums.second);
        const double variance = all.squares / static_cast<double>(p.rows);
        batch_mean[c] = static_cast<float>(all.mean);
        batch_variance[c] = static_cast<float>(variance);
        set_affine(p, c, all.mean, variance);
    }
}

/// Moments of each channel over a block's rows (mean and squares), then, by the last block, over
/// all rows.
template <class T, int V>
__global__ void __launch_bounds__(kTileThreads, kLeastBlocks)
    statistics_kernel(BnProblem p, const T* __restrict__ x, float2* moments, float* batch_mean,
                      float* batch_variance) {
    __shared__ float counts[kTileThreads];
    __shared__ float means[V][kTileThreads];
    __shared__ float squares[V][kTileThreads];
    const TilePlace place = tile_place(p.tiles);
    float shift[V];
    float sum[V];
    float square[V];
    clear(shift);
    clear(sum);
    clear(square);
    int count = 0;
    if (place.active && place.first_row < p.rows) {
        const T* first = x + place.group * V;
        load(first + place.first_row * p.stored, shift);
        for_rows(place, p.rows, [&](auto rows, std::int64_t row) {
            constexpr int kRows = decltype(rows)::value;
            ChannelPack<T, V> packs[kRows];
            read_rows(place, row, first, p.stored, packs);
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                float value[V];
                unpack(packs[r], value);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const float distance = value[v] - shift[v];
                    sum[v] += distance;
                    square[v] += distance * distance;
                }
            }
            count += kRows;
        });
    }
    counts[threadIdx.x] = static_cast<float>(count);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const Moments<float> own =
            moments_of_sums(static_cast<float>(count), shift[v], sum[v], square[v]);
        means[v][threadIdx.x] = own.mean;
        squares[v][threadIdx.x] = own.squares;
    }
    for (int half = p.tiles.rows() / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place.row_in_tile < half) {
            const int own = static_cast<int>(threadIdx.x);
            const int other = own + half * p.tiles.lanes;
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
            moments[blockIdx.y * p.stored + place.group * V + v] = {means[v][threadIdx.x],
                                                                    squares[v][threadIdx.x]};
        }
    }
    if (is_last_block(p.arrivals + blockIdx.x, gridDim.y)) {
        finish_statistics(p, moments, batch_mean, batch_variance);
    }
}

__global__ void inference_kernel(BnProblem p, const float* mean, const float* variance) {
    const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (c < p.channels) {
        set_affine(p, c, static_cast<double>(mean[c]), static_cast<double>(variance[c]));
    }
}

/// @param lowest  of the output: 0 for ReLU, minus infinity without
template <class T, int V, bool kAdds>
__global__ void __launch_bounds__(kTileThreads, kLeastBlocks)
    apply_kernel(BnProblem p, const T* __restrict__ x, const T* __restrict__ added,
                 std::int64_t added_stored, float lowest, T* __restrict__ y) {
    const TilePlace place = tile_place(p.tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t c = place.group * V;
    if constexpr (kAdds) {
        // Of rows of another length what lies behind the last channel does not belong to it: zeros
        // of x are added instead.
        if (added_stored != p.stored && c >= p.channels) {
            added = x;
            added_stored = p.stored;
        }
    }
    float scale[V];
    float offset[V];
    channel_values(p.values.scale + c, scale);
    channel_values(p.values.offset + c, offset);
    for_rows(place, p.rows, [&](auto rows, std::int64_t row) {
        constexpr int kRows = decltype(rows)::value;
        ChannelPack<T, V> packs[kRows];
        [[maybe_unused]] ChannelPack<T, V> others[kRows];
        read_rows(place, row, x + c, p.stored, packs);
        if constexpr (kAdds) {
            read_rows(place, row, added + c, added_stored, others);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float value[V];
            float other[V];
            unpack(packs[r], value);
            clear(other);
            if constexpr (kAdds) {
                unpack(others[r], other);
            }
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const float sum = value[v] * scale[v] + offset[v] + other[v];
                value[v] = sum < lowest ? lowest : sum;
            }
            store(y + (row + r * place.row_step) * p.stored + c, value);
        }
    });
}

/// The gradient behind the ReLU of one element. @param output  of the ReLU, for kFromOutput
template <BnMask kMask>
__device__ float masked(float gradient, float x, float scale, float offset, float output) {
    if constexpr (kMask == BnMask::kFromInput) {
        return relu_slope(x * scale + offset, gradient);
    } else if constexpr (kMask == BnMask::kFromOutput) {
        return relu_slope(output, gradient);
    } else {
        return gradient;
    }
}

__device__ void finish_gradients(const BnProblem& p, float2* block_sums, float* weight_gradient,
                                 float* bias_gradient) {
    const std::int64_t c = channel_to_finish(p.tiles);
    const BlockSums sums =
        add_blocks(p.tiles, {p.channels, p.stored, block_sums}, [](float2 block, int /*b*/) {
            return double2{static_cast<double>(block.x), static_cast<double>(block.y)};
        });
    if (sums.active) {
        const double inverse = p.values.inverse[c];
        const auto count = static_cast<double>(p.rows);
        const double product = sums.second * inverse;  // sum of g x_hat
        weight_gradient[c] = static_cast<float>(product);
        bias_gradient[c] = static_cast<float>(sums.first);
        const double a = static_cast<double>(p.weight[c]) * inverse;
        p.values.a[c] = static_cast<float>(a);
        p.values.b[c] = static_cast<float>(-a * inverse * product / count);
        p.values.d[c] = static_cast<float>(-a * sums.first / count);
    }
}

/// Sums of g and g (x - mean) over a block's rows, then, by the last block, over all rows.
template <class T, int V, BnMask kMask>
__global__ void __launch_bounds__(kTileThreads, kLeastBlocks)
    reduce_kernel(BnProblem p, const T* __restrict__ x, const T* __restrict__ y, T* gradient,
                  float2* block_sums, float* weight_gradient, float* bias_gradient) {
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
        for_rows(place, p.rows, [&](auto rows, std::int64_t row) {
            constexpr int kRows = decltype(rows)::value;
            ChannelPack<T, V> gradients[kRows];
            ChannelPack<T, V> inputs[kRows];
            [[maybe_unused]] ChannelPack<T, V> outputs[kRows];
            read_rows(place, row, gradient + c, p.stored, gradients);
            read_rows(place, row, x + c, p.stored, inputs);
            if constexpr (kMask == BnMask::kFromOutput) {
                read_rows(place, row, y + c, p.stored, outputs);
            }
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                float g[V];
                float value[V];
                float output[V];
                unpack(gradients[r], g);
                unpack(inputs[r], value);
                clear(output);
                if constexpr (kMask == BnMask::kFromOutput) {
                    unpack(outputs[r], output);
                }
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    g[v] = masked<kMask>(g[v], value[v], scale[v], offset[v], output[v]);
                    sum[v] += g[v];
                    product[v] += g[v] * (value[v] - mean[v]);
                }
                if constexpr (kMask == BnMask::kFromOutput) {
                    store(gradient + (row + r * place.row_step) * p.stored + c, g);
                }
            }
        });
    }
    fold_rows(p.tiles, place, sum, shared);
    fold_rows(p.tiles, place, product, shared);
    if (place.active && place.row_in_tile == 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            block_sums[blockIdx.y * p.stored + c + v] = {sum[v], product[v]};
        }
    }
    if (is_last_block(p.arrivals + blockIdx.x, gridDim.y)) {
        finish_gradients(p, block_sums, weight_gradient, bias_gradient);
    }
}

/// @tparam kMask  kNone: there is none, or the gradient has been masked already
template <class T, int V, BnMask kMask>
__global__ void __launch_bounds__(kTileThreads, kLeastBlocks)
    input_gradient_kernel(BnProblem p, const T* __restrict__ x, const T* __restrict__ gradient,
                          T* __restrict__ input_gradient) {
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
    for_rows(place, p.rows, [&](auto rows, std::int64_t row) {
        constexpr int kRows = decltype(rows)::value;
        ChannelPack<T, V> gradients[kRows];
        ChannelPack<T, V> inputs[kRows];
        read_rows(place, row, gradient + c, p.stored, gradients);
        read_rows(place, row, x + c, p.stored, inputs);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float g[V];
            float value[V];
            unpack(gradients[r], g);
            unpack(inputs[r], value);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const float own = masked<kMask>(g[v], value[v], scale[v], offset[v], 0.0F);
                value[v] = a[v] * own + b[v] * (value[v] - mean[v]) + d[v];
            }
            store(input_gradient + (row + r * place.row_step) * p.stored + c, value);
        }
    });
}

/// Queues a kernel over the problem's tiles.
template <auto kKernel, class... Arguments>
void launch_rows(cudaStream_t stream, const char* name, const BnProblem& p,
                 Arguments... arguments) {
    const dim3 grid = resident_grid<kKernel>(p.tiles, p.gpu, p.multiprocessors);
    kKernel<<<grid, kTileThreads, 0, stream>>>(p, arguments...);
    check_launch(name);
}

/// Calls f with the mask as a constant.
template <class F>
void with_mask(BnMask mask, F&& f) {
    switch (mask) {
        case BnMask::kNone: f(std::integral_constant<BnMask, BnMask::kNone>{}); return;
        case BnMask::kFromInput: f(std::integral_constant<BnMask, BnMask::kFromInput>{}); return;
        case BnMask::kFromOutput: f(std::integral_constant<BnMask, BnMask::kFromOutput>{}); return;
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
        constexpr int kV = decltype(vector)::value;
        launch_rows<statistics_kernel<T, kV>>(stream, "batch norm statistics", p,
                                              static_cast<const T*>(x), partials, batch_mean,
                                              batch_variance);
    });
}

void bn_inference(cudaStream_t stream, const BnProblem& p, const float* mean,
                  const float* variance) {
    const auto blocks = static_cast<unsigned>((p.channels + 127) / 128);
    inference_kernel<<<blocks, 128, 0, stream>>>(p, mean, variance);
    check_launch("batch norm of inference");
}

void bn_apply(cudaStream_t stream, const BnProblem& p, const void* x, const BnAdded& added,
              bool relu, void* y) {
    const float lowest = relu ? 0.0F : -INFINITY;
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        constexpr int kV = decltype(vector)::value;
        const auto launch = [&](auto adds) {
            launch_rows<apply_kernel<T, kV, decltype(adds)::value>>(
                stream, "batch norm", p, static_cast<const T*>(x),
                static_cast<const T*>(added.data), added.stored, lowest, static_cast<T*>(y));
        };
        if (added.data != nullptr) {
            launch(std::true_type{});
        } else {
            launch(std::false_type{});
        }
    });
}

void bn_reduce(cudaStream_t stream, const BnProblem& p, BnMask mask, const void* x, const void* y,
               void* gradient, float2* partials, float* weight_gradient, float* bias_gradient) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        constexpr int kV = decltype(vector)::value;
        with_mask(mask, [&](auto constant) {
            launch_rows<reduce_kernel<T, kV, decltype(constant)::value>>(
                stream, "batch norm sums", p, static_cast<const T*>(x), static_cast<const T*>(y),
                static_cast<T*>(gradient), partials, weight_gradient, bias_gradient);
        });
    });
}

void bn_input_gradient(cudaStream_t stream, const BnProblem& p, BnMask mask, const void* x,
                       const void* gradient, void* input_gradient) {
    with_vector(p.type, p.tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        constexpr int kV = decltype(vector)::value;
        const auto launch = [&](auto from_input) {
            constexpr BnMask kMask =
                decltype(from_input)::value ? BnMask::kFromInput : BnMask::kNone;
            launch_rows<input_gradient_kernel<T, kV, kMask>>(
                stream, "batch norm gradient of input", p, static_cast<const T*>(x),
                static_cast<const T*>(gradient), static_cast<T*>(input_gradient));
        };
        if (mask == BnMask::kFromInput) {
            launch(std::true_type{});
        } else {
            launch(std::false_type{});
        }
    });
}

}  // namespace cohort::cuda
