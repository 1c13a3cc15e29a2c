#pragma once

#include <cstdint>

#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/elements.cuh"

/// Elementwise kernels from functions of floats: bound by bandwidth, 16 bytes of every tensor per
/// thread and turn.
namespace cohort::cuda {

__device__ inline std::int64_t thread_number() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() {
    return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

template <class T, class F, class... In>
__device__ Pack<T> map_pack(const F& f, std::int64_t first, Pack<In>... values) {
    Pack<T> result;
#pragma unroll
    for (int j = 0; j < Pack<T>::kSize; ++j) {
        result.at[j] = from_float<T>(f(first + j, to_float(values.at[j])...));
    }
    return result;
}

/// out[i] = f(i, in[i]...); `out` may be one of the inputs. The first `packs` packs go 16 bytes at
/// a time, what is left of `count` one by one.
template <class T, class F, class... In>
__global__ void map_kernel(T* out, std::int64_t packs, std::int64_t count, F f, const In*... in) {
    constexpr int kSize = Pack<T>::kSize;
    for (std::int64_t k = thread_number(); k < packs; k += thread_count()) {
        reinterpret_cast<Pack<T>*>(out)[k] =
            map_pack<T>(f, k * kSize, reinterpret_cast<const Pack<In>*>(in)[k]...);
    }
    for (std::int64_t i = packs * kSize + thread_number(); i < count; i += thread_count()) {
        out[i] = from_float<T>(f(i, to_float(in[i])...));
    }
}

inline bool is_pack_aligned(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Queues out[i] = f(i, in[i]...) for `count` elements. `f` is a function object with a COHORT_HD
/// call operator.
template <class T, class F, class... In>
void launch_map_of(cudaStream_t stream, const char* name, std::int64_t count, F f, T* out,
                   const In*... in) {
    if (count == 0) {
        return;
    }
    const bool wide = (is_pack_aligned(out) && ... && is_pack_aligned(in));
    const std::int64_t packs = wide ? count / Pack<T>::kSize : 0;
    const std::int64_t turns = wide ? packs + Pack<T>::kSize - 1 : count;
    const Launch launch = launch_for(turns, kMostBlocks);
    map_kernel<<<launch.blocks, launch.threads, 0, stream>>>(out, packs, count, f, in...);
    check_launch(name);
}

/// The same, all elements of that type.
template <class F, class... In>
void launch_map(cudaStream_t stream, const char* name, ElementType type, std::int64_t count, F f,
                void* out, const In*... in) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        launch_map_of(stream, name, count, f, static_cast<T*>(out), static_cast<const T*>(in)...);
    });
}

}  // namespace cohort::cuda
