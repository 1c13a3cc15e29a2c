#pragma once

#include <cstdint>
#include <memory>

namespace cohort {

/// Running sums since some fixed moment; the difference of two gives the time between them.
struct LoadCounters {
    double at_s = 0;         ///< monotonic clock
    double cpu_s = 0;        ///< this process on processors, all threads
    double runnable_s = 0;   ///< its threads, ready but without a processor
    double throttled_s = 0;  ///< its cgroup, stopped by cpu.max
    // Read at most once a second:
    double host_at_s = 0;             ///< time of the reading
    double host_busy_s = 0;           ///< processor seconds, all processes, all processors
    double host_steal_s = 0;          ///< taken by the hypervisor
    double host_total_s = 0;          ///< processors x time
    std::uint64_t host_rx_bytes = 0;  ///< network cards without the loopback
    std::uint64_t host_tx_bytes = 0;
};

/// Reads what the kernel counts: /proc/self/task/*/schedstat, the cgroup's cpu.stat, and once a
/// second /proc/stat and /proc/net/dev. Counters that cannot be read stay 0. A call takes a
/// microsecond or two per thread; callers limit how often.
class LoadProbe {
public:
    LoadProbe();
    ~LoadProbe();
    LoadProbe(const LoadProbe&) = delete;
    LoadProbe& operator=(const LoadProbe&) = delete;
    [[nodiscard]] LoadCounters read();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
