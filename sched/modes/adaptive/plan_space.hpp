#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/sched/modes.hpp"
#include "sched/cost/own_times.hpp"

namespace cohort {

/// Plans whose throughput the timing model is wrong about in the same way.
enum class PaceKind : std::uint8_t {
    kSome,  ///< an update waits for some workers, or for one
    kAll,   ///< all workers wait for all: ssgd, or the whole ring
    kLocal  ///< the same, after several local steps
};

/// A candidate: a mode, with equal batches or balanced ones.
struct PlanShape {
    std::string mode;  ///< as `--mode` writes it
    bool balanced = false;

    /// "static:4", "balanced" for ssgd or ring with balanced batches, "dynamic balanced".
    [[nodiscard]] std::string name() const;
    /// What the plan's throughput is governed by.
    [[nodiscard]] PaceKind kind() const;
    friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

/// The plan of a shape for the live workers.
struct PlanOption {
    PlanShape shape;
    SyncPlan plan;
    std::vector<std::int64_t> batches;  ///< by worker
};

/// At most 18 shapes, those with the least lag first. Servers: an update waits for X of N workers
/// (quorum:X), with X on a geometric grid from N (ssgd) to 1 (asgd). Rings: all workers are
/// members, or the slow workers are riders; the riders are fixed, so a smaller ring is useless for
/// workers whose times merely vary. Both: all wait for all after 2, 4, 8 or 16 local steps
/// (localsgd:H), where that can be rated. Plans in which members wait for all members come with
/// equal and with balanced batches.
/// @param slow  number of live workers whose level is high
/// @param local_steps  PlanRater::rates_local_steps
[[nodiscard]] std::vector<PlanShape> plan_shapes(Architecture architecture, int live, int slow,
                                                 bool local_steps);

/// @param setting  own_seconds is ignored
[[nodiscard]] PlanOption make_option(const PlanShape& shape, const ModeSetting& setting,
                                     const LoadEstimate& load);

/// By worker: own times of the workers with a place in the plan, for all local steps of a push.
/// @param batches  samples of a step
[[nodiscard]] std::vector<double> own_times_of(const SyncPlan& plan,
                                               const std::vector<std::int64_t>& batches,
                                               const LoadEstimate& load);

}  // namespace cohort
