// Rows of an embedding's table, and tables of positions.
//
// The gradient of a row is the sum over the places where its token stands. A thread per place
// counts the places that come before its own when they are sorted by token, equal ones by place:
// that is where it stands in this order. Every place is compared with every other, in one launch:
// 16,384 places take 2^28 times six operations, by arithmetic 60 us of an H100's 2.9e13 per second,
// GPT-2's products of such a batch 20 ms (12e12 at 6e14 per second). Then a block per different
// token adds up its rows: eight threads a column, whose sums are added first to last.
#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/text_kernels.hpp"

namespace cohort::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kGroups = 8;     // rows at a time
constexpr int kPerThread = 4;  // columns
constexpr int kSpan = kLanes * kPerThread;

template <class T>
__global__ void gather_kernel(TokenRows rows, const float* table, T* to) {
    const std::int64_t count = rows.count * rows.features;
    for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
        const std::int64_t place = i / rows.features;
        to[i] = from_float<T>(table[rows.tokens[place] * rows.features + i % rows.features]);
    }
}

/// @param order  [count]: places sorted by token
/// @param runs  [count]: where a token's first place stands in the order, the number of its places;
/// else 0
__global__ void sort_kernel(const std::int32_t* tokens, std::int32_t count, std::int32_t* order,
                            std::int32_t* runs) {
    for (std::int64_t place = thread_number(); place < count; place += thread_count()) {
        const std::int32_t own = tokens[place];
        std::int32_t less = 0;
        std::int32_t before = 0;
        std::int32_t equal = 0;
#pragma unroll 4
        for (std::int32_t other = 0; other < count; ++other) {
            const std::int32_t token = tokens[other];
            less += token < own ? 1 : 0;
            equal += token == own ? 1 : 0;
            before += token == own && other < place ? 1 : 0;
        }
        order[less + before] = static_cast<std::int32_t>(place);
        runs[less + before] = before == 0 ? equal : 0;
    }
}

template <class T>
__global__ void add_rows_kernel(TokenRows rows, const std::int32_t* order, const std::int32_t* runs,
                                const T* from, float* table) {
    __shared__ float parts[kGroups][kSpan];
    const std::int32_t length = runs[blockIdx.x];
    if (length == 0) {
        return;
    }
    const int lane = static_cast<int>(threadIdx.x);
    const int group = static_cast<int>(threadIdx.y);
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kSpan + lane;
    float sums[kPerThread] = {};
#pragma unroll 2
    for (std::int32_t i = group; i < length; i += kGroups) {
        const T* row = from + static_cast<std::int64_t>(order[blockIdx.x + i]) * rows.features;
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
            const std::int64_t column = first + j * kLanes;
            sums[j] += column < rows.features ? to_float(row[column]) : 0.0F;
        }
    }
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
        parts[group][lane + j * kLanes] = sums[j];
    }
    __syncthreads();
    const int own = group * kLanes + lane;
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kSpan + own;
    if (own < kSpan && column < rows.features) {
        float sum = 0;
        for (int other = 0; other < kGroups; ++other) {
            sum += parts[other][own];
        }
        table[rows.tokens[order[blockIdx.x]] * rows.features + column] += sum;
    }
}

struct AddTable {
    const float* table;
    std::int64_t width;
    float scale;
    COHORT_HD float operator()(std::int64_t i, float x) const {
        return scale * x + table[i % width];
    }
};
struct Scale {
    float factor;
    COHORT_HD float operator()(std::int64_t /*i*/, float x) const { return factor * x; }
};

}  // namespace

void gather_rows(cudaStream_t stream, ElementType type, const TokenRows& rows, const float* table,
                 void* to) {
    const Launch launch = launch_for(rows.count * rows.features, kMostBlocks);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        gather_kernel<<<launch.blocks, launch.threads, 0, stream>>>(rows, table,
                                                                    static_cast<T*>(to));
    });
    check_launch("embedding");
}

std::size_t row_sum_scratch(std::int64_t count) {
    return 2 * static_cast<std::size_t>(count) * sizeof(std::int32_t);
}

void add_rows(cudaStream_t stream, ElementType type, const TokenRows& rows, const void* from,
              float* table, void* scratch) {
    auto* order = static_cast<std::int32_t*>(scratch);
    std::int32_t* runs = order + rows.count;
    const Launch launch = launch_for(rows.count, kMostBlocks);
    sort_kernel<<<launch.blocks, launch.threads, 0, stream>>>(
        rows.tokens, static_cast<std::int32_t>(rows.count), order, runs);
    check_launch("order of the tokens");
    const dim3 grid(static_cast<unsigned>(rows.count),
                    static_cast<unsigned>((rows.features + kSpan - 1) / kSpan));
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        add_rows_kernel<<<grid, dim3(kLanes, kGroups), 0, stream>>>(
            rows, order, runs, static_cast<const T*>(from), table);
    });
    check_launch("gradient of the embedding");
}

void add_table(cudaStream_t stream, ElementType type, void* y, const void* x, const float* table,
               float scale, std::int64_t samples, std::int64_t width) {
    launch_map(stream, "positions", type, samples * width, AddTable{table, width, scale}, y, x);
}

void scale_elements(cudaStream_t stream, ElementType type, void* y, const void* x, float factor,
                    std::int64_t count) {
    launch_map(stream, "scale", type, count, Scale{factor}, y, x);
}

}  // namespace cohort::cuda
