#include "train/coordinator/servers/node_aggregation.hpp"

#include <algorithm>

#include "sched/plan/lease_work.hpp"

namespace cohort {

NodeAggregation::NodeAggregation(const RankMap& map, std::vector<bool> nodes)
    : map_(map), nodes_(std::move(nodes)), live_(static_cast<std::size_t>(map.workers()), true) {
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
    if (!nodes_.at(static_cast<std::size_t>(node)) || !stages_pushes(plan, worker)) {
        return false;
    }
    int neighbours = 0;
    for (std::size_t other = 0; other < live_.size(); ++other) {
        neighbours += live_[other] && node_of(static_cast<int>(other)) == node ? 1 : 0;
    }
    return neighbours > 1;
}

/// Who computes on a version has it from all servers: none lacks a sum for it.
void NodeAggregation::arrived(const PushReport& ticket) {
    if (ticket.slot >= 0) {
        slots_[ticket.push] = ticket.slot;
    }
    std::erase_if(sums_, [&](const Sum& sum) {
        return static_cast<std::int64_t>(sum.order.sum.sequence) <= ticket.version;
    });
}

NodeAggregation::Orders NodeAggregation::split(FireOrder& order, const ShardLayout& layout) {
    std::map<int, NodeSumOrder> parts;  // by node
    std::vector<WeightedPush> pushes;
    for (const WeightedPush& push : order.pushes) {
        const auto slot = slots_.extract(push.push);
        if (slot.empty()) {
            pushes.push_back(push);
        } else {
            parts[node_of(push.push.worker)].terms.push_back(
                {.push = push.push, .slot = slot.mapped(), .coefficient = push.coefficient});
        }
    }
    Orders orders;
    for (auto& [node, sum] : parts) {
        double weight = 0;
        for (const NodeTerm& term : sum.terms) {
            weight += term.coefficient;
        }
        for (NodeTerm& term : sum.terms) {
            term.coefficient = weight > 0 ? term.coefficient / weight : 0;
        }
        sum.sum = node_sum(node, order.version);
        sum.layout = layout;
        pushes.push_back({.push = sum.sum, .coefficient = weight, .version = 0});
        order_sum(node, std::move(sum), orders);
    }
    order.pushes = std::move(pushes);
    return orders;
}

void NodeAggregation::order_sum(int node, NodeSumOrder order, Orders& orders) {
    if (const std::optional<int> rank = head(node)) {
        sums_.push_back({*rank, order});
        orders.sums.emplace_back(*rank, std::move(order));
    } else {
        orders.gone.push_back(order.sum);
    }
}

std::optional<std::pair<int, NodeFreeOrder>> NodeAggregation::discard(const PushId& push) {
    const auto slot = slots_.extract(push);
    if (slot.empty()) {
        return std::nullopt;
    }
    return std::pair(map_.rank_of_worker(push.worker),
                     NodeFreeOrder{.push = push, .slot = slot.mapped()});
}

/// Those that it was to make and may not have made.
std::vector<NodeAggregation::Sum> NodeAggregation::take_sums(int worker) {
    const int rank = map_.rank_of_worker(worker);
    const auto others = std::stable_partition(sums_.begin(), sums_.end(),
                                              [rank](const Sum& sum) { return sum.rank != rank; });
    std::vector<Sum> left(others, sums_.end());
    sums_.erase(others, sums_.end());
    return left;
}

NodeAggregation::Orders NodeAggregation::lost(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = false;
    const int node = node_of(worker);
    Orders orders;
    for (Sum& sum : take_sums(worker)) {
        ++sum.order.sum.incarnation;
        order_sum(node, std::move(sum.order), orders);
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
    Orders orders;
    for (const Sum& sum : take_sums(worker)) {
        orders.gone.push_back(sum.order.sum);
    }
    return orders;
}

void NodeAggregation::joined(int worker) {
    live_.at(static_cast<std::size_t>(worker)) = true;
}

}  // namespace cohort
