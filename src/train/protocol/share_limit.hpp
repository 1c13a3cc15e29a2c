#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/clock.hpp"
#include "cohort/core/require.hpp"

namespace cohort {

/// Limits the work of a thread to a share of a core. After each piece of work it computes a pause,
/// so that no piece together with its pause uses more than the share; unused time is not saved up.
/// Pure.
class ShareLimit {
public:
    /// @param share  of a core, in (0, 1]; 1: no pauses. Errors: UsageError.
    explicit ShareLimit(double share) : share_(share) {
        require(share > 0 && share <= 1, "--eval-share", "above 0, at most 1",
                fmt::format("{}", share));
    }
    /// @param busy  processor time of a piece of work  @param elapsed  wall time it has taken
    [[nodiscard]] Clock::Seconds pause_after(Clock::Seconds busy,
                                             Clock::Seconds elapsed) const noexcept {
        constexpr Clock::Seconds kLongest{
            1e9};  // than any run, and within the range of every clock
        return std::clamp(busy / share_ - elapsed, Clock::Seconds(0), kLongest);
    }

private:
    double share_;
};

}  // namespace cohort
