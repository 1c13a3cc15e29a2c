#include "train/coordinator/servers/node_cards.hpp"

#include <algorithm>

namespace cohort {

NodeCards::NodeCards(const RankMap& map, std::string_view option, double bytes)
    : map_(map), rates_(static_cast<std::size_t>(map.workers()), 0) {
    const PushTreeChoice choice = parse_push_tree(option);
    automatic_ = choice.kind == PushTreeChoice::Kind::kAuto && map.servers > 0;
    costs_ = {.nodes = std::vector<TreeCosts::Node>(static_cast<std::size_t>(map.nodes()),
                                                    {.up = kUnknown, .down = kUnknown}),
              .bytes = bytes,
              .latency_s = kLatency,
              .sum_s = bytes / kMemory,
              .server_sum_s = bytes / kMemory / std::max(map.servers, 1)};
    std::vector<int> workers(costs_.nodes.size(), 0);
    for (const RankInfo& one : map.ranks) {
        const auto node = static_cast<std::size_t>(one.node);
        ++(one.rank < map.servers ? costs_.nodes[node].servers : costs_.nodes[node].workers);
        workers[node] = costs_.nodes[node].workers;
    }
    costs_.local_s = bytes / kMemory * std::ranges::max(workers);
    tree_ = tree_of_groups(choice, workers);
    if (automatic_) {
        plan();
    }
}

void NodeCards::plan() {
    if (planner_.update(costs_)) {
        tree_ = planner_.tree();
    }
}

bool NodeCards::received(int worker, double bytes_per_s) {
    if (!automatic_ || !(bytes_per_s > 0)) {
        return false;
    }
    rates_.at(static_cast<std::size_t>(worker)) = bytes_per_s;
    if (++reports_ < map_.workers()) {
        return false;
    }
    reports_ = 0;
    std::vector<double> nodes(costs_.nodes.size(), 0);
    for (std::size_t one = 0; one < rates_.size(); ++one) {
        const int rank = map_.rank_of_worker(static_cast<int>(one));
        double& node =
            nodes[static_cast<std::size_t>(map_.ranks[static_cast<std::size_t>(rank)].node)];
        node = std::max(node, rates_[one]);
    }
    std::vector<double> known = nodes;
    std::erase(known, 0);
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::ranges::nth_element(known, middle);
    card_ = std::max(card_, *middle);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        const double share = nodes[node] > 0 ? std::min(nodes[node] / *middle, 1.0) : 1;
        costs_.nodes[node].up = costs_.nodes[node].down = card_ * share;
    }
    const PushTree before = tree_;
    plan();
    return tree_ != before;
}

}  // namespace cohort
