#include "sched/telemetry/straggler_parts.hpp"

#include <algorithm>
#include <array>

namespace cohort {

std::string_view to_string(StragglerCause cause) noexcept {
    constexpr std::array<std::string_view, kStragglerCauses> kNames{"cpu", "bandwidth", "input",
                                                                    "device", "lag"};
    return kNames.at(static_cast<std::size_t>(cause));
}

/// Computing on processors takes 1/share as long with a share of them. A worker that grew by more
/// than that was slowed by something else and got less processor time as a result. The threshold is
/// the square, between the two.
StragglerCause cause_of(const StragglerParts& slow, const StragglerParts& usual) {
    constexpr double kNotable = 0.05;   // of tau
    constexpr double kFullShare = 0.9;  // of the usual share
    const double input_s = slow.input_s - usual.input_s;
    const double compute_s = slow.compute_s - usual.compute_s;
    const double transfer_s = slow.transfer_s - usual.transfer_s;
    if (std::max({input_s, compute_s, transfer_s}) < kNotable * usual.own_s()) {
        return StragglerCause::kLag;
    }
    if (transfer_s >= std::max(input_s, compute_s)) {
        return StragglerCause::kBandwidth;
    }
    const double share = slow.cpu_share / std::max(usual.cpu_share, 1e-9);
    const double growth =
        (slow.input_s + slow.compute_s) / std::max(usual.input_s + usual.compute_s, 1e-9);
    if (share < kFullShare && share * share * growth < 1) {
        return StragglerCause::kCpu;
    }
    return input_s > compute_s ? StragglerCause::kInput : StragglerCause::kDevice;
}

}  // namespace cohort
