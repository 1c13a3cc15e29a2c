#include "layers/cuda/kernels/pool_kernels.hpp"

#include "channel_tiles.cuh"
#include "core/tensor/cuda.hpp"

namespace cohort::cuda {
namespace {

/// A row's place in images of that many pixels.
struct Pixel {
    std::int64_t sample;
    std::int64_t row;
    std::int64_t column;
};
__device__ Pixel pixel_of(std::int64_t index, std::int64_t height, std::int64_t width) {
    const std::int64_t line = index / width;
    const std::int64_t sample = line / height;
    return {sample, line - sample * height, index - line * width};
}

template <class T, int V, class Place>
__global__ void max_kernel(ChannelTiles tiles, PoolProblem p, const T* x, T* y, Place* places) {
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t outputs = p.samples * p.out_height * p.out_width;
    for (std::int64_t i = place.first_row; i < outputs; i += place.row_step) {
        const Pixel out = pixel_of(i, p.out_height, p.out_width);
        const PoolRange rows = window_cells(out.row, p.window.height, p.height);
        const PoolRange columns = window_cells(out.column, p.window.width, p.width);
        const std::int64_t top = out.row * p.window.height.stride - p.window.height.before;
        const std::int64_t left = out.column * p.window.width.stride - p.window.width.before;
        float best[V];
        ChannelPack<Place, V> where;
        bool any = false;
        for (std::int64_t h = rows.first; h < rows.last; ++h) {
            for (std::int64_t w = columns.first; w < columns.last; ++w) {
                float value[V];
                load(x + ((out.sample * p.height + h) * p.width + w) * p.channels + place.group * V,
                     value);
                const auto cell =
                    static_cast<Place>((h - top) * p.window.width.kernel + (w - left));
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    if (!any || value[v] > best[v] || value[v] != value[v]) {
                        best[v] = value[v];
                        where.values[v] = cell;
                    }
                }
                any = true;
            }
        }
        const std::int64_t at = i * p.channels + place.group * V;
        store(y + at, best);
        if (places != nullptr) {
            *reinterpret_cast<ChannelPack<Place, V>*>(places + at) = where;
        }
    }
}

template <class T, int V, class Place>
__global__ void max_gradient_kernel(ChannelTiles tiles, PoolProblem p, const T* gradient,
                                    const Place* places, T* input_gradient) {
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t inputs = p.samples * p.height * p.width;
    for (std::int64_t i = place.first_row; i < inputs; i += place.row_step) {
        const Pixel in = pixel_of(i, p.height, p.width);
        const PoolRange rows = cell_windows(in.row, p.window.height, p.out_height);
        const PoolRange columns = cell_windows(in.column, p.window.width, p.out_width);
        float sum[V];
        clear(sum);
        for (std::int64_t h = rows.first; h < rows.last; ++h) {
            for (std::int64_t w = columns.first; w < columns.last; ++w) {
                const std::int64_t at =
                    ((in.sample * p.out_height + h) * p.out_width + w) * p.channels +
                    place.group * V;
                const std::int64_t down =
                    in.row - h * p.window.height.stride + p.window.height.before;
                const std::int64_t across =
                    in.column - w * p.window.width.stride + p.window.width.before;
                const auto cell = static_cast<Place>(down * p.window.width.kernel + across);
                const auto where = *reinterpret_cast<const ChannelPack<Place, V>*>(places + at);
                float g[V];
                load(gradient + at, g);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    sum[v] += where.values[v] == cell ? g[v] : 0.0F;
                }
            }
        }
        store(input_gradient + i * p.channels + place.group * V, sum);
    }
}

/// Of a window's sum that covers these cells.
__device__ float divisor(const PoolProblem& p, const PoolRange& rows, const PoolRange& columns) {
    return static_cast<float>(
        p.count_padding ? p.cells() : (rows.last - rows.first) * (columns.last - columns.first));
}

template <class T, int V>
__global__ void average_kernel(ChannelTiles tiles, PoolProblem p, const T* x, T* y) {
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t outputs = p.samples * p.out_height * p.out_width;
    for (std::int64_t i = place.first_row; i < outputs; i += place.row_step) {
        const Pixel out = pixel_of(i, p.out_height, p.out_width);
        const PoolRange rows = window_cells(out.row, p.window.height, p.height);
        const PoolRange columns = window_cells(out.column, p.window.width, p.width);
        float sum[V];
        clear(sum);
        for (std::int64_t h = rows.first; h < rows.last; ++h) {
            for (std::int64_t w = columns.first; w < columns.last; ++w) {
                float value[V];
                load(x + ((out.sample * p.height + h) * p.width + w) * p.channels + place.group * V,
                     value);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    sum[v] += value[v];
                }
            }
        }
        const float cells = divisor(p, rows, columns);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum[v] /= cells;
        }
        store(y + i * p.channels + place.group * V, sum);
    }
}

template <class T, int V>
__global__ void average_gradient_kernel(ChannelTiles tiles, PoolProblem p, const T* gradient,
                                        T* input_gradient) {
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    const std::int64_t inputs = p.samples * p.height * p.width;
    for (std::int64_t i = place.first_row; i < inputs; i += place.row_step) {
        const Pixel in = pixel_of(i, p.height, p.width);
        const PoolRange rows = cell_windows(in.row, p.window.height, p.out_height);
        const PoolRange columns = cell_windows(in.column, p.window.width, p.out_width);
        float sum[V];
        clear(sum);
        for (std::int64_t h = rows.first; h < rows.last; ++h) {
            const PoolRange down = window_cells(h, p.window.height, p.height);
            for (std::int64_t w = columns.first; w < columns.last; ++w) {
                const PoolRange across = window_cells(w, p.window.width, p.width);
                const float cells = divisor(p, down, across);
                float g[V];
                load(gradient + ((in.sample * p.out_height + h) * p.out_width + w) * p.channels +
                         place.group * V,
                     g);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    sum[v] += g[v] / cells;
                }
            }
        }
        store(input_gradient + i * p.channels + place.group * V, sum);
    }
}

/// A block for some channels of one sample: blockIdx.y, and on by the grid.
template <class T, int V>
__global__ void global_kernel(ChannelTiles tiles, PoolProblem p, std::int64_t pixels, const T* x,
                              T* y) {
    __shared__ float shared[V * kTileThreads];
    const TilePlace place = tile_place(tiles);
    for (std::int64_t sample = blockIdx.y; sample < p.samples; sample += gridDim.y) {
        float sum[V];
        clear(sum);
        if (place.active) {
#pragma unroll 4
            for (std::int64_t i = place.row_in_tile; i < pixels; i += tiles.rows()) {
                float value[V];
                load(x + (sample * pixels + i) * p.channels + place.group * V, value);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    sum[v] += value[v];
                }
            }
        }
        fold_rows(tiles, place, sum, shared);
        if (place.active && place.row_in_tile == 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sum[v] /= static_cast<float>(pixels);
            }
            store(y + sample * p.channels + place.group * V, sum);
        }
    }
}

template <class T, int V>
__global__ void global_gradient_kernel(ChannelTiles tiles, PoolProblem p, std::int64_t pixels,
                                       const T* gradient, T* input_gradient) {
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    for (std::int64_t i = place.first_row; i < p.samples * pixels; i += place.row_step) {
        float value[V];
        load(gradient + i / pixels * p.channels + place.group * V, value);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            value[v] /= static_cast<float>(pixels);
        }
        store(input_gradient + i * p.channels + place.group * V, value);
    }
}

ChannelTiles tiles_for(const PoolProblem& p, std::int64_t rows, bool vectors = true) {
    return channel_tiles(rows, p.channels, p.type, p.multiprocessors, vectors);
}

/// Calls launch(T{}, vector, Place{}) for the type, the tiles and the size of a place.
template <class F>
void with_place(const PoolProblem& p, const ChannelTiles& tiles, F&& launch) {
    if (place_bytes(p.cells()) == 1) {
        with_vector(p.type, tiles.vector,
                    [&](auto zero, auto vector) { launch(zero, vector, std::uint8_t{}); });
    } else {
        with_type(p.type, [&](auto zero) {
            launch(zero, std::integral_constant<int, 1>{}, std::uint16_t{});
        });
    }
}

}  // namespace

void max_pool(cudaStream_t stream, const PoolProblem& p, const void* x, void* y, void* places) {
    const ChannelTiles tiles =
        tiles_for(p, p.samples * p.out_height * p.out_width, place_bytes(p.cells()) == 1);
    with_place(p, tiles, [&](auto zero, auto vector, auto place) {
        using T = decltype(zero);
        using Place = decltype(place);
        max_kernel<T, decltype(vector)::value, Place><<<grid_of(tiles), kTileThreads, 0, stream>>>(
            tiles, p, static_cast<const T*>(x), static_cast<T*>(y), static_cast<Place*>(places));
    });
    check_launch("max pool");
}

void max_pool_gradient(cudaStream_t stream, const PoolProblem& p, const void* gradient,
                       const void* places, void* input_gradient) {
    const ChannelTiles tiles =
        tiles_for(p, p.samples * p.height * p.width, place_bytes(p.cells()) == 1);
    with_place(p, tiles, [&](auto zero, auto vector, auto place) {
        using T = decltype(zero);
        using Place = decltype(place);
        max_gradient_kernel<T, decltype(vector)::value, Place>
            <<<grid_of(tiles), kTileThreads, 0, stream>>>(tiles, p, static_cast<const T*>(gradient),
                                                          static_cast<const Place*>(places),
                                                          static_cast<T*>(input_gradient));
    });
    check_launch("gradient of max pool");
}

void average_pool(cudaStream_t stream, const PoolProblem& p, const void* x, void* y) {
    const ChannelTiles tiles = tiles_for(p, p.samples * p.out_height * p.out_width);
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        average_kernel<T, decltype(vector)::value><<<grid_of(tiles), kTileThreads, 0, stream>>>(
            tiles, p, static_cast<const T*>(x), static_cast<T*>(y));
    });
    check_launch("average pool");
}

void average_pool_gradient(cudaStream_t stream, const PoolProblem& p, const void* gradient,
                           void* input_gradient) {
    const ChannelTiles tiles = tiles_for(p, p.samples * p.height * p.width);
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        average_gradient_kernel<T, decltype(vector)::value>
            <<<grid_of(tiles), kTileThreads, 0, stream>>>(tiles, p, static_cast<const T*>(gradient),
                                                          static_cast<T*>(input_gradient));
    });
    check_launch("gradient of average pool");
}

void global_average_pool(cudaStream_t stream, const PoolProblem& p, const void* x, void* y) {
    constexpr std::int64_t kMostRows = 65535;  // of a grid along y
    const ChannelTiles tiles = tiles_for(p, p.pixels());
    const dim3 grid{tiles.blocks_x,
                    static_cast<unsigned>(p.samples < kMostRows ? p.samples : kMostRows), 1};
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        global_kernel<T, decltype(vector)::value><<<grid, kTileThreads, 0, stream>>>(
            tiles, p, p.pixels(), static_cast<const T*>(x), static_cast<T*>(y));
    });
    check_launch("global average pool");
}

void global_average_pool_gradient(cudaStream_t stream, const PoolProblem& p, const void* gradient,
                                  void* input_gradient) {
    const ChannelTiles tiles = tiles_for(p, p.samples * p.pixels());
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        using T = decltype(zero);
        global_gradient_kernel<T, decltype(vector)::value>
            <<<grid_of(tiles), kTileThreads, 0, stream>>>(tiles, p, p.pixels(),
                                                          static_cast<const T*>(gradient),
                                                          static_cast<T*>(input_gradient));
    });
    check_launch("gradient of global average pool");
}

}  // namespace cohort::cuda
