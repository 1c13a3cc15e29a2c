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

/// True for the threads of the last of `blocks` blocks to call this with the same counter: what all
/// blocks have stored before is visible to them, by __ldcg. So one launch sums over its blocks, in
/// an order that does not depend on which one is last. The counter is 0 at first and again
/// afterwards. All threads of a block call it.
__device__ inline bool is_last_block(unsigned* counter, unsigned blocks) {
    __shared__ bool last;
    __threadfence();  // what this thread has stored comes before the block's arrival
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) {
        last = atomicInc(counter, blocks - 1) == blocks - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
    }
    return last;
}

}  // namespace cohort::cuda
