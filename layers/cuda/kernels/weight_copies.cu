#include "layers/cuda/kernels/weight_copies.hpp"
#include "tensor/cuda.hpp"
#include "tensor/cuda/element_map.cuh"

namespace cohort::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__device__ void copy_block(const WeightCopy& copy) {
    auto* to = static_cast<T*>(copy.to);
    const std::int64_t elements = copy_elements(copy.order);
    const std::int64_t begin =
        (static_cast<std::int64_t>(blockIdx.x) - copy.first_block) * kCopiesPerBlock;
    const std::int64_t end = min(begin + kCopiesPerBlock, elements);
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
        const std::int64_t source = weight_source(copy.order, i);
        to[i] = from_float<T>(source < 0 ? 0.0F : copy.from[source]);
    }
}

__global__ void refresh_kernel(const WeightCopy* table, int entries) {
    const int entry =
        entry_of_block(entries, blockIdx.x, [&](int i) { return table[i].first_block; });
    const WeightCopy copy = table[entry];
    switch (copy.type) {
        case ElementType::kF32: copy_block<float>(copy); break;
        case ElementType::kBf16: copy_block<__nv_bfloat16>(copy); break;
        case ElementType::kF16: copy_block<__half>(copy); break;
    }
}

template <class T>
__global__ void store_kernel(WeightOrder order, const T* from, float* gradient,
                             std::int64_t elements) {
    for (std::int64_t i = thread_number(); i < elements; i += thread_count()) {
        gradient[i] = to_float(from[weight_place(order, i)]);
    }
}

template <class T>
__global__ void channels_last_kernel(ImageOrder order, const float* from, T* to,
                                     std::int64_t elements) {
    for (std::int64_t i = thread_number(); i < elements; i += thread_count()) {
        const std::int64_t source = image_source(order, i);
        to[i] = from_float<T>(source < 0 ? 0.0F : from[source]);
    }
}

template <class T>
__global__ void row_major_kernel(ImageOrder order, const T* from, float* to,
                                 std::int64_t elements) {
    for (std::int64_t i = thread_number(); i < elements; i += thread_count()) {
        to[i] = to_float(from[image_place(order, i)]);
    }
}

}  // namespace

void refresh_copies(cudaStream_t stream, const WeightCopy* table, int entries,
                    std::int64_t blocks) {
    if (blocks == 0) {
        return;
    }
    refresh_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(table, entries);
    check_launch("weight copies");
}

void store_weight_gradient(cudaStream_t stream, const WeightOrder& order, ElementType type,
                           const void* from, float* gradient) {
    const std::int64_t elements = order.outer * order.channels * order.inner;
    const Launch launch = launch_for(elements, kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        store_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            order, static_cast<const T*>(from), gradient, elements);
    });
    check_launch("weight gradient");
}

void images_to_channels_last(cudaStream_t stream, const ImageOrder& order, ElementType type,
                             const float* from, void* to, std::int64_t samples) {
    const std::int64_t elements = samples * order.pixels * order.stored;
    const Launch launch = launch_for(elements, kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        channels_last_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            order, from, static_cast<T*>(to), elements);
    });
    check_launch("images to channels last");
}

void images_to_row_major(cudaStream_t stream, const ImageOrder& order, ElementType type,
                         const void* from, float* to, std::int64_t samples) {
    const std::int64_t elements = samples * order.pixels * order.channels;
    const Launch launch = launch_for(elements, kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        row_major_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            order, static_cast<const T*>(from), to, elements);
    });
    check_launch("images to row major");
}

}  // namespace cohort::cuda
