#pragma once

namespace cohort {

// The target of a run, an accuracy or a loss on the test group: of anything with `target_accuracy`
// and `target_loss`, of which 0 is none.

template <class Aims>
[[nodiscard]] bool has_target(const Aims& aims) noexcept {
    return aims.target_accuracy > 0 || aims.target_loss > 0;
}

/// Whether a test result reaches it. @param slack  accuracy that may be missing, and the share of
/// the loss that it may be above
template <class Aims>
[[nodiscard]] bool reaches_target(const Aims& aims, double accuracy, double loss,
                                  double slack = 0) noexcept {
    return (aims.target_accuracy > 0 && accuracy >= aims.target_accuracy - slack) ||
           (aims.target_loss > 0 && loss <= aims.target_loss * (1 + slack));
}

}  // namespace cohort
