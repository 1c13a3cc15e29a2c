#include "job_facts.hpp"

#include <algorithm>
#include <map>

#include "cohort/optim/update_cost.hpp"

namespace cohort {
namespace {

struct NodeLoad {
    int workers = 0;
    int servers = 0;
};

std::map<int, NodeLoad> loads_of(const JobSpec& spec) {
    std::map<int, NodeLoad> nodes;
    for (const int node : spec.worker_nodes) {
        ++nodes[node].workers;
    }
    for (const int node : spec.server_nodes) {
        ++nodes[node].servers;
    }
    return nodes;
}

/// Workers' worth of parameters that the busiest server's card sends in a round: parameters to
/// workers elsewhere, gradients of its own workers to servers elsewhere. It receives as much, or
/// less where nodes stage.
double busiest_card(const JobSpec& spec) {
    double most = 0;
    for (const auto& [node, load] : loads_of(spec)) {
        if (load.servers == 0) {
            continue;
        }
        const double here = static_cast<double>(load.servers) / spec.servers();
        const double out = (spec.workers() - load.workers) * here;
        const double in = load.workers * (1 - here);
        most = std::max(most, out + in);
    }
    return most;
}

}  // namespace

SharedCapacity capacity_of(const JobSpec& spec, const ClusterProfile& profile) {
    if (spec.server_nodes.empty()) {
        return {};
    }
    const double bytes = spec.workload.parameter_bytes;
    const double pass_s =
        bytes / spec.servers() / profile.memory_bytes_per_s / profile.server_threads;
    constexpr double kCopies = 1;
    return {.push_s = bytes / profile.nic_bytes_per_s * busiest_card(spec) / spec.workers(),
            .update_s = (update_passes(spec.optimizer) + kCopies) * pass_s +
                        profile.update_s / profile.server_threads,
            .add_s = pass_s};
}

JobFacts job_facts(const JobSpec& spec, const ClusterProfile& profile, double momentum,
                   double flops_per_sample) {
    return {.parameters = spec.workload.parameter_bytes / static_cast<double>(sizeof(float)),
            .parameter_bytes = spec.workload.parameter_bytes,
            .flops_per_sample = flops_per_sample,
            .learning_rate = spec.lr,
            .momentum = momentum,
            .capacity = capacity_of(spec, profile)};
}

}  // namespace cohort
