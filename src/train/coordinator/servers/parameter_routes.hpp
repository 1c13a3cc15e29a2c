#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "sched/plan/push_tree.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Which workers get parameters from other workers, over the push tree, and who may lack some when
/// a worker on their way is lost. Pure.
class ParameterRoutes {
public:
    ParameterRoutes(const RankMap& map, PushTree tree) : map_(map), tree_(std::move(tree)) {}

    /// Parameters of the updates that follow travel over this tree.
    void use_tree(PushTree tree) { tree_ = std::move(tree); }
    /// Puts stops in place of releases: of two workers or more with the same look-ahead, without an
    /// evaluation. What delay compensation compares with is sent straight. A node's parameters go
    /// to its first released worker, or to its first live one.
    /// @param order  an update  @param live  by worker
    void split(FireOrder& order, const std::vector<bool>& live);
    /// A worker has pushed: it has the parameters of that version.
    void arrived(const PushTicket& ticket);
    /// A worker is sent other parameters, after all those before.
    void released(int worker) { coming_.erase(worker); }
    /// The order to send parameters straight to those who may lack them now; without releases when
    /// there are none.
    [[nodiscard]] FireOrder lost(int worker);

private:
    /// Parameters that are passed on to a worker, and may not be there.
    struct Coming {
        std::int64_t version = 0;
        ReleaseOrder release;
        std::vector<int> ranks;  ///< that they pass
    };
    [[nodiscard]] int node_of(int worker) const;
    [[nodiscard]] std::vector<ReleaseOrder> add_stops(FireOrder& order,
                                                      const std::vector<ReleaseOrder>& releases,
                                                      const std::vector<bool>& live);

    const RankMap& map_;
    PushTree tree_;
    std::map<int, Coming> coming_;  ///< by worker: the newest
    std::int64_t version_ = 0;      ///< of the newest update
    double lr_ = 0;                 ///< the same
};

}  // namespace cohort
