#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/recorded/profile.hpp"
#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/fluid.hpp"
#include "sim/scenario/trace.hpp"

namespace cohort {

/// Weight of each client of the queue (EventQueue::client) where its transfers and its work on
/// processors share a resource with those of others; 1 unless set. What has begun keeps its weight.
class ClientWeights {
public:
    /// @param client >= 0  @param weight > 0
    void set(int client, double weight) {
        const auto index = static_cast<std::size_t>(client);
        weights_.resize(std::max(weights_.size(), index + 1), 1);
        weights_[index] = weight;
    }
    [[nodiscard]] double of(int client) const {
        const auto index = static_cast<std::size_t>(client);
        return index < weights_.size() ? weights_[index] : 1;
    }

private:
    std::vector<double> weights_;
};

/// Nodes with processors and network cards under a virtual clock, and the scenario that slows them
/// down. Jobs share it. Knows nothing of modes, parameters or gradients.
class VirtualCluster {
public:
    using Action = EventQueue::Action;
    /// Somewhere a worker of the first job computes, or one of another job; index as in traces for
    /// those made first.
    using PlaceId = int;
    /// A step of work in progress; 0: none.
    using WorkId = std::uint64_t;

    /// What a worker does before it pushes: wait `delay`, then cpu work, then forward and backward
    /// on its device.
    struct IterationCost {
        double cpu_core_s = 0;
        double cpu_threads = 1;
        double device_s = 0;
        double backward_share = 0;
    };
    /// What the trace says of a node now, for all who are there; bytes and core seconds so far.
    struct NodeState {
        Shares shares;
        double rx_bytes = 0;
        double tx_bytes = 0;
        double cpu_core_s = 0;
    };

    /// @param scenario may be null: nothing slows anything down
    /// @param weights outlive it; null: all are 1
    VirtualCluster(EventQueue& queue, const ClusterProfile& profile, int nodes,
                   std::unique_ptr<Scenario> scenario, const ClientWeights* weights = nullptr);
    VirtualCluster(const VirtualCluster&) = delete;
    VirtualCluster& operator=(const VirtualCluster&) = delete;
    ~VirtualCluster();

    [[nodiscard]] EventQueue& queue() noexcept;
    [[nodiscard]] const ClusterProfile& profile() const noexcept;
    [[nodiscard]] int nodes() const noexcept;

    PlaceId add_place(int node);
    /// The place is not used any more; what computes there is given up. Another place may get its
    /// id.
    void remove_place(PlaceId place);
    /// Forgets what was made for transfers to or from several nodes and not used since the last
    /// call. @return sets of nodes that are remembered
    std::size_t forget_unused();
    /// Called when a job arrives; without it arrivals are ignored. To be set before start().
    void on_arrival(std::function<void(const JobArrival&)> arrival);
    /// Shares of time 0 are in force from then on; rows of the scenario follow.
    void start();

    /// Shares of a worker's iteration that begins now hold its own delay as well. @param moment
    /// reference batches that its job has done
    void begin_iteration(PlaceId place, std::int64_t moment);
    /// A worker's iteration. @param backward called when backward begins, while it goes on; may be
    /// empty  @param done when all is computed
    WorkId compute(PlaceId place, const IterationCost& cost, Action backward, Action done);
    /// A worker's work that is no iteration and knows no delay: on processors, then on the device.
    WorkId work(PlaceId place, const IterationCost& cost, Action done);
    /// Between two nodes: the latency, then bytes over both network cards; within a node: bytes at
    /// the local rate. @param bytes >= 0
    WorkId send(int from_node, int to_node, double bytes, Action done) {
        return scatter(from_node, {to_node}, bytes, std::move(done));
    }
    /// The nodes at one end of a transfer, and the part of it that each of them has: shares whose
    /// sum is 1; empty: equal ones.
    struct Parts {
        Parts(std::vector<int> all, std::vector<double> of_each = {})
            : nodes(std::move(all)), shares(std::move(of_each)) {}
        Parts(std::initializer_list<int> all) : nodes(all) {}

        std::vector<int> nodes;
        std::vector<double> shares;
        friend auto operator<=>(const Parts&, const Parts&) = default;
    };
    /// The same to or from several nodes at once, `bytes` in all, in parts that keep pace: one push
    /// to all servers, or a pull from them.
    WorkId scatter(int from_node, const Parts& to, double bytes, Action done);
    WorkId gather(const Parts& from, int to_node, double bytes, Action done);
    /// A ring all-reduce over members on these nodes (one entry per member, in ring order):
    /// 2 (n-1)/n bytes over every link between nodes, all at the pace of the slowest, 2 (n-1)
    /// latencies.
    WorkId all_reduce(const std::vector<int>& nodes, double bytes, Action done);
    /// Core seconds of a server on a node.
    WorkId serve(int node, double core_s, double threads, Action done);
    /// Gives up; nothing happens when it is over. @return the share that was left, 0..1
    double cancel(WorkId work);
    /// Gives up all that a client of the queue has under way (EventQueue::client).
    void cancel_all(int client);

    /// What the trace says now, its node's share included.
    [[nodiscard]] Shares shares(PlaceId place) const;
    [[nodiscard]] NodeState node(int node) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
