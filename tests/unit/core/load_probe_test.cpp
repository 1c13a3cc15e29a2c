// What the kernel counts of this process and host.
#include "core/system/load_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "cohort/core/clock.hpp"

namespace cohort {
namespace {

/// Keeps this thread busy for so much of its own processor time.
void burn(double seconds) {
    const ThreadCpuClock clock;
    const double end = clock.now().count() + seconds;
    while (clock.now().count() < end) {
    }
}

TEST(LoadProbe, CountsUpwards) {
    LoadProbe probe;
    const LoadCounters before = probe.read();
    burn(0.05);
    const LoadCounters after = probe.read();
    EXPECT_GE(after.cpu_s - before.cpu_s, 0.04);
    EXPECT_GT(after.at_s, before.at_s);
    EXPECT_GE(after.runnable_s, before.runnable_s);
    EXPECT_GE(after.throttled_s, before.throttled_s);
    EXPECT_EQ(after.host_at_s, before.host_at_s);  // once a second is enough for the host
    EXPECT_EQ(after.host_total_s, before.host_total_s);
    EXPECT_GT(before.host_total_s, before.host_busy_s + before.host_steal_s);
    EXPECT_GT(before.host_busy_s, 0);
}

TEST(LoadProbe, MoreThreadsThanProcessorsWaitForOne) {
    LoadProbe probe;
    const unsigned count = 4 * std::max(std::thread::hardware_concurrency(), 1U);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
        threads.emplace_back([&stop] {
            while (!stop) {
                burn(0.001);
            }
        });
    }
    const LoadCounters before = probe.read();
    std::this_thread::sleep_for(Clock::Seconds(1.2));
    const LoadCounters after = probe.read();  // a second later it knows the threads
    std::this_thread::sleep_for(Clock::Seconds(0.3));
    const LoadCounters last = probe.read();
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_GT(after.host_total_s, before.host_total_s);
    EXPECT_GT(last.runnable_s - after.runnable_s, last.cpu_s - after.cpu_s);
}

}  // namespace
}  // namespace cohort
