// Sums over warps and blocks of threads (tensor/cuda/reduce.cuh), run on the CPU thread by
// thread: blocks in turn from the first thread to the last and the other way round.
#include <gtest/gtest.h>

#include <vector>

#include "support/gpu/cuda_on_cpu.hpp"

// After it: on the CPU its functions are those of the names above.
#include "core/tensor/cuda/reduce.cuh"

namespace cohort::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 4;

void sums_kernel(std::vector<double>* sums, int times) {
    const double own = threadIdx.x + 1;
    for (int i = 0; i < times; ++i) {
        const double sum = block_sum<kThreads>(own * (i + 1));
        if (threadIdx.x == 0) {
            sums[blockIdx.x].push_back(sum);
        }
    }
}

TEST(BlockSum, OneRightAfterAnother) {
    std::vector<std::vector<double>> sums(kBlocks);
    on_cpu::Launch(kBlocks, kThreads)([](auto... a) { sums_kernel(a...); }, sums.data(), 3);
    constexpr double kOnce = 256 * 257 / 2;
    for (const std::vector<double>& block : sums) {
        EXPECT_EQ(block, (std::vector<double>{kOnce, 2 * kOnce, 3 * kOnce}));
    }
}

TEST(BlockSum, EveryThreadHasIt) {
    std::vector<double> sums(2 * kThreads);
    on_cpu::Launch(2, kThreads)(
        [](double* to) {
            to[blockIdx.x * kThreads + threadIdx.x] = block_sum<kThreads>(threadIdx.x + 1.0);
        },
        sums.data());
    EXPECT_EQ(sums, std::vector<double>(2 * kThreads, 256 * 257 / 2));
}

TEST(WarpSum, EveryLaneHasTheSumOfItsWarp) {
    std::vector<int> sums(2 * kWarp);
    on_cpu::Launch(1, 2 * kWarp)(
        [](int* to) { to[threadIdx.x] = warp_sum(static_cast<int>(threadIdx.x)); }, sums.data());
    for (int i = 0; i < 2 * kWarp; ++i) {
        EXPECT_EQ(sums[static_cast<std::size_t>(i)], i < kWarp ? 496 : 496 + kWarp * kWarp) << i;
    }
}

}  // namespace
}  // namespace cohort::cuda
