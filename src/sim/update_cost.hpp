#pragma once

namespace cohort {

/// Memory traffic of an update in sizes of the parameters, besides one per gradient that is summed
/// and per copy that is made: parameters and the optimizer's state are read and written.
/// @param optimizer_slots  of the parameters' size: 1 velocity (sgd), 2 moments (adamw)
[[nodiscard]] constexpr double update_passes(int optimizer_slots) noexcept {
    return 2 + 2.0 * optimizer_slots;
}

}  // namespace cohort
