#pragma once

#include <array>
#include <atomic>
#include <type_traits>

#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/elements.cuh"
#include "core/tensor/cuda/reduce.cuh"
#include "core/tensor/cuda/stream.hpp"
#include "layers/cuda/rules/channel_math.hpp"

// Device side of channel_math.hpp: a thread's place in the tiles, 16-byte accesses, folding of a
// block's sums in a fixed order.
namespace cohort::cuda {

/// V neighbouring elements, moved in one access.
template <class T, int V>
struct alignas(sizeof(T) * V) ChannelPack {
    T values[V];
};

template <class T, int V>
__device__ inline void unpack(const ChannelPack<T, V>& pack, float (&to)[V]) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        to[v] = to_float(pack.values[v]);
    }
}
template <class T, int V>
__device__ inline void load(const T* from, float (&to)[V]) {
    unpack(*reinterpret_cast<const ChannelPack<T, V>*>(from), to);
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

/// Calls body(rows, first) for all of a thread's rows below `end`: std::integral_constant 4 and the
/// first of 4 rows, a row_step apart, as long as there are so many, then 1 and each that is left. A
/// body that begins with its loads has those of 4 rows in flight together.
template <class Body>
__device__ inline void for_rows(const TilePlace& place, std::int64_t end, Body&& body) {
    std::int64_t row = place.first_row;
    for (; row + 3 * place.row_step < end; row += 4 * place.row_step) {
        body(std::integral_constant<int, 4>{}, row);
    }
#pragma unroll 1
    for (; row < end; row += place.row_step) {
        body(std::integral_constant<int, 1>{}, row);
    }
}

/// The thread's channels of `row` and of those that follow it, a row_step apart.
/// @param stored  elements of a row
template <class T, int V, int R>
__device__ inline void read_rows(const TilePlace& place, std::int64_t row, const T* from,
                                 std::int64_t stored, ChannelPack<T, V> (&to)[R]) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
        to[r] =
            *reinterpret_cast<const ChannelPack<T, V>*>(from + (row + r * place.row_step) * stored);
    }
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

/// Pairs of sums of each channel that blocks along the rows have stored: [gridDim.y][stored].
struct StoredSums {
    std::int64_t channels;
    std::int64_t stored;
    const float2* sums;
};
/// Two sums of a channel over the blocks along the rows.
struct BlockSums {
    bool active;  ///< this thread has them
    double first;
    double second;
};
/// The channel that a thread of the last block works on; several threads share it.
__device__ inline std::int64_t channel_to_finish(const ChannelTiles& tiles) {
    const int width = tiles.lanes * tiles.vector;  // channels of the block, a power of two
    return static_cast<std::int64_t>(blockIdx.x) * width + static_cast<int>(threadIdx.x) % width;
}
/// Adds up term(block's sums, block) of the thread's channel in the order of the blocks, several
/// stretches of them side by side. All threads of the last block call it.
template <class Term>
__device__ BlockSums add_blocks(const ChannelTiles& tiles, const StoredSums& of, Term&& term) {
    __shared__ double folded[2][kTileThreads];
    const int thread = static_cast<int>(threadIdx.x);
    const std::int64_t c = channel_to_finish(tiles);
    const int width = tiles.lanes * tiles.vector;
    const int side = kTileThreads / width;
    double first = 0;
    double second = 0;
    if (c < of.channels) {
        constexpr int kTurn = 8;
        const auto blocks = static_cast<int>(gridDim.y);
        const auto read = [&](int b) { return __ldcg(of.sums + b * of.stored + c); };
        const auto add = [&](float2 sums, int b) {
            const double2 own = term(sums, b);
            first += own.x;
            second += own.y;
        };
        int b = thread / width;
        for (; b + (kTurn - 1) * side < blocks; b += kTurn * side) {
            float2 sums[kTurn];
#pragma unroll
            for (int i = 0; i < kTurn; ++i) {
                sums[i] = read(b + i * side);
            }
#pragma unroll
            for (int i = 0; i < kTurn; ++i) {
                add(sums[i], b + i * side);
            }
        }
        for (; b < blocks; b += side) {
            add(read(b), b);
        }
    }
    folded[0][thread] = first;
    folded[1][thread] = second;
    for (int half = side / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half * width) {
            folded[0][thread] += folded[0][thread + half * width];
            folded[1][thread] += folded[1][thread + half * width];
        }
    }
    return {thread < width && c < of.channels, folded[0][thread], folded[1][thread]};
}

inline dim3 grid_of(const ChannelTiles& tiles) {
    return {tiles.blocks_x, tiles.blocks_y, 1};
}

/// Blocks of kTileThreads threads of a kernel that a multiprocessor of the GPU that is in use has
/// room for. Asked once for each kernel and GPU. @param gpu  its GpuFacts::index
template <auto kKernel>
int resident_blocks(int gpu) {
    static std::array<std::atomic<int>, kMostGpus> known{};
    std::atomic<int>& blocks = known[static_cast<std::size_t>(gpu)];
    if (blocks == 0) {
        int found = 0;
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &found, reinterpret_cast<const void*>(kKernel), kTileThreads, 0),
              "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
        blocks = found < 1 ? 1 : found;
    }
    return blocks;
}

/// As many blocks along the rows as there is work for and the GPU has room for at once: more would
/// only have their turn later, with prologue, sums and end of their own.
template <auto kKernel>
dim3 resident_grid(const ChannelTiles& tiles, int gpu, int multiprocessors) {
    const auto room = static_cast<unsigned>(resident_blocks<kKernel>(gpu) * multiprocessors);
    const unsigned down = room < 2 * tiles.blocks_x ? 1 : room / tiles.blocks_x;
    return {tiles.blocks_x, down < tiles.blocks_y ? down : tiles.blocks_y, 1};
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
