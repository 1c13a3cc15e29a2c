#pragma once

#include <vector>

#include "train/protocol/protocol_ring.hpp"
#include "train/worker/ring/worker_ring_rounds.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// What the coordinator asks about the mean gradients of rounds.
class GradientAnswers {
public:
    explicit GradientAnswers(WorkerContext& context) : context_(context) {}

    /// The answer of the round's reporter; of any other member a kept gradient would be outdated
    /// when it reports again, so it is dropped.
    [[nodiscard]] GradientAnswer answer(const RoundOrder& order, const MemberRounds::Sum& sum);
    /// Drops the gradient that was kept to be compared.
    void forget() { kept_.clear(); }

private:
    WorkerContext& context_;
    std::vector<float> kept_;  ///< mean gradient of a round; empty: none
};

}  // namespace cohort
