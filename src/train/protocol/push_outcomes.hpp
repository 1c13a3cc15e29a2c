#pragma once

#include <cstdint>
#include <tuple>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// What became of a worker's last 64 pushes, as far as the coordinator has decided. Told with
/// parameters where workers keep what was rounded away of their pushes (Wire::kBf16).
struct PushOutcomes {
    std::uint32_t incarnation = 0;  ///< of the worker
    std::uint64_t newest = 0;       ///< sequence of the newest push that is decided; 0: none
    std::uint64_t decided = 0;      ///< bit i: the push `newest` - i
    std::uint64_t applied = 0;      ///< the same

    enum class Outcome : std::uint8_t { kOpen, kApplied, kNotUsed };

    /// A push is decided. Those of older incarnations count no more.
    void note(const PushId& push, bool is_applied) noexcept;
    [[nodiscard]] Outcome of(std::uint64_t sequence) const noexcept;
    auto fields() { return std::tie(incarnation, newest, decided, applied); }
};

}  // namespace cohort
