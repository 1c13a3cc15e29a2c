#include "core/system/process_usage.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
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

/// What Linux says of the calling thread's time slice, ns; 0 where it has none of its own.
std::uint64_t own_slice_ns() {
    struct {
        std::uint32_t numbers[6] = {48};  // size, policy, flags, nice, priority
        std::uint64_t slice_ns = 0;
        std::uint64_t others[2] = {};
    } attributes;
    ::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0);
    return attributes.slice_ns;
}

TEST(ProcessUsage, ShortSlicesAreOneThreadsAndKeepItsPriority) {
    const std::uint64_t before = own_slice_ns();
    std::thread([] {
        lower_thread_priority("the test's thread", 3);
        ask_for_short_slices();
        if (own_slice_ns() != 0) {  // since Linux 6.12
            EXPECT_EQ(own_slice_ns(), 100'000U);
        }
        EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))), 3);
    }).join();
    EXPECT_EQ(own_slice_ns(), before);
}

}  // namespace
}  // namespace cohort
