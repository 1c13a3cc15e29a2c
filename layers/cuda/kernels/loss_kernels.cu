// Losses: softmax cross entropy by a warp per sample, squared error elementwise. Sums are double
// precision: per thread, per block, then, by the last block, over the blocks, each in a fixed
// order.
#include "layers/cuda/kernels/loss_kernels.hpp"
#include "tensor/cuda/element_map.cuh"
#include "tensor/cuda/reduce.cuh"

namespace cohort::cuda {
namespace {

constexpr int kThreads = 256;

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
        work.total->loss = loss_sum;
        work.total->correct = correct_sum;
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
    const Launch launch = launch_for(work.slice.samples * kWarp, kMostLossSums);
    with_type(work.type, [&](auto zero) {
        using T = decltype(zero);
        cross_entropy_kernel<<<launch.blocks, kThreads, 0, stream>>>(
            work, reinterpret_cast<const T*>(work.slice.logits),
            reinterpret_cast<T*>(work.slice.gradient));
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
