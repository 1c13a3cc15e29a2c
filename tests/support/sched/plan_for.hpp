#pragma once

#include <string_view>

#include "cohort/sched/modes.hpp"

namespace cohort::test {

/// The plan of a mode over workers 0..workers-1, all live, 1 sample a push.
inline SyncPlan plan_for(std::string_view mode, Architecture architecture, int workers,
                         StaleMomentum stale_momentum = StaleMomentum::kLookAhead) {
    return make_plan(mode, {.architecture = architecture,
                            .live = std::vector<bool>(static_cast<std::size_t>(workers), true),
                            .stale_momentum = stale_momentum});
}

}  // namespace cohort::test
