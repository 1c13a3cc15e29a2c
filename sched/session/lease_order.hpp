#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// What to do with a lease.
struct WorkOrder {
    Work work = Work::kGradient;
    std::int32_t steps = 1;           ///< kDelta: local steps that the lease is cut into
    double lr = 0;                    ///< kDelta: of the local steps
    std::vector<std::int32_t> group;  ///< who averages gradients at every local step, the lease's
                                      ///< own worker included; empty: nobody. Workers in the
                                      ///< session, their world ranks in messages
    std::uint64_t generation = 0;  ///< of the group: its members share an exchange per generation
    auto fields() { return std::tie(work, steps, lr, group, generation); }
};

/// A lease as a slice of an epoch's order; the worker knows the order.
struct LeaseOrder {
    std::uint64_t lease = 0;
    std::uint32_t epoch = 0;
    std::int64_t position = 0;
    std::int64_t count = 0;
    WorkOrder work;
    bool validation = false;  ///< its gradient is a reference for others and is not applied
    bool staged = false;      ///< its payload stays in the memory of the node
    bool halves = false;      ///< its gradient is computed as two halves, see GradientStatistics
    auto fields() {
        return std::tie(lease, epoch, position, count, work, validation, staged, halves);
    }
};

/// A lease that has been given to a worker.
struct DealtLease {
    int worker = 0;
    LeaseOrder order;
};

}  // namespace cohort
