#pragma once

#include <type_traits>

#include "layers/cuda/rules/channel_math.hpp"
#include "tensor/cuda/elements.cuh"
#include "tensor/cuda/reduce.cuh"

// Device side of channel_math.hpp: a thread's place in the tiles, 16-byte accesses, folding of a
// block's sums in a fixed order.
namespace cohort::cuda {

/// V neighbouring elements, moved in one access.
template <class T, int V>
struct alignas(sizeof(T) * V) ChannelPack {
    T values[V];
};

template <class T, int V>
__device__ inline void load(const T* from, float (&to)[V]) {
    const auto pack = *reinterpret_cast<const ChannelPack<T, V>*>(from);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        to[v] = to_float(pack.values[v]);
    }
}
template <class T, int V>
__device__ inline void store(T* to, const float (&from)[V]) {
    ChannelPack<T, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        pack.values[v] = from_float<T>(from[v]);
    }
    *reinterpret_cast<ChannelPack<T, V>*>(to) = pack;
}
/// The values of V neighbouring channels.
template <int V>
__device__ inline void channel_values(const float* from, float (&to)[V]) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        to[v] = from[v];
    }
}
template <int V>
__device__ inline void clear(float (&values)[V]) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        values[v] = 0.0F;
    }
}

/// Elements of a 16-byte access.
template <class T>
constexpr int kVector = static_cast<int>(16 / sizeof(T));

/// Where a thread works: rows first_row, first_row + row_step, ... of one group of channels.
struct TilePlace {
    int lane;
    int row_in_tile;
    std::int64_t group;
    bool active;
    std::int64_t first_row;
    std::int64_t row_step;
};
__device__ inline TilePlace tile_place(const ChannelTiles& tiles) {
    TilePlace place;
    place.lane = static_cast<int>(threadIdx.x) & (tiles.lanes - 1);
    place.row_in_tile = static_cast<int>(threadIdx.x) / tiles.lanes;
    place.group = static_cast<std::int64_t>(blockIdx.x) * tiles.lanes + place.lane;
    place.active = place.group < tiles.groups;
    place.first_row = static_cast<std::int64_t>(blockIdx.y) * tiles.rows() + place.row_in_tile;
    place.row_step = static_cast<std::int64_t>(gridDim.y) * tiles.rows();
    return place;
}

/// Adds each of `sums` over the rows of the block, always in the same order; the threads of the
/// first row have the result. @param shared  kTileThreads floats per sum
template <int V>
__device__ inline void fold_rows(const ChannelTiles& tiles, const TilePlace& place,
                                 float (&sums)[V], float* shared) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        shared[v * kTileThreads + threadIdx.x] = sums[v];
    }
    for (int half = tiles.rows() / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place.row_in_tile < half) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                float* own = shared + v * kTileThreads + threadIdx.x;
                *own += own[half * tiles.lanes];
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) {
        sums[v] = shared[v * kTileThreads + threadIdx.x];
    }
    __syncthreads();
}

inline dim3 grid_of(const ChannelTiles& tiles) {
    return {tiles.blocks_x, tiles.blocks_y, 1};
}

/// Of kernels that have a warp for each channel.
constexpr int kChannelsPerBlock = 4;
inline unsigned warp_blocks(std::int64_t channels) {
    return static_cast<unsigned>((channels + kChannelsPerBlock - 1) / kChannelsPerBlock);
}

/// Calls launch(T{}, std::integral_constant<int, V>) for the type and the tiles' vector.
template <class F>
void with_vector(ElementType type, int vector, F&& launch) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if (vector == 1) {
            launch(zero, std::integral_constant<int, 1>{});
        } else {
            launch(zero, std::integral_constant<int, kVector<T>>{});
        }
    });
}

}  // namespace cohort::cuda
