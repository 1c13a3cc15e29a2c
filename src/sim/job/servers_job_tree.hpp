#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "sched/plan/lease_work.hpp"
#include "sched/plan/push_tree.hpp"
#include "sim/job/servers_job.hpp"
#include "sim/job/servers_job_line.hpp"
#include "sim/job/servers_job_work.hpp"

namespace cohort {

/// The way of sums from nodes to servers, and of parameters back: over the tree in use, which the
/// cards of the moment decide; flat without --push-tree. Pieces of an update follow each other: a
/// node sends one while it sums it, and begins the next one when both are done.
class ServersJob::Tree {
public:
    explicit Tree(ServersJob& job) : job_(job), workers_(nodes(), 0), first_(nodes(), -1) {
        for (int worker = job_.workers(); worker-- > 0;) {
            const auto node = at(job_.node_of(worker));
            ++workers_[node];
            first_[node] = worker;
        }
        std::vector<NodeRanks> ranks(nodes());
        for (std::size_t node = 0; node < nodes(); ++node) {
            ranks[node].workers = workers_[node];
        }
        for (const int node : job_.spec.server_nodes) {
            ++ranks[at(node)].servers;
        }
        staging_ = staging_nodes(ranks, job_.spec.node_staging, false);
        for (std::size_t node = 0; node < nodes(); ++node) {
            if (workers_[node] > 0) {
                summing_.try_emplace(static_cast<int>(node), job_.cluster, static_cast<int>(node),
                                     1.0);
            }
        }
        fixed_ = tree_of_groups(job_.spec.push_tree, workers_);
        if (automatic()) {
            prepare_costs(ranks);
        }
        note_links();
    }

    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;
    ~Tree() {
        for (const VirtualCluster::PlaceId place : places_) {
            job_.cluster.remove_place(place);
        }
    }

    /// Pushes of the node stay there, where they are summed.
    [[nodiscard]] bool stages(int node) const { return staging_[at(node)] || linked_[at(node)]; }

    /// Looks at the cards as they are now.
    void refresh() {
        if (!automatic()) {
            return;
        }
        const double card = job_.cluster.profile().nic_bytes_per_s;
        for (std::size_t node = 0; node < nodes(); ++node) {
            const Shares shares = job_.cluster.shares(places_[node]);
            costs_.nodes[node].up = card * std::max(shares.tx, kLeastShare);
            costs_.nodes[node].down = card * std::max(shares.rx, kLeastShare);
        }
        if (planner_.update(costs_)) {
            note_links();
        }
    }

    /// Sums that servers get of an update. @param pushes  by node that has some
    [[nodiscard]] int sums_of(const std::map<int, int>& pushes) const {
        return static_cast<int>(std::ranges::count(route_of(pushes), PushTree::kServers));
    }
    /// Nodes sum an update's pushes. @param there  called for every sum that servers have got
    void send_sums(const std::map<int, int>& pushes, const VirtualCluster::Action& there) {
        const auto flow = make_flow(pushes, there);
        for (std::size_t stop = 0; stop < flow->stops.size(); ++stop) {
            send_up(flow, stop);
        }
    }

    /// Whether workers that are released together get their parameters over the tree.
    [[nodiscard]] bool brings(std::size_t released) const { return tree().down() && released > 1; }
    /// Servers send parameters once to every node. @param released  workers by node
    /// @param there  called for every worker that has all of them
    void bring(const std::map<int, std::vector<int>>& released,
               const std::function<void(int worker)>& there) {
        std::map<int, int> counts;
        for (const auto& [node, some] : released) {
            counts[node] = static_cast<int>(some.size());
        }
        const auto flow = make_flow(counts, [] {});
        flow->released = released;
        flow->there_for = there;
        for (std::size_t stop = 0; stop < flow->stops.size(); ++stop) {
            if (flow->stops[stop].next < 0) {
                fetch(flow, stop, 0);
            }
        }
    }

    [[nodiscard]] bool idle() const {
        return std::ranges::all_of(summing_, [](const auto& head) { return head.second.idle(); });
    }
    /// Gives up all that waits.
    void clear() {
        closed_ = true;
        for (auto& [node, head] : summing_) {
            head.clear();
        }
    }

private:
    static constexpr double kLeastShare = 1e-3;  ///< of a card that stands still

    /// A node on an update's way.
    struct Stop {
        int node = 0;
        int next = -1;                     ///< stop that it sends to, or gets from; -1: servers
        int terms = 0;                     ///< of its sum
        std::vector<std::size_t> before;   ///< stops that send to it
        std::vector<std::size_t> missing;  ///< by piece: stops that have not sent it
        int pieces = 0;                    ///< that it has sent
        int received = 0;                  ///< pieces, of parameters
        bool busy = false;
    };
    struct Flow {
        std::vector<Stop> stops;
        int pieces = 1;
        VirtualCluster::Action there;
        std::map<int, std::vector<int>> released;
        std::function<void(int)> there_for;
    };
    using FlowPtr = std::shared_ptr<Flow>;

    [[nodiscard]] std::size_t nodes() const {
        return static_cast<std::size_t>(job_.cluster.nodes());
    }
    [[nodiscard]] bool automatic() const {
        return job_.spec.push_tree.kind == PushTreeChoice::Kind::kAuto;
    }
    [[nodiscard]] const PushTree& tree() const { return automatic() ? planner_.tree() : fixed_; }

    void prepare_costs(const std::vector<NodeRanks>& ranks) {
        const ClusterProfile& kind = job_.cluster.profile();
        const double bytes = job_.spec.workload.parameter_bytes;
        const double sent = job_.spec.wire_parameter_bytes();
        const double shard_s = bytes / job_.spec.servers() / kind.memory_bytes_per_s;
        costs_ = {.nodes = {},
                  .bytes = sent,
                  .latency_s = kind.latency_s,
                  .sum_s = bytes / kind.memory_bytes_per_s,
                  .server_sum_s = shard_s / kind.server_threads,
                  .local_s = sent / kind.local_bytes_per_s};
        for (std::size_t node = 0; node < nodes(); ++node) {
            costs_.nodes.push_back(
                {.workers = ranks[node].workers, .servers = ranks[node].servers});
            places_.push_back(job_.cluster.add_place(static_cast<int>(node)));
        }
        refresh();
    }

    void note_links() {
        linked_.assign(nodes(), false);
        const std::vector<int>& parents = tree().parents();
        for (std::size_t node = 0; node < parents.size(); ++node) {
            if (parents[node] != PushTree::kServers) {
                linked_[node] = true;
                linked_[at(parents[node])] = true;
            }
        }
    }

    [[nodiscard]] std::vector<int> route_of(const std::map<int, int>& parts) const {
        std::vector<bool> has_part(nodes(), false);
        for (const auto& [node, count] : parts) {
            has_part[at(node)] = true;
        }
        return tree().route(has_part);
    }

    FlowPtr make_flow(const std::map<int, int>& parts, VirtualCluster::Action there) {
        auto flow = std::make_shared<Flow>();
        flow->pieces = tree().pieces();
        flow->there = std::move(there);
        const std::vector<int> route = route_of(parts);
        std::vector<int> stop_of(nodes(), -1);
        for (std::size_t node = 0; node < nodes(); ++node) {
            if (route[node] != PushTree::kNobody) {
                stop_of[node] = static_cast<int>(flow->stops.size());
                const auto part = parts.find(static_cast<int>(node));
                flow->stops.push_back({.node = static_cast<int>(node),
                                       .terms = part == parts.end() ? 0 : part->second});
            }
        }
        for (std::size_t stop = 0; stop < flow->stops.size(); ++stop) {
            const int to = route[at(flow->stops[stop].node)];
            if (to != PushTree::kServers) {
                flow->stops[stop].next = stop_of[at(to)];
                Stop& above = flow->stops[at(stop_of[at(to)])];
                above.before.push_back(stop);
                ++above.terms;
            }
        }
        for (Stop& stop : flow->stops) {
            stop.missing.assign(at(flow->pieces), stop.before.size());
        }
        return flow;
    }

    /// The next piece of a sum leaves while it is made: terms are read, it is written.
    void send_up(const FlowPtr& flow, std::size_t index) {
        Stop& stop = flow->stops[index];
        if (closed_ || stop.busy || stop.pieces == flow->pieces ||
            stop.missing[at(stop.pieces)] > 0) {
            return;
        }
        stop.busy = true;
        const double share = 1.0 / flow->pieces;
        const double core_s = (stop.terms + 1) * share * job_.spec.workload.parameter_bytes /
                              job_.cluster.profile().memory_bytes_per_s;
        const int head = first_[at(stop.node)];
        const auto part = [this, flow, index, left = std::make_shared<int>(2)] {
            if (--*left == 0) {
                sent(flow, index);
            }
        };
        const int next = stop.next < 0 ? -1 : first_[at(flow->stops[at(stop.next)].node)];
        summing_.at(stop.node).add({.core_s = core_s,
                                    .begun =
                                        [this, head, next, share, part] {
                                            if (next < 0) {
                                                job_.transfers_.push(head, part, share);
                                            } else {
                                                job_.transfers_.relay(head, next, share, part);
                                            }
                                        },
                                    .done =
                                        [this, head, core_s, part] {
                                            job_.lanes.used(head, core_s, 0);
                                            part();
                                        },
                                    .missing = nullptr});
    }

    void sent(const FlowPtr& flow, std::size_t index) {
        Stop& stop = flow->stops[index];
        stop.busy = false;
        const auto piece = at(stop.pieces++);
        if (stop.next >= 0) {
            --flow->stops[at(stop.next)].missing[piece];
            send_up(flow, at(stop.next));
        } else if (stop.pieces == flow->pieces) {
            flow->there();
        }
        send_up(flow, index);
    }

    /// Servers send a piece of the parameters to a node, then the next one.
    void fetch(const FlowPtr& flow, std::size_t index, int piece) {
        if (closed_ || piece == flow->pieces) {
            return;
        }
        job_.transfers_.pull(
            first_[at(flow->stops[index].node)],
            [this, flow, index, piece] {
                received(flow, index);
                fetch(flow, index, piece + 1);
            },
            1.0 / flow->pieces);
    }

    void received(const FlowPtr& flow, std::size_t index) {
        Stop& stop = flow->stops[index];
        ++stop.received;
        pass_on(flow, index);
        const auto released = flow->released.find(stop.node);
        if (stop.received < flow->pieces || released == flow->released.end()) {
            return;
        }
        const double bytes = job_.spec.wire_parameter_bytes() / flow->pieces;
        for (const int worker : released->second) {
            if (worker == released->second.front()) {
                flow->there_for(worker);
            } else {  // earlier pieces were copied before
                job_.cluster.send(stop.node, stop.node, bytes,
                                  [flow, worker] { flow->there_for(worker); });
            }
        }
    }

    /// A node sends its next piece of the parameters to all its children.
    void pass_on(const FlowPtr& flow, std::size_t index) {
        Stop& stop = flow->stops[index];
        if (closed_ || stop.busy || stop.before.empty() || stop.pieces == stop.received) {
            return;
        }
        stop.busy = true;
        ++stop.pieces;
        const auto left = std::make_shared<std::size_t>(stop.before.size());
        for (const std::size_t child : stop.before) {
            job_.transfers_.relay(first_[at(stop.node)], first_[at(flow->stops[child].node)],
                                  1.0 / flow->pieces, [this, flow, index, child, left] {
                                      received(flow, child);
                                      if (--*left == 0) {
                                          flow->stops[index].busy = false;
                                          pass_on(flow, index);
                                      }
                                  });
        }
    }

    ServersJob& job_;
    std::vector<int> workers_;           ///< [nodes]
    std::vector<int> first_;             ///< [nodes] worker; -1: none
    std::vector<bool> staging_;          ///< [nodes] see NodeStaging
    std::vector<bool> linked_;           ///< [nodes] has a parent or a child in the tree
    std::map<int, ServerLine> summing_;  ///< by node
    PushTree fixed_;
    PushTreePlanner planner_;
    TreeCosts costs_;
    std::vector<VirtualCluster::PlaceId> places_;  ///< [nodes]
    bool closed_ = false;
};

}  // namespace cohort
