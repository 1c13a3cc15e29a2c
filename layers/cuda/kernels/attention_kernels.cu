// Attention by products: copies that make a matrix of every head, and softmax of the scores, a warp
// per row.
#include "core/tensor/cuda/element_map.cuh"
#include "core/tensor/cuda/reduce.cuh"
#include "layers/cuda/kernels/attention_kernels.hpp"

namespace cohort::cuda {
namespace {

/// Where an element of a position's vectors lies.
struct HeadPlace {
    std::int64_t joined;  ///< -1: padding
    std::int64_t split;
};
/// @param i  part, head and element of a vector of `width`
__device__ inline HeadPlace head_place(const HeadShape& shape, int parts, std::int64_t sample,
                                       std::int64_t position, std::uint32_t i,
                                       std::uint32_t width) {
    const auto heads = static_cast<std::uint32_t>(shape.heads);
    const std::uint32_t vector = i / width;
    const std::uint32_t element = i % width;
    const std::uint32_t part = vector / heads;
    const std::uint32_t head = vector % heads;
    const bool padding = position >= shape.positions || element >= shape.width;
    const std::int64_t row = sample * shape.positions + position;
    const std::int64_t matrix = (part * shape.samples + sample) * shape.heads + head;
    return {padding ? -1 : (row * parts * shape.heads + vector) * shape.width + element,
            (matrix * shape.padded_positions + position) * shape.padded_width + element};
}

/// A block per position, padding included, and sample.
template <class T>
__global__ void split_kernel(HeadShape shape, int parts, const T* joined, T* split) {
    const auto width = static_cast<std::uint32_t>(shape.padded_width);
    const std::uint32_t count = static_cast<std::uint32_t>(parts * shape.heads) * width;
    for (std::int64_t sample = blockIdx.y; sample < shape.samples; sample += gridDim.y) {
        for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
            const HeadPlace at = head_place(shape, parts, sample, blockIdx.x, i, width);
            split[at.split] = at.joined < 0 ? from_float<T>(0.0F) : joined[at.joined];
        }
    }
}

/// A block per position and sample.
template <class T>
__global__ void merge_kernel(HeadShape shape, int parts, const T* split, T* joined) {
    const auto width = static_cast<std::uint32_t>(shape.width);
    const std::uint32_t count = static_cast<std::uint32_t>(parts * shape.heads) * width;
    for (std::int64_t sample = blockIdx.y; sample < shape.samples; sample += gridDim.y) {
        for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
            const HeadPlace at = head_place(shape, parts, sample, blockIdx.x, i, width);
            joined[at.joined] = split[at.split];
        }
    }
}

dim3 position_grid(std::int64_t positions, std::int64_t samples) {
    constexpr std::int64_t kMost = 65535;  // blocks of a grid in y
    return {static_cast<unsigned>(positions),
            static_cast<unsigned>(samples < kMost ? samples : kMost)};
}

/// A row of scores.
struct ScoreRow {
    std::int64_t first;    ///< element
    std::int64_t keys;     ///< that it sees; 0 in padding
    std::int64_t divisor;  ///< number of its divisor
};
__device__ inline ScoreRow score_row(const Scores& at, std::int64_t row) {
    const std::int64_t padded = at.shape.padded_positions;
    const std::int64_t matrix = row / padded;
    const std::int64_t query = row % padded;
    const std::int64_t all = query < at.shape.positions ? at.shape.positions : 0;
    return {row * padded, at.causal && all > 0 ? query + 1 : all,
            matrix * at.shape.positions + query};
}

__device__ inline float warp_largest(float value) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, step));
    }
    return value;
}

template <class T>
__global__ void softmax_kernel(Scores at, T* all_probabilities) {
    const std::int64_t lane = threadIdx.x % kWarp;
    const std::int64_t padded = at.shape.padded_positions;
    const std::int64_t rows = at.shape.matrices() * padded;
    for (std::int64_t r = thread_number() / kWarp; r < rows; r += thread_count() / kWarp) {
        const ScoreRow row = score_row(at, r);
        const float* scores = at.scores + row.first;
        T* probabilities = all_probabilities + row.first;
        float largest = scores[0];  // a lane without keys has a copy of the first one
        for (std::int64_t k = lane; k < row.keys; k += kWarp) {
            largest = fmaxf(largest, scores[k]);
        }
        largest = warp_largest(largest);
        float sum = 0;
        for (std::int64_t k = lane; k < row.keys; k += kWarp) {
            sum += expf(at.scale * (scores[k] - largest));
        }
        sum = warp_sum(sum);
        const float inverse = 1.0F / sum;
        for (std::int64_t k = lane; k < padded; k += kWarp) {
            const float kept =
                k < row.keys ? expf(at.scale * (scores[k] - largest)) * inverse : 0.0F;
            probabilities[k] = from_float<T>(kept);
        }
        if (lane == 0 && row.keys > 0 && at.divisors != nullptr) {
            at.divisors[row.divisor] = at.scale * largest + logf(sum);
        }
    }
}

template <class T>
__global__ void softmax_backward_kernel(Scores at, const float* all_gradients, T* all_probabilities,
                                        T* all_scores_gradients) {
    const std::int64_t lane = threadIdx.x % kWarp;
    const std::int64_t padded = at.shape.padded_positions;
    const std::int64_t rows = at.shape.matrices() * padded;
    for (std::int64_t r = thread_number() / kWarp; r < rows; r += thread_count() / kWarp) {
        const ScoreRow row = score_row(at, r);
        const float* scores = at.scores + row.first;
        const float* gradient = all_gradients + row.first;
        const float divisor = row.keys > 0 ? at.divisors[row.divisor] : 0.0F;
        float sum = 0;
        for (std::int64_t k = lane; k < row.keys; k += kWarp) {
            sum += expf(at.scale * scores[k] - divisor) * gradient[k];
        }
        sum = warp_sum(sum);
        for (std::int64_t k = lane; k < padded; k += kWarp) {
            float kept = 0;
            float slope = 0;
            if (k < row.keys) {
                kept = expf(at.scale * scores[k] - divisor);
                slope = at.scale * kept * (gradient[k] - sum);
            }
            all_probabilities[row.first + k] = from_float<T>(kept);
            all_scores_gradients[row.first + k] = from_float<T>(slope);
        }
    }
}

}  // namespace

void split_heads(cudaStream_t stream, const HeadShape& shape, int parts, const void* joined,
                 void* split) {
    const dim3 grid = position_grid(shape.padded_positions, shape.samples);
    with_type(shape.type, [&](auto zero) {
        using T = decltype(zero);
        split_kernel<<<grid, 256, 0, stream>>>(shape, parts, static_cast<const T*>(joined),
                                               static_cast<T*>(split));
    });
    check_launch("split heads");
}

void merge_heads(cudaStream_t stream, const HeadShape& shape, int parts, const void* split,
                 void* joined) {
    const dim3 grid = position_grid(shape.positions, shape.samples);
    with_type(shape.type, [&](auto zero) {
        using T = decltype(zero);
        merge_kernel<<<grid, 256, 0, stream>>>(shape, parts, static_cast<const T*>(split),
                                               static_cast<T*>(joined));
    });
    check_launch("merge heads");
}

void softmax_scores(cudaStream_t stream, const Scores& at, void* probabilities) {
    const Launch launch =
        launch_for(at.shape.matrices() * at.shape.padded_positions * kWarp, kMostBlocks);
    with_type(at.shape.type, [&](auto zero) {
        using T = decltype(zero);
        softmax_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            at, static_cast<T*>(probabilities));
    });
    check_launch("softmax of scores");
}

void softmax_scores_backward(cudaStream_t stream, const Scores& at, const float* gradient,
                             void* probabilities, void* scores_gradient) {
    const Launch launch =
        launch_for(at.shape.matrices() * at.shape.padded_positions * kWarp, kMostBlocks);
    with_type(at.shape.type, [&](auto zero) {
        using T = decltype(zero);
        softmax_backward_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            at, gradient, static_cast<T*>(probabilities), static_cast<T*>(scores_gradient));
    });
    check_launch("gradient of softmax");
}

}  // namespace cohort::cuda
