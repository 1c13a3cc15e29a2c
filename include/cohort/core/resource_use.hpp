#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace cohort {

/// What keeps a GPU from its full speed. ResourceUse::device_limits has a bit for each.
enum class DeviceLimit : std::uint8_t {
    kThermal,   ///< the clock is lowered because of heat
    kHardware,  ///< or by the board, as when power supplies fail
    kMemory,    ///< ECC errors were found
    kPower,     ///< the clock is lowered to stay within the limit of power
    kShared     ///< other processes compute on it
};
inline constexpr std::size_t kDeviceLimits = 5;
[[nodiscard]] constexpr unsigned int bit_of(DeviceLimit limit) noexcept {
    return 1U << static_cast<unsigned int>(limit);
}

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
    double device_busy = 0;     ///< share of the GPU's time that other processes used, 0..1; 0 also
                                ///< without a GPU, or when not known
    double device_clock = 1;    ///< clock of the GPU's processors / its maximum; 1: or not known
    double device_celsius = 0;  ///< of the GPU; 0: not known
    std::uint8_t device_limits = 0;  ///< bits of DeviceLimit

    auto fields() {
        return std::tie(cpu_share, host_busy, host_steal, rx_bytes_s, tx_bytes_s, host_rx_bytes_s,
                        host_tx_bytes_s, device_busy, device_clock, device_celsius, device_limits);
    }
};

}  // namespace cohort
