#include "train/coordinator/servers/node_aggregation.hpp"

#include <algorithm>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {

NodeAggregation::NodeAggregation(const RankMap& map, std::vector<bool> nodes)
    : map_(map),
      nodes_(std::move(nodes)),
      tree_(map.nodes()),
      live_(static_cast<std::size_t>(map.workers()), true) {
}

void NodeAggregation::use_tree(PushTree tree) {
    check_invariant(tree.nodes() == map_.nodes(), "the tree has all nodes");
    tree_ = std::move(tree);
}

int NodeAggregation::node_of(int worker) const {
    return map_.ranks.at(static_cast<std::size_t>(map_.rank_of_worker(worker))).node;
}

std::optional<int> NodeAggregation::head(int node) const {
    for (std::size_t worker = 0; worker < live_.size(); ++worker) {
        if (live_[worker] && node_of(static_cast<int>(worker)) == node) {
            return map_.rank_of_worker(static_cast<int>(worker));
        }
    }
    return std::nullopt;
}

bool NodeAggregation::stages(int worker, const SyncPlan& plan) const {
    const int node = node_of(worker);
    if (!stages_pushes(plan, worker)) {
        return false;
    }
    if (tree_.parents()[static_cast<std::size_t>(node)] != PushTree::kServers ||
        std::ranges::count(tree_.parents(), node) > 0) {
        return true;
    }
    int neighbours = 0;
    for (std::size_t other = 0; other < live_.size(); ++other) {
        neighbours += live_[other] && node_of(static_cast<int>(other)) == node ? 1 : 0;
    }
    return nodes_.at(static_cast<std::size_t>(node)) && neighbours > 1;
}

/// Who computes on a version has it from all servers: none lacks a sum for it.
void NodeAggregation::arrived(const PushReport& report) {
    if (report.slot >= 0) {
        slots_[report.ticket.id] = report.slot;
    }
    std::erase_if(sums_, [&](const Sum& sum) {
        return static_cast<std::int64_t>(sum.top.sequence) <= report.ticket.version;
    });
}

NodeAggregation::Orders NodeAggregation::split(FireOrder& order, const ShardLayout& layout) {
    Sum all;
    std::map<int, double> weights;  // by node
    std::vector<UpdateTerm> left;
    for (const UpdateTerm& term : order.update.terms) {
        const auto slot = slots_.extract(term.push);
        if (slot.empty()) {
            left.push_back(term);
        } else {
            const int node = node_of(term.push.worker);
            all.terms[node].push_back(
                {.push = term.push, .slot = slot.mapped(), .coefficient = term.coefficient});
            weights[node] += term.coefficient;
        }
    }
    const std::vector<int> route = route_of(all);
    std::map<int, Sum> sums;  // by the node that sends it to the servers
    std::map<int, double> sum_weights;
    for (auto& [node, terms] : all.terms) {
        int top = node;
        for (int to = route[static_cast<std::size_t>(node)]; to >= 0;
             to = route[static_cast<std::size_t>(top)]) {
            top = to;
        }
        sums[top].terms[node] = std::move(terms);
        sum_weights[top] += weights[node];
    }
    Orders orders;
    for (auto& [top, sum] : sums) {
        const double weight = sum_weights[top];
        for (auto& [node, terms] : sum.terms) {
            for (NodeTerm& term : terms) {
                term.coefficient = weight > 0 ? term.coefficient / weight : 0;
            }
        }
        sum.top = node_sum(top, order.update.version);
        sum.layout = layout;
        sum.work = order.update.work;
        left.push_back({.push = sum.top, .coefficient = weight});
        order_sum(std::move(sum), orders);
    }
    order.update.terms = std::move(left);
    return orders;
}

/// Way of a sum's parts over the nodes that live, without those that are lost.
std::vector<int> NodeAggregation::route_of(const Sum& sum) const {
    std::vector<bool> parts(static_cast<std::size_t>(tree_.nodes()), false);
    std::vector<bool> live(parts.size(), false);
    for (const auto& [node, terms] : sum.terms) {
        parts[static_cast<std::size_t>(node)] = true;
    }
    for (std::size_t worker = 0; worker < live_.size(); ++worker) {
        if (live_[worker]) {
            live[static_cast<std::size_t>(node_of(static_cast<int>(worker)))] = true;
        }
    }
    return tree_.route(parts, live);
}

/// When several nodes are left that would send to the servers, the first of them is head of the
/// others: servers wait for one sum.
void NodeAggregation::order_sum(Sum sum, Orders& orders) {
    std::vector<int> route = route_of(sum);
    int top = PushTree::kNobody;
    for (const int node : tree_.from_the_top()) {
        int& to = route[static_cast<std::size_t>(node)];
        if (to == PushTree::kServers && top == PushTree::kNobody) {
            top = node;
        } else if (to == PushTree::kServers) {
            to = top;
        }
    }
    if (top == PushTree::kNobody) {
        orders.gone.push_back(sum.top);
        return;
    }
    const auto id_of = [&](int node) {
        return node == top ? sum.top
                           : node_sum(node, static_cast<std::int64_t>(sum.top.sequence),
                                      sum.top.incarnation);
    };
    sum.ranks.clear();
    for (int node = 0; node < tree_.nodes(); ++node) {
        const int to = route[static_cast<std::size_t>(node)];
        if (to == PushTree::kNobody) {
            continue;
        }
        NodeSumOrder order{.sum = id_of(node),
                           .terms = {},
                           .layout = sum.layout,
                           .top = sum.top,
                           .work = sum.work};
        if (const auto terms = sum.terms.find(node); terms != sum.terms.end()) {
            order.terms = terms->second;
        }
        for (int child = 0; child < tree_.nodes(); ++child) {
            if (route[static_cast<std::size_t>(child)] == node) {
                order.inputs.push_back({.sum = id_of(child), .rank = *head(child)});
            }
        }
        if (node != top) {
            order.to = *head(to);
        }
        sum.ranks.push_back(*head(node));
        orders.sums.emplace_back(sum.ranks.back(), std::move(order));
    }
    sums_.push_back(std::move(sum));
}

std::optional<std::pair<int, NodeFreeOrder>> NodeAggregation::discard(const PushId& push) {
    const auto slot = slots_.extract(push);
    if (slot.empty()) {
        return std::nullopt;
    }
    return std::pair(map_.rank_of_worker(push.worker),
                     NodeFreeOrder{.push = push, .slot = slot.mapped()});
}

/// Those in which it had a part, and that may not be made.
std::vector<NodeAggregation::Sum> NodeAggregation::take_sums(int worker) {
    const int rank = map_.rank_of_worker(worker);
    const auto others = std::stable_partition(sums_.begin(), sums_.end(), [rank](const Sum& sum) {
        return std::ranges::count(sum.ranks, rank) == 0;
    });
    std::vector<Sum> left(others, sums_.end());
    sums_.erase(others, sums_.end());
    return left;
}

/// All parts of a sum are made again, on the way that is left.
NodeAggregation::Orders NodeAggregation::lost(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = false;
    const int node = node_of(worker);
    Orders orders;
    for (Sum& sum : take_sums(worker)) {
        ++sum.top.incarnation;
        order_sum(std::move(sum), orders);
    }
    for (const auto& [push, slot] : slots_) {
        if (node_of(push.worker) == node && !head(node)) {
            orders.stranded.push_back(push);
        }
    }
    return orders;
}

NodeAggregation::Orders NodeAggregation::lost_at_the_end(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = false;
    const int lost = map_.rank_of_worker(worker);
    Orders orders;
    for (const Sum& sum : take_sums(worker)) {
        orders.gone.push_back(sum.top);
        for (const int rank : sum.ranks) {
            if (rank != lost) {
                orders.drops.emplace_back(rank, NodeDropOrder{.top = sum.top});
            }
        }
    }
    return orders;
}

NodeAggregation::Orders NodeAggregation::joined(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = true;
    Orders orders;
    if (nodes_.at(static_cast<std::size_t>(node_of(worker))) || !tree_.flat()) {
        orders.drops.emplace_back(map_.rank_of_worker(worker), NodeDropOrder{.all = true});
    }
    return orders;
}

}  // namespace cohort
