#include "sched/servers/shard_shares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Halvings of an interval after which nothing is left of it in double precision.
constexpr int kHalvings = 100;

/// Nodes with servers, as capacity_shares() sees them.
struct ServerNode {
    double speed = 0;    ///< sum of 1 / whole_s of its servers
    double workers = 0;  ///< n / (N - n); negative: all workers are here
    double floor = 0;    ///< least share of its servers
    double least = 0;    ///< share
    double most = 1;

    [[nodiscard]] double seconds(double share) const {
        return workers < 0 ? 0 : std::max(share, workers * (1 - share)) / speed;
    }
    /// The shares with which it is done in time; none when least > most.
    void limit(double seconds) {
        const double done = seconds * speed;
        most = workers < 0 ? 1 : std::min(1.0, done);
        least = workers > 0 ? std::max(floor, 1 - done / workers) : floor;
    }
};

std::map<int, ServerNode> nodes_of(std::span<const ServerSpeed> servers,
                                   std::span<const int> worker_nodes) {
    std::map<int, ServerNode> nodes;
    for (const ServerSpeed& server : servers) {
        check_invariant(server.whole_s > 0 && std::isfinite(server.whole_s),
                        "a server takes some time");
        nodes[server.node].speed += 1 / server.whole_s;
        nodes[server.node].floor += kLeastShare / static_cast<double>(servers.size());
    }
    const auto all = static_cast<double>(worker_nodes.size());
    for (auto& [node, one] : nodes) {
        const auto here = static_cast<double>(std::ranges::count(worker_nodes, node));
        one.workers = here < all ? here / (all - here) : here > 0 ? -1 : 0;
    }
    return nodes;
}

bool feasible(std::map<int, ServerNode>& nodes, double seconds) {
    double least = 0;
    double most = 0;
    for (auto& [index, node] : nodes) {
        node.limit(seconds);
        if (node.least > node.most) {
            return false;
        }
        least += node.least;
        most += node.most;
    }
    return least <= 1 && most >= 1;
}

double share_at(const ServerNode& node, double level) {
    return std::clamp(level * node.speed, node.least, node.most);
}

/// The level at which the nodes' shares add up to 1.
double level_of(const std::map<int, ServerNode>& nodes) {
    double low = 0;
    double high = 0;
    for (const auto& [index, node] : nodes) {
        high = std::max(high, 1 / node.speed);
    }
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (const auto& [index, node] : nodes) {
            sum += share_at(node, middle);
        }
        (sum < 1 ? low : high) = middle;
    }
    return high;
}

}  // namespace

std::vector<double> equal_shares(std::size_t servers) {
    return std::vector<double>(servers, 1 / static_cast<double>(servers));
}

double slowest_node_s(std::span<const ServerSpeed> servers, std::span<const int> worker_nodes,
                      std::span<const double> shares) {
    std::map<int, ServerNode> nodes = nodes_of(servers, worker_nodes);
    std::map<int, double> node_shares;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        node_shares[servers[i].node] += shares[i];
    }
    double most_s = 0;
    for (const auto& [index, node] : nodes) {
        most_s = std::max(most_s, node.seconds(node_shares[index]));
    }
    return most_s;
}

std::vector<double> capacity_shares(std::span<const ServerSpeed> servers,
                                    std::span<const int> worker_nodes) {
    check_invariant(!servers.empty(), "shares of at least one server");
    std::map<int, ServerNode> nodes = nodes_of(servers, worker_nodes);
    double low = 0;
    double high = slowest_node_s(servers, worker_nodes, equal_shares(servers.size()));
    for (int i = 0; i < kHalvings && high > 0; ++i) {
        const double middle = (low + high) / 2;
        (feasible(nodes, middle) ? high : low) = middle;
    }
    (void)feasible(nodes, high);
    const double level = level_of(nodes);
    std::vector<double> shares;
    for (const ServerSpeed& server : servers) {
        const ServerNode& node = nodes.at(server.node);
        shares.push_back(share_at(node, level) / (server.whole_s * node.speed));
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) {
        share /= sum;
    }
    return shares;
}

std::vector<std::int64_t> cut_by_shares(std::int64_t units, std::span<const double> shares) {
    const auto servers = static_cast<std::int64_t>(shares.size());
    check_invariant(servers > 0 && units >= servers, "a unit for each server");
    check_invariant(std::ranges::all_of(shares, [](double share) { return share > 0; }),
                    "each server has a share");
    const bool equal = std::ranges::all_of(shares, [&](double one) { return one == shares[0]; });
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<std::int64_t> cuts{0};
    double before = 0;
    for (std::int64_t i = 1; i < servers; ++i) {
        before += shares[static_cast<std::size_t>(i - 1)];
        const std::int64_t cut =
            equal ? units * i / servers : std::llround(before / sum * static_cast<double>(units));
        cuts.push_back(std::clamp(cut, cuts.back() + 1, units - (servers - i)));
    }
    cuts.push_back(units);
    return cuts;
}

std::vector<ShardMove> moves_between(std::span<const double> before,
                                     std::span<const double> after) {
    check_invariant(before.size() == after.size(), "the same servers before and after");
    std::vector<ShardMove> moves;
    std::size_t from = 0;
    std::size_t to = 0;
    while (from + 1 < before.size() && to + 1 < after.size()) {
        const double begin = std::max(before[from], after[to]);
        const double end = std::min(before[from + 1], after[to + 1]);
        if (from != to && end > begin) {
            moves.push_back({.from = static_cast<int>(from),
                             .to = static_cast<int>(to),
                             .begin = begin,
                             .end = end});
        }
        ++(before[from + 1] <= after[to + 1] ? from : to);
    }
    return moves;
}

}  // namespace cohort
