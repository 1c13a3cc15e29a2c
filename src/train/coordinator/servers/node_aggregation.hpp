#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "sched/plan/push_tree.hpp"
#include "train/protocol/protocol_node.hpp"

namespace cohort {

/// The coordinator's side of node staging: which pushes lie in which slots, who sums them, and over
/// which nodes the sums travel. Pure.
class NodeAggregation {
public:
    /// What is to be sent: orders to ranks (Port::kNode), and sums that nobody can make any more,
    /// to be discarded on all servers.
    struct Orders {
        std::vector<std::pair<int, NodeSumOrder>> sums;    ///< by world rank
        std::vector<std::pair<int, NodeDropOrder>> drops;  ///< the same; before the sums
        std::vector<PushId> gone;
        std::vector<PushId> stranded;  ///< in no update yet, and nobody can sum them
    };

    /// @param nodes see staging_nodes
    NodeAggregation(const RankMap& map, std::vector<bool> nodes);

    /// Sums of the updates that follow travel over this tree. @param tree  of all nodes of the job
    void use_tree(PushTree tree);
    /// Whether a lease's payload should stay on its worker's node: where several workers of it live
    /// or the tree has other nodes beside it, and updates are made of several pushes that wait for
    /// each other. Compensated and compared gradients are needed one by one.
    [[nodiscard]] bool stages(int worker, const SyncPlan& plan) const;
    /// A push has come; every report is to be told, before anything else is done with it.
    void arrived(const PushReport& report);
    /// Puts sums into an update in place of their parts: one for each node from which servers get
    /// one, of all nodes that send to it. A sum has the weight of its parts and is their mean, so
    /// that weights mean the same on the servers.
    /// @param layout  that the sums are cut by for the servers
    [[nodiscard]] Orders split(FireOrder& order, const ShardLayout& layout = {});
    /// A push is not used: what to tell which rank, when it lies in a slot.
    [[nodiscard]] std::optional<std::pair<int, NodeFreeOrder>> discard(const PushId& push);
    /// Others make the sums that the worker may not have made. What it had pushed stays, unless it
    /// was the last worker of its node.
    [[nodiscard]] Orders lost(int worker);
    /// The same when the workers have been told to stop: nobody makes its sums.
    [[nodiscard]] Orders lost_at_the_end(int worker);
    [[nodiscard]] Orders joined(int worker);

private:
    /// A sum that servers get, and those that become part of it.
    struct Sum {
        PushId top;
        std::map<int, std::vector<NodeTerm>> terms;  ///< by node
        std::vector<int> ranks;                      ///< that make them
        ShardLayout layout;                          ///< of the servers
        Work work = Work::kGradient;
    };
    [[nodiscard]] int node_of(int worker) const;
    /// World rank of the node's first live worker; nothing when there is none.
    [[nodiscard]] std::optional<int> head(int node) const;
    [[nodiscard]] std::vector<int> route_of(const Sum& sum) const;
    [[nodiscard]] std::vector<Sum> take_sums(int worker);
    void order_sum(Sum sum, Orders& orders);

    const RankMap& map_;
    std::vector<bool> nodes_;
    PushTree tree_;
    std::vector<bool> live_;                ///< by worker
    std::map<PushId, std::int32_t> slots_;  ///< of pushes in no update yet
    std::vector<Sum> sums_;                 ///< that a server may lack
};

}  // namespace cohort
