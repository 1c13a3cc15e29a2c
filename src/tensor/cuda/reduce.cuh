#pragma once

/// Sums in an order that does not depend on chance: the same numbers give the same bits.
namespace cohort::cuda {

constexpr int kWarp = 32;  // threads

/// The sum over the threads of a warp, for all of them.
template <class T>
__device__ T warp_sum(T value) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(0xffffffffU, value, step);
    }
    return value;
}

/// The sum over a block of kThreads threads, for all of them: halves are added until one is left.
/// All threads call it, as often as they like.
template <int kThreads, class T>
__device__ T block_sum(T value) {
    __shared__ T sums[kThreads];
    const int thread = static_cast<int>(threadIdx.x);
    sums[thread] = value;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    __syncthreads();
    const T sum = sums[0];
    __syncthreads();  // the next call writes there
    return sum;
}

}  // namespace cohort::cuda
