#include "sched/servers/shard_shares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Halvings of an interval after which nothing is left of it in double precision.
constexpr int kHalvings = 60;

/// Nodes with servers, as capacity_shares() sees them.
struct ServerNode {
    double speed = 0;    ///< sum of 1 / whole_s of its servers
    double workers = 0;  ///< n / (N - n); 0 where all workers are: none needs the network
    double floor = 0;    ///< least share of its servers
    double least = 0;    ///< share
    double most = 1;

    /// The shares with which it is done in time; none when least > most.
    void limit(double seconds) {
        const double done = seconds * speed;
        most = std::min(1.0, done);
        least = workers > 0 ? std::max(floor, 1 - done / workers) : floor;
    }
};

struct ServerNodes {
    std::vector<ServerNode> all;
    std::vector<std::size_t> of_server;  ///< index in `all`
};

ServerNodes nodes_of(std::span<const ServerSpeed> servers, std::span<const int> worker_nodes) {
    ServerNodes nodes;
    std::map<int, std::size_t> known;
    for (const ServerSpeed& server : servers) {
        check_invariant(server.whole_s > 0 && std::isfinite(server.whole_s),
                        "a server takes some time");
        const std::size_t index = known.try_emplace(server.node, known.size()).first->second;
        nodes.all.resize(known.size());
        nodes.all[index].speed += 1 / server.whole_s;
        nodes.all[index].floor += kLeastShare / static_cast<double>(servers.size());
        nodes.of_server.push_back(index);
    }
    std::vector<double> here(known.size(), 0);
    for (const int node : worker_nodes) {
        if (const auto found = known.find(node); found != known.end()) {
            ++here[found->second];
        }
    }
    const auto all = static_cast<double>(worker_nodes.size());
    for (std::size_t i = 0; i < here.size(); ++i) {
        nodes.all[i].workers = here[i] < all ? here[i] / (all - here[i]) : 0;
    }
    return nodes;
}

bool feasible(std::vector<ServerNode>& nodes, double seconds) {
    double least = 0;
    double most = 0;
    for (ServerNode& node : nodes) {
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
double level_of(const std::vector<ServerNode>& nodes) {
    double low = 0;
    double high = 0;
    for (const ServerNode& node : nodes) {
        high = std::max(high, 1 / node.speed);
    }
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (const ServerNode& node : nodes) {
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

double slowest_server_s(std::span<const ServerSpeed> servers, std::span<const int> worker_nodes,
                        std::span<const double> shares) {
    const ServerNodes nodes = nodes_of(servers, worker_nodes);
    std::vector<double> node_shares(nodes.all.size(), 0);
    double most_s = 0;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        node_shares[nodes.of_server[i]] += shares[i];
        most_s = std::max(most_s, shares[i] * servers[i].whole_s);
    }
    for (std::size_t i = 0; i < node_shares.size(); ++i) {
        const ServerNode& node = nodes.all[i];
        most_s = std::max(most_s, node.workers * (1 - node_shares[i]) / node.speed);
    }
    return most_s;
}

std::vector<double> capacity_shares(std::span<const ServerSpeed> servers,
                                    std::span<const int> worker_nodes) {
    check_invariant(!servers.empty(), "shares of at least one server");
    ServerNodes nodes = nodes_of(servers, worker_nodes);
    double low = 0;
    double high = slowest_server_s(servers, worker_nodes, equal_shares(servers.size()));
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = (low + high) / 2;
        (feasible(nodes.all, middle) ? high : low) = middle;
    }
    (void)feasible(nodes.all, high);
    const double level = level_of(nodes.all);
    std::vector<double> shares;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        const ServerNode& node = nodes.all[nodes.of_server[i]];
        shares.push_back(share_at(node, level) / (servers[i].whole_s * node.speed));
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
