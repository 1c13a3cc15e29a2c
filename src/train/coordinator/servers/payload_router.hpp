#pragma once

#include <utility>
#include <vector>

#include "train/coordinator/servers/node_aggregation.hpp"
#include "train/coordinator/servers/node_cards.hpp"
#include "train/coordinator/servers/parameter_routes.hpp"
#include "train/protocol/comm_context.hpp"

namespace cohort {

/// Knows where the payloads of pushes are, on all servers or in a slot of their worker's node, and
/// over which nodes sums and parameters travel; sends orders about them there.
class PayloadRouter {
public:
    /// @param nodes  see staging_nodes  @param cards  choose the tree
    /// @param layout  of the servers at the start  @param wire  kBf16: workers are told what became
    /// of their pushes
    PayloadRouter(CommContext comm, std::vector<bool> nodes, NodeCards cards, ShardLayout layout,
                  Wire wire = Wire::kF32);

    [[nodiscard]] bool live(int worker) const { return live_.at(static_cast<std::size_t>(worker)); }
    /// Whether a worker's pushes stay on its node.
    [[nodiscard]] bool stages(int worker, const SyncPlan& plan) const {
        return nodes_.stages(worker, plan);
    }
    /// How the parameters are divided among servers.
    [[nodiscard]] const ShardLayout& layout() const noexcept { return layout_; }
    void set_layout(ShardLayout layout) { layout_ = std::move(layout); }
    /// A worker received parameters at this rate: sums may travel over another tree from now on.
    void received(int worker, double bytes_per_s);
    /// Every report is to be told, before anything else is done with its push.
    void arrived(const PushReport& report);
    /// The push is not used.
    void discard(const PushId& push);
    /// Sends an update, with the nodes' sums in place of the pushes that lie there, and with
    /// parameters over the tree.
    void send_update(FireOrder& order);
    /// Sends releases of the newest version from the servers.
    void send_releases(FireOrder order);

    /// @param incomplete  pushes of the worker that will never be complete
    /// @return complete pushes whose payloads are lost with the worker
    [[nodiscard]] std::vector<PushId> worker_lost(int worker,
                                                  const std::vector<PushId>& incomplete);
    /// After all workers were told to stop: servers wait for no sum of the worker.
    void worker_lost_at_the_end(int worker);
    void worker_joined(int worker);
    /// Tells a worker which slots it may use again, since it began anew.
    void send_frees(int worker);

private:
    void send_node_orders(const NodeAggregation::Orders& orders);
    void add_outcomes(std::vector<ReleaseOrder>& releases) const;

    CommContext comm_;
    Wire wire_;
    std::vector<PushOutcomes> outcomes_;  ///< by worker
    NodeAggregation nodes_;
    NodeCards cards_;
    ParameterRoutes routes_;
    ShardLayout layout_;
    std::vector<bool> live_;            ///< by worker
    std::vector<NodeFreeOrder> frees_;  ///< for lost workers: sent when they join
};

}  // namespace cohort
