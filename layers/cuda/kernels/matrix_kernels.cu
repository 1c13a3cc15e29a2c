#include "cohort/core/error.hpp"
#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/matrix_kernels.hpp"

namespace cohort::cuda {
namespace {

/// T stands for so many bytes.
template <class T, class Index>
__global__ void copy_columns_kernel(T* to, const T* from, ColumnCopy copy, T zero) {
    const std::int64_t count = copy.rows * copy.filled;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const CopyPlaces places = copy_places(copy, static_cast<Index>(i));
        to[places.to] = places.from < 0 ? zero : from[places.from];
    }
}

template <class T>
void launch_copy(cudaStream_t stream, const ColumnCopy& copy, void* to, const void* from) {
    const Launch launch = launch_for(copy.rows * copy.filled, kMostBlocks);
    auto* target = static_cast<T*>(to);
    const auto* source = static_cast<const T*>(from);
    if (copy.rows * copy.filled <= std::int64_t{0xffffffff}) {
        copy_columns_kernel<T, std::uint32_t>
            <<<launch.blocks, launch.threads, 0, stream>>>(target, source, copy, T{});
    } else {
        copy_columns_kernel<T, std::uint64_t>
            <<<launch.blocks, launch.threads, 0, stream>>>(target, source, copy, T{});
    }
    check_launch("copy of columns");
}

// Transposition: a block of threads carries a tile of 32 x 32 through shared memory, so that reads
// and writes are both in the order of memory.
constexpr int kTile = 32;
constexpr int kRows = 8;  // of threads; each carries kTile / kRows elements

/// T stands for so many bytes.
template <class T>
__global__ void transpose_kernel(T* to, const T* from, BatchTranspose s, T zero) {
    __shared__ T tile[kTile][kTile + 1];
    const std::int64_t across = (s.columns + kTile - 1) / kTile;
    const std::int64_t down = (s.to_stride + kTile - 1) / kTile;
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    for (std::int64_t t = blockIdx.x; t < s.batch * across * down; t += gridDim.x) {
        const std::int64_t n = t / (across * down);
        const std::int64_t row = t / across % down * kTile;
        const std::int64_t column = t % across * kTile;
        const T* source = from + n * s.rows * s.from_stride;
        T* target = to + n * s.columns * s.to_stride;
        for (int j = y; j < kTile; j += kRows) {
            const bool there = row + j < s.rows && column + x < s.columns;
            tile[j][x] = there ? source[(row + j) * s.from_stride + column + x] : zero;
        }
        __syncthreads();
        for (int j = y; j < kTile; j += kRows) {
            if (column + j < s.columns && row + x < s.to_stride) {
                target[(column + j) * s.to_stride + row + x] = tile[x][j];
            }
        }
        __syncthreads();
    }
}

template <class T>
void launch_transpose(cudaStream_t stream, const BatchTranspose& shape, void* to,
                      const void* from) {
    const std::int64_t tiles = shape.batch * ((shape.columns + kTile - 1) / kTile) *
                               ((shape.to_stride + kTile - 1) / kTile);
    const auto blocks = static_cast<unsigned>(tiles < kMostBlocks ? tiles : kMostBlocks);
    transpose_kernel<<<blocks, dim3(kTile, kRows), 0, stream>>>(
        static_cast<T*>(to), static_cast<const T*>(from), shape, T{});
    check_launch("transpose");
}

}  // namespace

void copy_columns(cudaStream_t stream, ElementType type, const ColumnCopy& copy, void* to,
                  const void* from) {
    if (copy.rows * copy.filled == 0) {
        return;
    }
    check_invariant(is_pack_aligned(to) && is_pack_aligned(from), "matrices not aligned");
    const auto element = static_cast<std::int64_t>(element_bytes(type));
    const std::int64_t bytes = copy_unit_bytes(copy, element);
    const ColumnCopy units = in_units(copy, bytes / element);
    switch (bytes) {
        case 16: launch_copy<uint4>(stream, units, to, from); return;
        case 8: launch_copy<uint2>(stream, units, to, from); return;
        case 4: launch_copy<std::uint32_t>(stream, units, to, from); return;
        default: launch_copy<std::uint16_t>(stream, units, to, from); return;
    }
}

void transpose_batch(cudaStream_t stream, ElementType type, const BatchTranspose& shape, void* to,
                     const void* from) {
    if (shape.batch == 0) {
        return;
    }
    if (element_bytes(type) == 4) {
        launch_transpose<std::uint32_t>(stream, shape, to, from);
    } else {
        launch_transpose<std::uint16_t>(stream, shape, to, from);
    }
}

}  // namespace cohort::cuda
