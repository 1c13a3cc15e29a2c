#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "sched/plan/push_tree.hpp"

namespace cohort {

/// The tree of a real job (--push-tree), by how fast its nodes receive. A card's spare rate is the
/// highest median of the nodes' rates so far (several that receive from one sender at once see a
/// part of it each), times the node's rate over the present median where that is below 1. Pure.
class NodeCards {
public:
    static constexpr double kUnknown = 1.177e9;  ///< bytes/s before all have reported: 10 Gbit/s
    static constexpr double kMemory = 1e10;      ///< bytes/s that a thread moves
    static constexpr double kLatency = 5e-5;     ///< seconds

    /// @param option  as parse_push_tree reads it  @param bytes  of a push
    /// Errors: UsageError for groups that the job's nodes cannot form.
    NodeCards(const RankMap& map, std::string_view option, double bytes);

    [[nodiscard]] const PushTree& tree() const noexcept { return tree_; }
    /// A worker received parameters at this rate. Looks at the cards once all workers have reported
    /// on average. @return whether tree() is another one now
    bool received(int worker, double bytes_per_s);

private:
    void plan();

    const RankMap& map_;
    PushTree tree_;
    bool automatic_ = false;
    PushTreePlanner planner_;
    TreeCosts costs_;
    std::vector<double> rates_;  ///< by worker, bytes/s; 0: not known
    int reports_ = 0;            ///< since the cards were looked at
    double card_ = 0;            ///< highest median so far, bytes/s
};

}  // namespace cohort
