#include "train/protocol/share_limit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Longer than any run, and within the range of every clock.
constexpr Clock::Seconds kLongestPause(1e9);

}  // namespace

ShareLimit::ShareLimit(double share) : share_(share) {
    if (!(share > 0 && share <= 1)) {
        fail<UsageError>({.where = "--eval-share",
                          .what = "not a share of a core",
                          .expected = "above 0, at most 1",
                          .got = fmt::format("{}", share)});
    }
}

Clock::Seconds ShareLimit::pause_after(Clock::Seconds busy, Clock::Seconds elapsed) const noexcept {
    return std::clamp(busy / share_ - elapsed, Clock::Seconds(0), kLongestPause);
}

}  // namespace cohort
