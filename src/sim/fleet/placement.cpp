#include "sim/fleet/placement.hpp"

#include <algorithm>
#include <numeric>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"

namespace cohort {
namespace {

/// Server s of S beside worker s*W/S: as `cohort simulate` spreads servers over a job's nodes.
std::vector<int> beside_workers(const ServersToPlace& job) {
    std::vector<int> own(job.worker_nodes.begin(), job.worker_nodes.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    std::vector<int> found;
    for (int server = 0; server < job.servers; ++server) {
        const auto index =
            static_cast<std::int64_t>(server) * static_cast<std::int64_t>(own.size()) / job.servers;
        found.push_back(own[static_cast<std::size_t>(index)]);
    }
    return found;
}

std::vector<int> fewest_servers(int servers, std::span<const FleetNode> nodes) {
    std::vector<FleetNode> state(nodes.begin(), nodes.end());
    std::vector<int> found;
    for (int server = 0; server < servers; ++server) {
        const auto least = std::ranges::min_element(state, {}, &FleetNode::servers);
        ++least->servers;
        found.push_back(static_cast<int>(least - state.begin()));
    }
    return found;
}

std::vector<int> any_node(const ServersToPlace& job, std::size_t nodes) {
    Rng random(job.seed, RngPurpose::kFleet, 0, 0);
    std::vector<int> found;
    for (int server = 0; server < job.servers; ++server) {
        found.push_back(static_cast<int>(random.next_below(static_cast<std::uint32_t>(nodes))));
    }
    return found;
}

}  // namespace

std::vector<int> place_workers(int workers, std::span<const FleetNode> nodes) {
    std::vector<int> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](int node) {
        return nodes[static_cast<std::size_t>(node)].free_devices;
    });
    std::vector<int> found;
    for (const int node : order) {
        const int left = workers - static_cast<int>(found.size());
        const int here = std::min(left, nodes[static_cast<std::size_t>(node)].free_devices);
        found.insert(found.end(), static_cast<std::size_t>(here), node);
    }
    check_invariant(static_cast<int>(found.size()) == workers, "a job that starts has devices");
    std::ranges::sort(found);
    return found;
}

std::vector<int> place_servers(ServerPlacement placement, const ServersToPlace& job,
                               std::span<const FleetNode> nodes) {
    switch (placement) {
        case ServerPlacement::kWorkers: return beside_workers(job);
        case ServerPlacement::kEven: return fewest_servers(job.servers, nodes);
        case ServerPlacement::kPacked:
            return std::vector<int>(static_cast<std::size_t>(job.servers),
                                    job.worker_nodes.front());
        case ServerPlacement::kRandom: return any_node(job, nodes.size());
    }
    return {};
}

}  // namespace cohort
