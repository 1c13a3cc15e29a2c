#pragma once

#include <tuple>

namespace cohort {

/// Resources that a rank and its host used during an iteration.
struct ResourceUse {
    double cpu_share = 1;   ///< processor seconds got / wanted, 0..1: run-queue delay and cgroup
                            ///< throttling lower it
    double host_busy = 0;   ///< of all processors of the host, 0..1
    double host_steal = 0;  ///< share of the processors taken by the hypervisor, 0..1
    double rx_bytes_s = 0;  ///< rate of the rank while it receives
    double tx_bytes_s = 0;  ///< rate of the rank while it sends
    double host_rx_bytes_s = 0;  ///< rate of the host's network cards
    double host_tx_bytes_s = 0;
    double device_busy = 0;  ///< load of the GPU, 0..1; 0 also without a GPU, or when not known

    auto fields() {
        return std::tie(cpu_share, host_busy, host_steal, rx_bytes_s, tx_bytes_s, host_rx_bytes_s,
                        host_tx_bytes_s, device_busy);
    }
};

}  // namespace cohort
