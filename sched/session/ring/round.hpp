#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// A rider's gradient that its parent holds and adds to its own share of a round.
struct RiderPush {
    PushId push;
    std::int64_t samples = 0;
    double lag = 0;  ///< of the parameters that the rider gets: look-ahead in reference batches
    auto fields() { return std::tie(push, samples, lag); }
};

/// One worker's share in a round.
struct RoundMember {
    std::int32_t worker = 0;
    std::uint64_t lease = 0;        ///< 0: takes part without samples of its own
    std::int64_t samples = 0;       ///< b_i
    std::vector<RiderPush> riders;  ///< in the order in which they are added
    auto fields() { return std::tie(worker, lease, samples, riders); }
    /// Those of riders included.
    [[nodiscard]] std::int64_t all_samples() const noexcept {
        std::int64_t all = samples;
        for (const RiderPush& rider : riders) {
            all += rider.samples;
        }
        return all;
    }
};

/// A round that has been granted and is not over.
struct Round {
    std::uint64_t number = 0;
    std::vector<RoundMember> members;  ///< in ring order
    std::vector<PushId> riders;        ///< their gradients, in order of arrival
    std::int64_t samples = 0;          ///< of members and riders
    std::uint32_t epoch = 0;           ///< of the oldest lease
    Work work = Work::kGradient;       ///< of the members
    std::int32_t steps = 1;            ///< kDelta: local steps
    double lr = 0;
    // Where the members apply the update before the engine hears of it:
    double fraction = 0;     ///< what the update is worth, reference batches
    double noise_scale = 0;  ///< that the fraction was computed with
    bool asked = false;      ///< for the norm of the mean gradient

    /// A lease or a gradient of this worker is part of it.
    [[nodiscard]] bool includes(int worker) const {
        return std::any_of(members.begin(), members.end(),
                           [worker](const RoundMember& one) { return one.worker == worker; }) ||
               std::any_of(riders.begin(), riders.end(),
                           [worker](const PushId& one) { return one.worker == worker; });
    }
};

}  // namespace cohort
