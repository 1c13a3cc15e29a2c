#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// How gradients travel.
enum class Architecture : std::uint8_t { kServers, kRing };

/// "servers" or "ring". Errors: UsageError.
[[nodiscard]] Architecture parse_architecture(std::string_view text);

/// What workers get whose pushes lag behind, for momentum's sake.
enum class StaleMomentum : std::uint8_t {
    kLookAhead,  ///< the parameters that the servers will have after the worker's lag
    kKeep        ///< the parameters as they are
};

/// "look-ahead" or "keep". Errors: UsageError.
[[nodiscard]] StaleMomentum parse_stale_momentum(std::string_view text);

/// The plan that `--mode` names ("ssgd", "asgd", "static:4", "ring") over workers 0..n-1.
/// Errors: UsageError for an unknown name, a parameter out of range, or a mode that the
/// architecture cannot run, each with what is possible.
[[nodiscard]] SyncPlan make_plan(std::string_view mode, Architecture architecture, int workers,
                                 StaleMomentum stale_momentum = StaleMomentum::kLookAhead);

/// The mode for an architecture when none is named: "ring" or "ssgd".
[[nodiscard]] std::string default_mode(Architecture architecture);

/// Names with their parameters, for help texts: "static:X".
[[nodiscard]] std::vector<std::string> mode_names(Architecture architecture);

/// True when every update waits for all workers, so that all hold the same parameters after it.
[[nodiscard]] bool is_synchronous(const SyncPlan& plan, int workers);

}  // namespace cohort
