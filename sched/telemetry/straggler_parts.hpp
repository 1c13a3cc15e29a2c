#pragma once

#include "cohort/sched/stragglers.hpp"

namespace cohort {

/// The parts of tau, seconds per batch, and the processor share.
struct StragglerParts {
    double input_s = 0;
    double compute_s = 0;
    double transfer_s = 0;
    double cpu_share = 0;

    void blend(const StragglerParts& other, double weight) noexcept {
        input_s += weight * (other.input_s - input_s);
        compute_s += weight * (other.compute_s - compute_s);
        transfer_s += weight * (other.transfer_s - transfer_s);
        cpu_share += weight * (other.cpu_share - cpu_share);
    }
    [[nodiscard]] double own_s() const noexcept { return input_s + compute_s + transfer_s; }
};

/// The cause of a worker's slowness: the part that grew most.
[[nodiscard]] StragglerCause cause_of(const StragglerParts& slow, const StragglerParts& usual);

}  // namespace cohort
