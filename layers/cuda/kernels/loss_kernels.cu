// Losses: softmax cross entropy by a warp per row of logits, or by a block where each of its
// threads has several of the row's classes; squared error elementwise. Sums are double precision:
// per thread, per block, then, by the last block, over the blocks, each in a fixed order.
#include "core/tensor/cuda/element_map.cuh"
#include "core/tensor/cuda/reduce.cuh"
#include "layers/cuda/kernels/loss_kernels.hpp"

namespace cohort::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kManyClasses = 4 * kThreads;

/// A logit and its class. Of equals the first class wins.
struct Best {
    float value;
    std::int64_t index;
};
COHORT_HD Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

template <class T>
__device__ Best warp_best(const T* logits, std::int64_t classes, int lane) {
    // A lane without classes has a copy of the first one.
    Best best{to_float(logits[0]), 0};
    for (std::int64_t c = lane; c < classes; c += kWarp) {
        best = better(best, {to_float(logits[c]), c});
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
        const Best other{__shfl_xor_sync(0xffffffffU, best.value, step),
                         __shfl_xor_sync(0xffffffffU, best.index, step)};
        best = better(best, other);
    }
    return best;
}

/// @param loss, correct  of this thread
__device__ void finish_sums(double loss, double correct, const LossWork& work) {
    const double all = block_sum<kThreads>(loss);
    const auto right = block_sum<kThreads>(correct);
    if (threadIdx.x == 0) {
        work.partial[blockIdx.x].loss = all;
        work.partial[blockIdx.x].correct = right;
    }
    if (!is_last_block(work.arrivals, gridDim.x)) {
        return;
    }
    double loss_sum = 0;
    double correct_sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
        loss_sum += __ldcg(&work.partial[i].loss);
        correct_sum += __ldcg(&work.partial[i].correct);
    }
    loss_sum = block_sum<kThreads>(loss_sum);
    correct_sum = block_sum<kThreads>(correct_sum);
    if (threadIdx.x == 0) {
        work.total->loss = (work.adds ? work.total->loss : 0) + loss_sum;
        work.total->correct = (work.adds ? work.total->correct : 0) + correct_sum;
    }
}

template <class T>
__global__ void cross_entropy_kernel(LossWork work, const T* all_logits, T* all_gradients) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t classes = work.outputs;
    const float scale = work.slice.scale * work.step->loss_scale;
    double loss = 0;
    double correct = 0;
    for (std::int64_t n = thread_number() / kWarp; n < work.slice.samples;
         n += thread_count() / kWarp) {
        const T* logits = all_logits + n * classes;
        const std::int64_t label = work.slice.labels[n];
        const Best best = warp_best(logits, classes, lane);
        double sum = 0;
        for (std::int64_t c = lane; c < classes; c += kWarp) {
            sum += static_cast<double>(expf(to_float(logits[c]) - best.value));
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            loss += log(sum) + static_cast<double>(best.value - to_float(logits[label]));
            correct += best.index == label ? 1 : 0;
        }
        __syncwarp();  // the gradient may take the logits' place
        if (all_gradients != nullptr) {
            const auto inverse = static_cast<float>(1.0 / sum);
            T* gradient = all_gradients + n * classes;
            for (std::int64_t c = lane; c < classes; c += kWarp) {
                const float probability = expf(to_float(logits[c]) - best.value) * inverse;
                gradient[c] = from_float<T>((probability - (c == label ? 1.0F : 0.0F)) * scale);
            }
        }
    }
    finish_sums(loss, correct, work);
}

/// The best of a block's threads, for all of them.
__device__ Best block_best(Best best) {
    __shared__ Best all[kThreads];
    const int thread = static_cast<int>(threadIdx.x);
    all[thread] = best;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            all[thread] = better(all[thread], all[thread + half]);
        }
    }
    __syncthreads();
    const Best found = all[0];
    __syncthreads();  // the next call writes there
    return found;
}

/// A thread goes over its classes once for the largest and the sum of the exponentials, which
/// follows the largest: e^x sums are multiplied when that changes (Milakov & Gimelshein 2018).
template <class T>
__global__ void many_classes_kernel(LossWork work, const T* all_logits, T* all_gradients) {
    const std::int64_t classes = work.outputs;
    const std::int64_t own = threadIdx.x;
    const float scale = work.slice.scale * work.step->loss_scale;
    double loss = 0;
    double correct = 0;
    for (std::int64_t n = blockIdx.x; n < work.slice.samples; n += gridDim.x) {
        const T* logits = all_logits + n * classes;
        const std::int64_t label = work.slice.labels[n];
        Best best{to_float(logits[own]), own};
        double sum = 0;
        for (std::int64_t c = own; c < classes; c += kThreads) {
            const float value = to_float(logits[c]);
            if (value > best.value) {
                sum *= static_cast<double>(expf(best.value - value));
                best = {value, c};
            }
            sum += static_cast<double>(expf(value - best.value));
        }
        const Best largest = block_best(best);
        sum = block_sum<kThreads>(sum * static_cast<double>(expf(best.value - largest.value)));
        if (own == 0) {
            loss += log(sum) + static_cast<double>(largest.value - to_float(logits[label]));
            correct += largest.index == label ? 1 : 0;
        }
        __syncthreads();  // the gradient may take the logits' place
        if (all_gradients != nullptr) {
            const auto inverse = static_cast<float>(1.0 / sum);
            T* gradient = all_gradients + n * classes;
            for (std::int64_t c = own; c < classes; c += kThreads) {
                const float probability = expf(to_float(logits[c]) - largest.value) * inverse;
                gradient[c] = from_float<T>((probability - (c == label ? 1.0F : 0.0F)) * scale);
            }
        }
    }
    finish_sums(loss, correct, work);
}

template <class T>
__global__ void squared_error_kernel(LossWork work, const T* outputs, T* gradients) {
    const std::int64_t count = work.slice.samples * work.outputs;
    const float slope = static_cast<float>(2.0 / static_cast<double>(work.outputs)) *
                        work.slice.scale * work.step->loss_scale;
    double sum = 0;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const float error = to_float(outputs[i]) - work.slice.targets[i];
        sum += static_cast<double>(error) * static_cast<double>(error);
        if (gradients != nullptr) {
            gradients[i] = from_float<T>(slope * error);
        }
    }
    finish_sums(sum / static_cast<double>(work.outputs), 0, work);
}

}  // namespace

void cross_entropy(cudaStream_t stream, const LossWork& work) {
    const bool many = work.outputs >= kManyClasses;
    const Launch launch = launch_for(work.slice.samples * (many ? kThreads : kWarp), kMostLossSums);
    with_type(work.type, [&](auto zero) {
        using T = decltype(zero);
        const auto* logits = reinterpret_cast<const T*>(work.slice.logits);
        auto* gradient = reinterpret_cast<T*>(work.slice.gradient);
        if (many) {
            many_classes_kernel<<<launch.blocks, kThreads, 0, stream>>>(work, logits, gradient);
        } else {
            cross_entropy_kernel<<<launch.blocks, kThreads, 0, stream>>>(work, logits, gradient);
        }
    });
    check_launch("cross entropy");
}

void squared_error(cudaStream_t stream, const LossWork& work) {
    const Launch launch = launch_for(work.slice.samples * work.outputs, kMostLossSums);
    with_type(work.type, [&](auto zero) {
        using T = decltype(zero);
        squared_error_kernel<<<launch.blocks, kThreads, 0, stream>>>(
            work, reinterpret_cast<const T*>(work.slice.logits),
            reinterpret_cast<T*>(work.slice.gradient));
    });
    check_launch("squared error");
}

}  // namespace cohort::cuda
