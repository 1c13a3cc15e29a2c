#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace cohort {

/// Counts mini-batches and rounds that were dropped because their numbers were not finite, with the
/// rule by which such drops end a run. A step is an update or a drop; a round of a ring is one
/// step, whatever the number of its members.
struct DropRecord {
    static constexpr std::int64_t kMostInARow = 5;
    /// Among the last kWindow steps.
    static constexpr std::int64_t kMostInWindow = 20;
    static constexpr std::int64_t kWindow = 100;

    std::int64_t in_a_row = 0;         ///< since the last update
    std::int64_t total = 0;            ///< of the run
    std::vector<std::int64_t> recent;  ///< steps at each drop in the window, itself included

    /// Counts a drop. @param updates  of the run so far, here and below
    void dropped(std::int64_t updates) {
        ++total;
        ++in_a_row;
        const std::int64_t now = steps(updates);
        recent.push_back(now);
        std::erase_if(recent, [now](std::int64_t at) { return at <= now - kWindow; });
    }
    void updated() noexcept { in_a_row = 0; }
    [[nodiscard]] std::int64_t steps(std::int64_t updates) const noexcept {
        return updates + total;
    }
    /// Drops among the last kWindow steps.
    [[nodiscard]] std::int64_t in_window(std::int64_t updates) const noexcept {
        const std::int64_t begin = steps(updates) - kWindow;
        return std::ranges::count_if(recent, [begin](std::int64_t at) { return at > begin; });
    }
    /// So many numbers are not finite that the run must end.
    [[nodiscard]] bool diverged(std::int64_t updates) const noexcept {
        return in_a_row >= kMostInARow || in_window(updates) >= kMostInWindow;
    }
    auto fields() { return std::tie(in_a_row, total, recent); }
};

}  // namespace cohort
