#include "layers/cuda/kernels/pool_kernels.hpp"

#include "channel_tiles.cuh"
#include "tensor/cuda.hpp"

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

/// Of a window: its largest number, and where that is.
template <int V, class PlaceType>
struct Largest {
    using Place = PlaceType;
    static constexpr int kVector = V;
    float result[V];
    ChannelPack<Place, V> where;
    bool any = false;

    __device__ void add(const float (&value)[V], std::int64_t cell) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (!any || value[v] > result[v] || value[v] != value[v]) {
                result[v] = value[v];
                where.values[v] = static_cast<Place>(cell);
            }
        }
        any = true;
    }
    __device__ void finish(std::int64_t /*cells*/, Place* place) const {
        if (place != nullptr) {
            *reinterpret_cast<ChannelPack<Place, V>*>(place) = where;
        }
    }
};

/// Of a window: the mean of its cells.
template <int V>
struct Mean {
    using Place = std::uint8_t;  // has none
    static constexpr int kVector = V;
    float result[V] = {};

    __device__ void add(const float (&value)[V], std::int64_t /*cell*/) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            result[v] += value[v];
        }
    }
    __device__ void finish(std::int64_t cells, Place* /*place*/) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            result[v] /= static_cast<float>(cells);
        }
    }
};

template <class T, class Window>
__global__ void window_kernel(ChannelTiles tiles, PoolProblem p, const T* x, T* y,
                              typename Window::Place* places) {
    constexpr int kVector = Window::kVector;
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    for (std::int64_t i = place.first_row; i < p.outputs(); i += place.row_step) {
        const Pixel out = pixel_of(i, p.out_height, p.out_width);
        const PoolRange rows = window_cells(out.row, p.kernel, p.stride, p.padding, p.height);
        const PoolRange columns = window_cells(out.column, p.kernel, p.stride, p.padding, p.width);
        const std::int64_t top = out.row * p.stride - p.padding;
        const std::int64_t left = out.column * p.stride - p.padding;
        Window window;
        for (std::int64_t h = rows.first; h < rows.last; ++h) {
            for (std::int64_t w = columns.first; w < columns.last; ++w) {
                float value[kVector];
                load(x + ((out.sample * p.height + h) * p.width + w) * p.channels +
                         place.group * kVector,
                     value);
                window.add(value, (h - top) * p.kernel + (w - left));
            }
        }
        const std::int64_t at = i * p.channels + place.group * kVector;
        window.finish((rows.last - rows.first) * (columns.last - columns.first),
                      places == nullptr ? nullptr : places + at);
        store(y + at, window.result);
    }
}

/// What a cell has of a window's gradient: all of it, where the window's largest number is there.
template <int V, class Place>
struct LargestShare {
    static constexpr int kVector = V;
    const Place* places;
    __device__ void operator()(const PoolProblem& p, const Pixel& in, std::int64_t h,
                               std::int64_t w, std::int64_t at, float (&gradient)[V]) const {
        const auto cell = static_cast<Place>((in.row - h * p.stride + p.padding) * p.kernel +
                                             (in.column - w * p.stride + p.padding));
        const auto where = *reinterpret_cast<const ChannelPack<Place, V>*>(places + at);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            gradient[v] = where.values[v] == cell ? gradient[v] : 0.0F;
        }
    }
};
/// The same part as every cell of the window.
template <int V>
struct MeanShare {
    static constexpr int kVector = V;
    __device__ void operator()(const PoolProblem& p, const Pixel& /*in*/, std::int64_t h,
                               std::int64_t w, std::int64_t /*at*/, float (&gradient)[V]) const {
        const PoolRange down = window_cells(h, p.kernel, p.stride, p.padding, p.height);
        const PoolRange across = window_cells(w, p.kernel, p.stride, p.padding, p.width);
        const auto cells =
            static_cast<float>((down.last - down.first) * (across.last - across.first));
#pragma unroll
        for (int v = 0; v < V; ++v) {
            gradient[v] /= cells;
        }
    }
};

template <class T, class Share>
__global__ void window_gradient_kernel(ChannelTiles tiles, PoolProblem p, const T* gradient,
                                       T* input_gradient, Share share) {
    constexpr int kVector = Share::kVector;
    const TilePlace place = tile_place(tiles);
    if (!place.active) {
        return;
    }
    for (std::int64_t i = place.first_row; i < p.samples * p.pixels(); i += place.row_step) {
        const Pixel in = pixel_of(i, p.height, p.width);
        const PoolRange rows = cell_windows(in.row, p.kernel, p.stride, p.padding, p.out_height);
        const PoolRange columns =
            cell_windows(in.column, p.kernel, p.stride, p.padding, p.out_width);
        float sum[kVector];
        clear(sum);
        for (std::int64_t h = rows.first; h < rows.last; ++h) {
            for (std::int64_t w = columns.first; w < columns.last; ++w) {
                const std::int64_t at =
                    ((in.sample * p.out_height + h) * p.out_width + w) * p.channels +
                    place.group * kVector;
                float g[kVector];
                load(gradient + at, g);
                share(p, in, h, w, at, g);
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    sum[v] += g[v];
                }
            }
        }
        store(input_gradient + i * p.channels + place.group * kVector, sum);
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
    if (place_bytes(p.kernel) == 1) {
        with_vector(p.type, tiles.vector,
                    [&](auto zero, auto vector) { launch(zero, vector, std::uint8_t{}); });
    } else {
        with_type(p.type, [&](auto zero) {
            launch(zero, std::integral_constant<int, 1>{}, std::uint16_t{});
        });
    }
}

template <class T, class Window>
void launch_windows(cudaStream_t stream, const ChannelTiles& tiles, const PoolProblem& p,
                    const void* x, void* y, void* places) {
    window_kernel<T, Window><<<grid_of(tiles), kTileThreads, 0, stream>>>(
        tiles, p, static_cast<const T*>(x), static_cast<T*>(y),
        static_cast<typename Window::Place*>(places));
    check_launch("windows of a pool");
}

template <class T, class Share>
void launch_gradient(cudaStream_t stream, const ChannelTiles& tiles, const PoolProblem& p,
                     const void* gradient, void* input_gradient, const Share& share) {
    window_gradient_kernel<T, Share><<<grid_of(tiles), kTileThreads, 0, stream>>>(
        tiles, p, static_cast<const T*>(gradient), static_cast<T*>(input_gradient), share);
    check_launch("gradient of a pool");
}

}  // namespace

void max_pool(cudaStream_t stream, const PoolProblem& p, const void* x, void* y, void* places) {
    const ChannelTiles tiles = tiles_for(p, p.outputs(), place_bytes(p.kernel) == 1);
    with_place(p, tiles, [&](auto zero, auto vector, auto place) {
        using Window = Largest<decltype(vector)::value, decltype(place)>;
        launch_windows<decltype(zero), Window>(stream, tiles, p, x, y, places);
    });
}

void max_pool_gradient(cudaStream_t stream, const PoolProblem& p, const void* gradient,
                       const void* places, void* input_gradient) {
    const ChannelTiles tiles = tiles_for(p, p.samples * p.pixels(), place_bytes(p.kernel) == 1);
    with_place(p, tiles, [&](auto zero, auto vector, auto place) {
        using Place = decltype(place);
        launch_gradient<decltype(zero)>(
            stream, tiles, p, gradient, input_gradient,
            LargestShare<decltype(vector)::value, Place>{static_cast<const Place*>(places)});
    });
}

void average_pool(cudaStream_t stream, const PoolProblem& p, const void* x, void* y) {
    const ChannelTiles tiles = tiles_for(p, p.outputs());
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        launch_windows<decltype(zero), Mean<decltype(vector)::value>>(stream, tiles, p, x, y,
                                                                      nullptr);
    });
}

void average_pool_gradient(cudaStream_t stream, const PoolProblem& p, const void* gradient,
                           void* input_gradient) {
    const ChannelTiles tiles = tiles_for(p, p.samples * p.pixels());
    with_vector(p.type, tiles.vector, [&](auto zero, auto vector) {
        launch_gradient<decltype(zero)>(stream, tiles, p, gradient, input_gradient,
                                        MeanShare<decltype(vector)::value>{});
    });
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
