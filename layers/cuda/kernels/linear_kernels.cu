// Sums over the rows of a matrix, and a bias for each.
#include "layers/cuda/kernels/linear_kernels.hpp"

#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/element_map.cuh"
#include "layers/cuda/kernels/column_stretches.hpp"
#include "layers/cuda/rules/activation_rules.hpp"

namespace cohort::cuda {
namespace {

template <class T>
__global__ void column_sums_kernel(float* sums, const T* matrix, std::int64_t rows,
                                   std::int64_t columns, std::int64_t stretch, bool adds) {
    __shared__ float part[kSumRows][kSumColumns];
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kSumColumns + x;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * stretch;
    const std::int64_t end = begin + stretch < rows ? begin + stretch : rows;
    float sum = 0;
    if (column < columns) {
        for (std::int64_t r = begin + y; r < end; r += kSumRows) {
            sum += to_float(matrix[r * columns + column]);
        }
    }
    part[y][x] = sum;
    __syncthreads();
    if (y == 0 && column < columns) {
        for (int other = 1; other < kSumRows; ++other) {
            sum += part[other][x];
        }
        float& total = sums[blockIdx.y * columns + column];
        total = adds ? total + sum : sum;
    }
}

__global__ void add_stretches_kernel(float* sums, const float* parts, std::int64_t stretches,
                                     std::int64_t columns, bool adds) {
    for (std::int64_t c = thread_number(); c < columns; c += thread_count()) {
        float sum = 0;
        for (std::int64_t s = 0; s < stretches; ++s) {
            sum += parts[s * columns + c];
        }
        sums[c] = adds ? sums[c] + sum : sum;
    }
}

struct AddBias {
    const float* bias;
    std::int64_t columns;
    bool with_relu;
    COHORT_HD float operator()(std::int64_t i, float x) const {
        const float sum = x + bias[i % columns];
        return with_relu ? relu_of(sum) : sum;
    }
};

}  // namespace

void add_bias(cudaStream_t stream, ElementType type, void* y, const float* bias, std::int64_t rows,
              std::int64_t columns, bool relu) {
    launch_map(stream, "bias", type, rows * columns, AddBias{bias, columns, relu}, y,
               static_cast<const void*>(y));
}

std::size_t column_sum_scratch(std::int64_t rows, std::int64_t columns) {
    const std::int64_t stretches = stretches_of(rows);
    return stretches == 1 ? 0 : static_cast<std::size_t>(stretches * columns) * sizeof(float);
}

void sum_columns(cudaStream_t stream, ElementType type, float* sums, const void* matrix,
                 std::int64_t rows, std::int64_t columns, void* scratch, bool adds) {
    const std::int64_t stretches = stretches_of(rows);
    const dim3 grid(static_cast<unsigned>((columns + kSumColumns - 1) / kSumColumns),
                    static_cast<unsigned>(stretches));
    float* parts = stretches == 1 ? sums : static_cast<float*>(scratch);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        column_sums_kernel<<<grid, dim3(kSumColumns, kSumRows), 0, stream>>>(
            parts, static_cast<const T*>(matrix), rows, columns, stretch_rows(rows),
            adds && stretches == 1);
    });
    check_launch("column sums");
    if (stretches > 1) {
        const Launch launch = launch_for(columns, kMostBlocks);
        add_stretches_kernel<<<launch.blocks, launch.threads, 0, stream>>>(sums, parts, stretches,
                                                                           columns, adds);
        check_launch("column sums");
    }
}

}  // namespace cohort::cuda
