// Sums over vectors on a GPU. Compiled without contraction into fused multiply-add, as on the CPU.
#include "optim/cuda/math_kernels.hpp"
#include "tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

constexpr int kThreads = 256;

__device__ std::int64_t thread_number() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t thread_count() {
    return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__global__ void scale_kernel(float* to, const float* from, std::int64_t count, float factor) {
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        to[i] = factor * from[i];
    }
}

__global__ void add_scaled_kernel(float* to, const float* from, std::int64_t count, float factor) {
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        to[i] += factor * from[i];
    }
}

/// The sum over a block, for all its threads, which all call it, as often as they like: halves are
/// added until one is left.
__device__ double block_sum(double value) {
    __shared__ double sums[kThreads];
    const int thread = static_cast<int>(threadIdx.x);
    sums[thread] = value;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    __syncthreads();
    const double sum = sums[0];
    __syncthreads();  // the next call writes there
    return sum;
}

__global__ void square_sums_kernel(const float* values, std::int64_t count, double* partial) {
    double sum = 0;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const double x = values[i];
        sum += x * x;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

__global__ void add_sums_kernel(const double* partial, int count, double* total) {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
        sum += partial[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *total += sum;
    }
}

unsigned blocks_for(std::int64_t count, std::int64_t per_block, std::int64_t most) {
    const std::int64_t blocks = (count + per_block - 1) / per_block;
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;

}  // namespace

void launch_scale(cudaStream_t stream, float* to, const float* from, std::int64_t count,
                  float factor) {
    if (count == 0) {
        return;
    }
    const unsigned blocks = blocks_for(count, kThreads, kMostBlocks);
    scale_kernel<<<blocks, kThreads, 0, stream>>>(to, from, count, factor);
    check_launch("scale");
}

void launch_add_scaled(cudaStream_t stream, float* to, const float* from, std::int64_t count,
                       float factor) {
    if (count == 0) {
        return;
    }
    const unsigned blocks = blocks_for(count, kThreads, kMostBlocks);
    add_scaled_kernel<<<blocks, kThreads, 0, stream>>>(to, from, count, factor);
    check_launch("add scaled");
}

void launch_add_squares(cudaStream_t stream, const float* values, std::int64_t count,
                        double* partial, double* total) {
    if (count == 0) {
        return;
    }
    constexpr std::int64_t kPerThread = 16;
    const unsigned blocks = blocks_for(count, kThreads * kPerThread, kMostSquareSums);
    square_sums_kernel<<<blocks, kThreads, 0, stream>>>(values, count, partial);
    check_launch("sums of squares");
    add_sums_kernel<<<1, kThreads, 0, stream>>>(partial, static_cast<int>(blocks), total);
    check_launch("sum of squares");
}

}  // namespace cohort::cuda
