#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/sched/modes.hpp"
#include "sched/cost/own_times.hpp"

namespace cohort {

/// A way to go on: a mode, with equal batches or balanced ones.
struct PlanShape {
    std::string mode;  ///< as `--mode` writes it
    bool balanced = false;

    /// "static:4", "balanced" for ssgd or ring with balanced batches, "dynamic balanced".
    [[nodiscard]] std::string name() const;
    /// Everybody for everybody: ssgd, or the whole ring.
    [[nodiscard]] bool waits() const;
    friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

/// A shape made for the workers there are.
struct PlanOption {
    PlanShape shape;
    SyncPlan plan;
    std::vector<std::int64_t> batches;  ///< by worker
};

/// At most 20 shapes worth a look, the freshest first. Servers: an update waits for X of N workers
/// (quorum:X), X from all of them (ssgd) on a geometric grid to one (asgd). Rings: all are members,
/// or all but the slow ones, who ride; who rides is fixed, so a ring of fewer is of no use to
/// workers that only vary. Each with equal and with balanced batches, but asgd, in which nobody
/// waits for anybody.
/// @param slow  workers whose level is high, of the live ones
[[nodiscard]] std::vector<PlanShape> plan_shapes(Architecture architecture, int live, int slow);

/// @param setting  of whom is live; own_seconds is not looked at
[[nodiscard]] PlanOption make_option(const PlanShape& shape, const ModeSetting& setting,
                                     const LoadEstimate& load);

/// By worker: own times of those who have a place in the plan, with these batches.
[[nodiscard]] std::vector<double> own_times_of(const SyncPlan& plan,
                                               const std::vector<std::int64_t>& batches,
                                               const LoadEstimate& load);

}  // namespace cohort
