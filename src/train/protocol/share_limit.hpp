#pragma once

#include "cohort/core/clock.hpp"

namespace cohort {

/// Limits the work of a thread to a share of a core. After each piece of work it computes a pause,
/// so that no piece together with its pause uses more than the share; unused time is not saved up.
/// Pure.
class ShareLimit {
public:
    /// @param share  of a core, in (0, 1]; 1: no pauses. Errors: UsageError.
    explicit ShareLimit(double share);
    /// @param busy  processor time of a piece of work  @param elapsed  wall time it has taken
    [[nodiscard]] Clock::Seconds pause_after(Clock::Seconds busy,
                                             Clock::Seconds elapsed) const noexcept;

private:
    double share_;
};

}  // namespace cohort
