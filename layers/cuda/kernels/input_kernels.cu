// A thread for each pixel: it reads a byte of every channel, beside those of its neighbours, and
// writes 16 bytes at a time.
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/input_kernels.hpp"

namespace cohort::cuda {
namespace {

__device__ float normalised(const StoredSamples& from, std::uint8_t stored, std::int64_t channel) {
    return __fmul_rn(__fsub_rn(static_cast<float>(stored), from.scales[channel]),
                     from.scales[from.channels + channel]);
}

template <class T>
__global__ void images_kernel(ImageOrder order, std::int64_t width, StoredSamples from, T* to,
                              std::int64_t count) {
    constexpr int kSize = Pack<T>::kSize;
    const std::int64_t height = order.pixels / width;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const std::int64_t sample = i / order.pixels;
        const std::int64_t pixel = i - sample * order.pixels;
        const std::int64_t y = pixel / width;
        const std::int64_t x = pixel - y * width;
        const ImageCrop crop = from.crops[sample];
        const std::int64_t row = y + crop.down;
        const std::int64_t column = (crop.mirrored != 0 ? width - 1 - x : x) + crop.right;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        const std::uint8_t* source =
            from.values + sample * order.channels * order.pixels + row * width + column;
        for (std::int64_t first = 0; first < order.stored; first += kSize) {
            Pack<T> pack;
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                const std::int64_t channel = first + j;
                const bool there = inside && channel < order.channels;
                pack.at[j] = from_float<T>(
                    there ? normalised(from, source[channel * order.pixels], channel) : 0.0F);
            }
            *reinterpret_cast<Pack<T>*>(to + i * order.stored + first) = pack;
        }
    }
}

template <class T>
__global__ void features_kernel(std::int64_t features, StoredSamples from, T* to,
                                std::int64_t count) {
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const std::int64_t channel = from.channels == 1 ? 0 : i % features;
        to[i] = from_float<T>(normalised(from, from.values[i], channel));
    }
}

}  // namespace

void stored_images_to_channels_last(cudaStream_t stream, const ImageOrder& order,
                                    std::int64_t width, ElementType type, const StoredSamples& from,
                                    void* to, std::int64_t samples) {
    const std::int64_t count = samples * order.pixels;
    const Launch launch = launch_for(count, kMostBlocks);
    with_type(type, [&](auto zero) {
        images_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            order, width, from, static_cast<decltype(zero)*>(to), count);
    });
    check_launch("stored images");
}

void stored_features(cudaStream_t stream, std::int64_t features, ElementType type,
                     const StoredSamples& from, void* to, std::int64_t samples) {
    const std::int64_t count = samples * features;
    const Launch launch = launch_for(count, kMostBlocks);
    with_type(type, [&](auto zero) {
        features_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
            features, from, static_cast<decltype(zero)*>(to), count);
    });
    check_launch("stored features");
}

}  // namespace cohort::cuda
