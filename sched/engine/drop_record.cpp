#include "cohort/sched/drop_record.hpp"

#include <algorithm>

namespace cohort {

void DropRecord::dropped(std::int64_t updates) {
    ++total;
    ++in_a_row;
    const std::int64_t now = steps(updates);
    recent.push_back(now);
    std::erase_if(recent, [now](std::int64_t at) { return at <= now - kWindow; });
}

std::int64_t DropRecord::in_window(std::int64_t updates) const noexcept {
    const std::int64_t begin = steps(updates) - kWindow;
    return std::ranges::count_if(recent, [begin](std::int64_t at) { return at > begin; });
}

bool DropRecord::diverged(std::int64_t updates) const noexcept {
    return in_a_row >= kMostInARow || in_window(updates) >= kMostInWindow;
}

}  // namespace cohort
