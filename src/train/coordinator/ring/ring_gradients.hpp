#pragma once

#include <cstdint>
#include <vector>

#include "train/coordinator/ring/ring_context.hpp"

namespace cohort {

/// What rounds and riders tell about the gradient. A round is asked when it is granted: who takes
/// part with how many samples is known then, norms come with the tails. Every member holds the mean
/// gradient, so the reporter answers for all, and nothing more is sent.
class RingGradients {
public:
    explicit RingGradients(RingContext& context) : context_(context) {}

    /// Whether to ask for the norm of the mean gradient of the round that is granted now.
    [[nodiscard]] bool ask(Round& round);
    /// @param squares  see RoundReport  @param pushes  of the round, riders' first
    void answered(const Round& round, double squares, const std::vector<PushTicket>& pushes);
    /// The round is skipped or aborted.
    void withdrawn(const Round& round);
    /// Whether a rider's next lease is to be computed as two halves.
    [[nodiscard]] bool halve(std::int64_t samples);
    void add_halves(const PushReport& report);
    /// For the size of updates; 0: not known.
    [[nodiscard]] double noise_scale() const;

private:
    [[nodiscard]] Fire fire_of(const Round& round) const;

    RingContext& context_;
};

}  // namespace cohort
