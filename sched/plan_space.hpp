#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cohort/sched/modes.hpp"
#include "cohort/sched/timing.hpp"
#include "worker_costs.hpp"

namespace cohort {

/// What workers and servers are expected to need, for whatever plan comes.
struct LoadEstimate {
    std::vector<CostLine> work;      ///< by worker: input and computing; seconds at b > 0 for
                                     ///< those who are live
    std::vector<double> transfer_s;  ///< by worker: push and pull when nobody else sends
    double crowd_s = 0;              ///< that transfers take longer because of others
    SharedCapacity capacity;         ///< as far as it may bind

    /// Time of a mini-batch with its transfers.
    [[nodiscard]] double own_s(std::size_t worker, std::int64_t samples) const;
};

/// A way to go on: a mode, with equal batches or balanced ones.
struct PlanShape {
    std::string mode;  ///< as `--mode` writes it
    bool balanced = false;

    /// "static:4", "balanced" for ssgd or ring with balanced batches, "dynamic balanced".
    [[nodiscard]] std::string name() const;
    /// "static" of "static:4".
    [[nodiscard]] std::string family() const;
    friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

/// A shape made for the workers there are.
struct PlanOption {
    PlanShape shape;
    SyncPlan plan;
    std::vector<std::int64_t> batches;  ///< by worker
};

/// At most 20 shapes worth a look, the freshest first: one cohort of all, equal and balanced;
/// quorums and rings on a geometric grid; groups, equal and balanced; backup workers; nobody waits,
/// with a bound on the lag and without.
/// @param stragglers  workers that are slow, of the live ones
[[nodiscard]] std::vector<PlanShape> plan_shapes(Architecture architecture, int live,
                                                 int stragglers);

/// @param setting  of whom is live; own_seconds is not looked at
[[nodiscard]] PlanOption make_option(const PlanShape& shape, const ModeSetting& setting,
                                     const LoadEstimate& load);

/// By worker: own times under a plan.
[[nodiscard]] std::vector<double> own_times_of(const PlanOption& option, const LoadEstimate& load);

}  // namespace cohort
