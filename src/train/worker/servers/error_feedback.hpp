#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "cohort/sched/plan.hpp"
#include "train/protocol/push_outcomes.hpp"

namespace cohort {

/// What is rounded away of a worker's pushes is added to a later one, so that nothing is lost over
/// time, only late (Seide et al. 2014, "1-bit stochastic gradient descent"). A push takes up what
/// is kept; once the worker hears that it was applied, what its rounding left is kept in its place,
/// and of a push that was not used what it had taken up is kept again. So
///     sum of applied pushes + kept = sum of the gradients that they were made of,
/// whatever becomes of other pushes, up to the rounding of f32. Gradients and deltas are kept
/// apart. One thread.
class ErrorFeedback {
public:
    /// @param floats in a push
    explicit ErrorFeedback(std::int64_t floats) : floats_(static_cast<std::size_t>(floats)) {}

    /// A push in the making.
    struct Push {
        std::uint64_t sequence = 0;
        Work work = Work::kGradient;
        std::vector<float> before;  ///< [floats] added to the values
        std::vector<float> after;   ///< [floats] what their rounding left
    };
    /// A push begins and takes up what is kept. The reference holds until the push is decided.
    [[nodiscard]] Push& begin(std::uint64_t sequence, Work work);
    /// A push is decided; nothing happens for an unknown one.
    void decide(std::uint64_t sequence, bool applied);
    /// Decides all pushes whose outcome is known.
    void decide(const PushOutcomes& outcomes);
    /// The worker begins anew: nothing is kept.
    void clear();

    /// [floats], or empty when there is nothing: what the next push adds.
    [[nodiscard]] std::span<const float> kept(Work work) const noexcept {
        return kept_[static_cast<std::size_t>(work)];
    }

private:
    [[nodiscard]] std::vector<float> spare();

    std::size_t floats_;
    std::array<std::vector<float>, 2> kept_;  ///< by Work; empty: nothing
    std::list<Push> open_;                    ///< oldest first
    std::vector<std::vector<float>> spare_;
};

}  // namespace cohort
