#include "train/coordinator/servers/parameter_routes.hpp"

#include <algorithm>
#include <utility>

namespace cohort {

int ParameterRoutes::node_of(int worker) const {
    return map_.ranks.at(static_cast<std::size_t>(map_.rank_of_worker(worker))).node;
}

void ParameterRoutes::split(FireOrder& order, const std::vector<bool>& live) {
    version_ = order.update.version;
    lr_ = order.update.learning_rate;
    order.pieces = std::max(1, tree_.pieces() / std::max(1, map_.servers));
    std::map<double, std::vector<ReleaseOrder>> groups;  // by look-ahead
    std::vector<ReleaseOrder> straight;
    for (const ReleaseOrder& release : order.releases) {
        released(release.worker);
        const bool passed_on =
            tree_.down() && order.update.delay_compensation == 0 && release.evaluation.id == 0;
        (passed_on ? groups[release.lag] : straight).push_back(release);
    }
    for (const auto& [lag, releases] : groups) {
        const std::vector<ReleaseOrder> rest =
            releases.size() > 1 ? add_stops(order, releases, live) : releases;
        straight.insert(straight.end(), rest.begin(), rest.end());
    }
    order.releases = std::move(straight);
}

/// @return releases of nodes with one worker that passes nothing on
std::vector<ReleaseOrder> ParameterRoutes::add_stops(FireOrder& order,
                                                     const std::vector<ReleaseOrder>& releases,
                                                     const std::vector<bool>& live) {
    const auto nodes = static_cast<std::size_t>(tree_.nodes());
    std::vector<std::vector<ReleaseOrder>> parts(nodes);
    std::vector<int> heads(nodes, -1);  // world ranks
    for (const ReleaseOrder& release : releases) {
        parts[static_cast<std::size_t>(node_of(release.worker))].push_back(release);
    }
    for (int worker = 0; worker < map_.workers(); ++worker) {
        int& head = heads[static_cast<std::size_t>(node_of(worker))];
        if (head < 0 && live[static_cast<std::size_t>(worker)]) {
            head = map_.rank_of_worker(worker);
        }
    }
    std::vector<bool> has_part(nodes);
    std::vector<bool> is_live(nodes);
    for (std::size_t node = 0; node < nodes; ++node) {
        has_part[node] = !parts[node].empty();
        is_live[node] = heads[node] >= 0;
    }
    const std::vector<int> route = tree_.route(has_part, is_live);
    std::vector<int> stop_of(nodes, -1);
    std::vector<std::vector<int>> ranks(nodes);
    std::vector<ReleaseOrder> straight;
    for (const int at : tree_.from_the_top()) {
        const auto node = static_cast<std::size_t>(at);
        const int from = route[node];
        if (from == PushTree::kNobody) {
            continue;
        }
        const bool top = from == PushTree::kServers;
        if (top && parts[node].size() == 1 && std::ranges::count(route, at) == 0) {
            straight.push_back(parts[node].front());
            continue;
        }
        const int rank =
            has_part[node] ? map_.rank_of_worker(parts[node].front().worker) : heads[node];
        if (!top) {
            ranks[node] = ranks[static_cast<std::size_t>(from)];
        }
        ranks[node].push_back(rank);
        for (const ReleaseOrder& release : parts[node]) {
            coming_[release.worker] = {order.update.version, release, ranks[node]};
        }
        stop_of[node] = static_cast<int>(order.stops.size());
        order.stops.push_back({.rank = rank,
                               .from = top ? -1 : stop_of[static_cast<std::size_t>(from)],
                               .lag = releases.front().lag,
                               .releases = std::move(parts[node])});
    }
    return straight;
}

void ParameterRoutes::arrived(const PushTicket& ticket) {
    const auto coming = coming_.find(ticket.id.worker);
    if (coming != coming_.end() && ticket.version >= coming->second.version) {
        coming_.erase(coming);
    }
}

FireOrder ParameterRoutes::lost(int worker) {
    released(worker);
    const int rank = map_.rank_of_worker(worker);
    FireOrder order;
    order.update = {.version = version_, .learning_rate = lr_};
    std::erase_if(coming_, [&](const auto& one) {
        const bool passes = std::ranges::count(one.second.ranks, rank) > 0;
        if (passes) {
            order.releases.push_back(one.second.release);
            order.releases.back().again = one.second.version;
        }
        return passes;
    });
    return order;
}

}  // namespace cohort
