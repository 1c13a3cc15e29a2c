#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/dropout_kernels.hpp"

namespace cohort::cuda {
namespace {

/// A thread takes four elements that share a block of random numbers.
template <class T>
__global__ void dropout_kernel(T* to, const T* from, DropoutShape shape, std::int64_t samples,
                               float probability, float scale, std::uint32_t layer,
                               const StepValues* step, const std::int64_t* sample_ids) {
    const std::array<std::uint32_t, 2> key = rng_key(step->seed, RngPurpose::kDropout);
    const std::uint32_t epoch = step->epoch;
    const std::int64_t draws = shape.draws();
    const std::int64_t stored = shape.pixels * shape.block;
    for (std::int64_t k = thread_number(); k < samples * draws; k += thread_count()) {
        const std::int64_t n = k / draws;
        const std::uint32_t draw = dropout_draw(shape, static_cast<std::uint32_t>(k - n * draws));
        const std::array<std::uint32_t, 4> words =
            dropout_words(key, sample_ids[n], layer, epoch, draw);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const std::uint32_t i = 4 * draw + static_cast<std::uint32_t>(j);
            if (i < shape.elements()) {
                const std::int64_t at = n * stored + dropout_place(shape, i);
                const float kept = to_float(from[at]) * scale;
                to[at] = from_float<T>(dropout_keeps(words[j], probability) ? kept : 0.0F);
            }
        }
    }
}

}  // namespace

void drop_elements(cudaStream_t stream, ElementType type, const DropoutShape& shape,
                   std::int64_t samples, float probability, std::uint32_t layer,
                   const StepValues* step, const std::int64_t* sample_ids, void* to,
                   const void* from) {
    if (samples == 0) {
        return;
    }
    if (shape.block > shape.channels) {  // padding channels are not drawn for
        const auto stored = static_cast<std::size_t>(samples * shape.pixels * shape.block);
        check(cudaMemsetAsync(to, 0, stored * element_bytes(type), stream), "cudaMemsetAsync");
    }
    const float scale = 1.0F / (1.0F - probability);
    const Launch launch = launch_for(samples * shape.draws(), kFullBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        dropout_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            static_cast<T*>(to), static_cast<const T*>(from), shape, samples, probability, scale,
            layer, step, sample_ids);
    });
    check_launch("dropout");
}

}  // namespace cohort::cuda
