#pragma once

#include <cstddef>
#include <vector>

#include "sim/cluster/cluster.hpp"

namespace cohort {

/// An all-reduce over what some members compute: it begins when the last one's part begins to
/// leave, and the sum is over when it and all members' computations are.
class VirtualSum {
public:
    using Action = VirtualCluster::Action;

    /// @param nodes of the members, in ring order  @param over called once, by an event
    VirtualSum(VirtualCluster& cluster, std::vector<int> nodes, double bytes, Action over);
    VirtualSum(const VirtualSum&) = delete;
    VirtualSum& operator=(const VirtualSum&) = delete;
    /// What is in progress is cancelled.
    ~VirtualSum();

    /// One more member's part begins to leave.
    void begun();
    /// One more member has computed; begun() came before.
    void done();
    /// Bytes that each member sends and receives.
    [[nodiscard]] double bytes_of_a_member() const noexcept;
    /// How long they were in flight; 0: a member alone, or not over.
    [[nodiscard]] double moving_s() const noexcept { return moving_s_; }

private:
    void arrived();

    VirtualCluster& cluster_;
    std::vector<int> nodes_;
    double bytes_;
    Action over_;
    std::size_t begun_ = 0;
    std::size_t done_ = 0;
    bool reduced_ = false;
    double moving_s_ = 0;
    VirtualCluster::WorkId work_ = 0;
    EventQueue::Id event_ = 0;
};

}  // namespace cohort
