#include "core/system/process_usage.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cohort {
namespace {

TEST(ProcessUsage, GrowsWithWorkAndMemory) {
    const double before = process_cpu_seconds();
    double sink = 1;
    while (process_cpu_seconds() <= before) {
        sink = sink * 1.0000001 + 1e-9;
    }
    EXPECT_GT(sink, 0);
    const std::uint64_t small = process_peak_bytes();
    const std::vector<char> block(std::size_t{64} << 20U, 1);
    EXPECT_GE(process_peak_bytes() + block.front(), small + (std::uint64_t{48} << 20U));
}

}  // namespace
}  // namespace cohort
