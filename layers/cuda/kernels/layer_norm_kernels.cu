// Layer normalisation: a warp per row, in single precision; a row is read again from the cache.
// Sums over a row go through the warp in a fixed order, those over the rows by stretches.
#include "core/tensor/cuda/element_map.cuh"
#include "core/tensor/cuda/reduce.cuh"
#include "layers/cuda/kernels/column_stretches.hpp"
#include "layers/cuda/kernels/layer_norm_kernels.hpp"

namespace cohort::cuda {
namespace {

template <class T>
__global__ void norm_forward_kernel(NormRows at, float epsilon, const float* bias, T* output) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const float share = 1.0F / static_cast<float>(at.features);
    for (std::int64_t row = thread_number() / kWarp; row < at.rows; row += thread_count() / kWarp) {
        const T* x = static_cast<const T*>(at.input) + row * at.features;
        float sum = 0;
        for (std::int64_t f = lane; f < at.features; f += kWarp) {
            sum += to_float(x[f]);
        }
        const float mean = warp_sum(sum) * share;
        float squares = 0;
        for (std::int64_t f = lane; f < at.features; f += kWarp) {
            const float difference = to_float(x[f]) - mean;
            squares += difference * difference;
        }
        const float inverse = 1.0F / sqrtf(warp_sum(squares) * share + epsilon);
        T* y = output + row * at.features;
        for (std::int64_t f = lane; f < at.features; f += kWarp) {
            y[f] = from_float<T>((to_float(x[f]) - mean) * inverse * at.weight[f] + bias[f]);
        }
        if (lane == 0 && at.statistics != nullptr) {
            at.statistics[2 * row] = mean;
            at.statistics[2 * row + 1] = inverse;
        }
    }
}

template <class T>
__global__ void norm_backward_kernel(NormRows at, const T* output_gradient, T* input_gradient) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const float share = 1.0F / static_cast<float>(at.features);
    for (std::int64_t row = thread_number() / kWarp; row < at.rows; row += thread_count() / kWarp) {
        const T* x = static_cast<const T*>(at.input) + row * at.features;
        const T* dy = output_gradient + row * at.features;
        const float mean = at.statistics[2 * row];
        const float inverse = at.statistics[2 * row + 1];
        float sum = 0;
        float product = 0;
        for (std::int64_t f = lane; f < at.features; f += kWarp) {
            const float weighted = to_float(dy[f]) * at.weight[f];
            sum += weighted;
            product += weighted * ((to_float(x[f]) - mean) * inverse);
        }
        const float of_mean = warp_sum(sum) * share;
        const float of_deviation = warp_sum(product) * share;
        T* dx = input_gradient + row * at.features;
        for (std::int64_t f = lane; f < at.features; f += kWarp) {
            const float normal = (to_float(x[f]) - mean) * inverse;
            dx[f] = from_float<T>(
                inverse * (to_float(dy[f]) * at.weight[f] - of_mean - normal * of_deviation));
        }
    }
}

/// @param parts  [stretches, 2, features]
template <class T>
__global__ void norm_sums_kernel(NormRows at, const T* output_gradient, std::int64_t stretch,
                                 float* parts) {
    __shared__ float sums[2][kSumRows][kSumColumns];
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kSumColumns + x;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * stretch;
    const std::int64_t end = begin + stretch < at.rows ? begin + stretch : at.rows;
    float weight = 0;
    float bias = 0;
    if (column < at.features) {
        for (std::int64_t row = begin + y; row < end; row += kSumRows) {
            const std::int64_t i = row * at.features + column;
            const float dy = to_float(output_gradient[i]);
            const float difference =
                to_float(static_cast<const T*>(at.input)[i]) - at.statistics[2 * row];
            weight += dy * (difference * at.statistics[2 * row + 1]);
            bias += dy;
        }
    }
    sums[0][y][x] = weight;
    sums[1][y][x] = bias;
    __syncthreads();
    if (y < 2 && column < at.features) {
        float sum = 0;
        for (int other = 0; other < kSumRows; ++other) {
            sum += sums[y][other][x];
        }
        parts[(2 * static_cast<std::int64_t>(blockIdx.y) + y) * at.features + column] = sum;
    }
}

__global__ void add_norm_sums_kernel(const float* parts, std::int64_t stretches,
                                     std::int64_t features, float* weight_gradient,
                                     float* bias_gradient) {
    for (std::int64_t i = thread_number(); i < 2 * features; i += thread_count()) {
        float sum = 0;
        for (std::int64_t s = 0; s < stretches; ++s) {
            sum += parts[2 * s * features + i];
        }
        (i < features ? weight_gradient[i] : bias_gradient[i - features]) = sum;
    }
}

}  // namespace

void layer_norm_forward(cudaStream_t stream, const NormRows& at, float epsilon, const float* bias,
                        void* output) {
    const Launch launch = launch_for(at.rows * kWarp, kMostBlocks);
    with_type(at.type, [&](auto zero) {
        using T = decltype(zero);
        norm_forward_kernel<<<launch.blocks, launch.threads, 0, stream>>>(at, epsilon, bias,
                                                                          static_cast<T*>(output));
    });
    check_launch("layer norm");
}

void layer_norm_backward(cudaStream_t stream, const NormRows& at, const void* output_gradient,
                         void* input_gradient) {
    const Launch launch = launch_for(at.rows * kWarp, kMostBlocks);
    with_type(at.type, [&](auto zero) {
        using T = decltype(zero);
        norm_backward_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            at, static_cast<const T*>(output_gradient), static_cast<T*>(input_gradient));
    });
    check_launch("gradient of layer norm");
}

std::size_t layer_norm_scratch(std::int64_t rows, std::int64_t features) {
    return static_cast<std::size_t>(stretches_of(rows) * 2 * features) * sizeof(float);
}

void layer_norm_sums(cudaStream_t stream, const NormRows& at, const void* output_gradient,
                     float* weight_gradient, float* bias_gradient, void* scratch) {
    const std::int64_t stretches = stretches_of(at.rows);
    const dim3 grid(static_cast<unsigned>((at.features + kSumColumns - 1) / kSumColumns),
                    static_cast<unsigned>(stretches));
    auto* parts = static_cast<float*>(scratch);
    with_type(at.type, [&](auto zero) {
        using T = decltype(zero);
        norm_sums_kernel<<<grid, dim3(kSumColumns, kSumRows), 0, stream>>>(
            at, static_cast<const T*>(output_gradient), stretch_rows(at.rows), parts);
    });
    check_launch("sums of layer norm");
    const Launch launch = launch_for(2 * at.features, kMostBlocks);
    add_norm_sums_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
        parts, stretches, at.features, weight_gradient, bias_gradient);
    check_launch("sums of layer norm");
}

}  // namespace cohort::cuda
