#pragma once

namespace cohort {

/// What a rank and its host could use of their resources during an iteration.
struct ResourceUse {
    double cpu_share = 1;   ///< processor seconds got / wanted, 0..1: run-queue delay and cgroup
                            ///< throttling lower it
    double host_busy = 0;   ///< of all processors of the host, 0..1
    double host_steal = 0;  ///< of them, taken by the hypervisor, 0..1
    double rx_bytes_s = 0;  ///< received by the rank, while it received
    double tx_bytes_s = 0;  ///< sent, while it sent
    double host_rx_bytes_s = 0;  ///< by the host's network cards
    double host_tx_bytes_s = 0;
    double device_busy = 0;  ///< of the GPU, 0..1; 0 also: there is none, or it is not known

    template <class Io>
    void fields(Io& io) {
        io(cpu_share, host_busy, host_steal, rx_bytes_s, tx_bytes_s, host_rx_bytes_s,
           host_tx_bytes_s, device_busy);
    }
};

}  // namespace cohort
