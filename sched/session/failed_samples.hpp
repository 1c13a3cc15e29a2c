#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace cohort {

/// Tells samples that cannot be trained on from a model that has diverged: leases whose numbers
/// were not finite return and are dealt again, and the same samples fail again while other
/// mini-batches do not. Pure.
class FailedSamples {
public:
    /// A mini-batch whose numbers were not finite. @param samples  their ids
    void failed(std::span<const std::int64_t> samples);
    /// Another mini-batch was finite.
    void finite() noexcept { ++finite_; }

    struct Again {
        std::vector<std::int64_t>
            samples;                 ///< of the newest failure that had failed before, sorted
        std::int64_t times = 0;      ///< failures that had one of them
        bool others_finite = false;  ///< mini-batches were finite between these failures
    };
    /// Empty: none has failed before.
    [[nodiscard]] Again again() const;

private:
    static constexpr std::size_t kMost = 32;

    struct Failure {
        std::vector<std::int64_t> samples;  ///< sorted
        std::int64_t finite = 0;            ///< mini-batches before it
    };
    std::deque<Failure> failures_;  ///< the newest, oldest first
    std::int64_t finite_ = 0;
};

}  // namespace cohort
