#include "cohort/core/error.hpp"
#include "layers/cuda/kernels/concat_kernels.hpp"
#include "tensor/cuda/element_map.cuh"

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

}  // namespace cohort::cuda
