#include "sim/fleet/job_needs.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include "cohort/sched/modes.hpp"
#include "cohort/sched/timing.hpp"
#include "layers/optim/update_cost.hpp"
#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

/// Seconds of one iteration of a worker, by what it does.
struct IterationSeconds {
    double input = 0;
    double forward = 0;
    double backward = 0;
    double last_backward = 0;  ///< beside which the push runs
};

IterationSeconds computing(const JobSpec& spec, const ClusterProfile& profile, int beside,
                           int steps) {
    const VirtualCluster::IterationCost cost = spec.cost_of(spec.setting.batch);
    const double cores = std::min(cost.cpu_threads, profile.cores / beside);
    const double backward = cost.device_s * cost.backward_share;
    return {.input = steps * cost.cpu_core_s / cores,
            .forward = steps * (cost.device_s - backward),
            .backward = (steps - 1) * backward,
            .last_backward = backward};
}

std::map<int, int> count_of(const std::vector<int>& nodes) {
    std::map<int, int> counts;
    for (const int node : nodes) {
        ++counts[node];
    }
    return counts;
}

/// Parameters that cross cards when every worker pushes and pulls once, in sizes of the parameters.
class Crossing {
public:
    /// @param fires  updates until every worker has pushed once
    Crossing(const JobSpec& spec, const ServersOfJob& servers, bool staged, double fires)
        : workers_(count_of(spec.worker_nodes)) {
        for (std::size_t server = 0; server < servers.nodes.size(); ++server) {
            shares_[servers.nodes[server]] += servers.shares[server];
        }
        for (const auto& [node, count] : workers_) {
            const bool sums =
                staged && (!shares_.contains(node) || spec.node_staging == NodeStaging::kOn);
            sent_[node] = sums ? std::min<double>(count, fires) : count;
            pushes_ += sent_[node];
            pulls_ += count;
        }
    }
    /// Over the busiest card, in one direction.
    [[nodiscard]] double pushed() const {
        return busiest([this](int node, double share) {
            return std::max(share * (pushes_ - at(sent_, node)), (1 - share) * at(sent_, node));
        });
    }
    [[nodiscard]] double pulled() const {
        return busiest([this](int node, double share) {
            return std::max(share * (pulls_ - at(workers_, node)),
                            (1 - share) * at(workers_, node));
        });
    }
    [[nodiscard]] double both() const {
        return busiest([this](int node, double share) {
            const double in =
                share * (pushes_ - at(sent_, node)) + (1 - share) * at(workers_, node);
            const double out =
                share * (pulls_ - at(workers_, node)) + (1 - share) * at(sent_, node);
            return std::max(in, out);
        });
    }
    /// A single push of a worker on this node.
    [[nodiscard]] double of_one(int node) const {
        double most = 1 - share_on(node);
        for (const auto& [other, share] : shares_) {
            most = std::max(most, other == node ? 0 : share);
        }
        return most;
    }
    [[nodiscard]] double share_on(int node) const { return at(shares_, node); }
    [[nodiscard]] int workers_on(int node) const { return workers_.at(node); }
    /// Mean over the workers of what leaves of a push.
    [[nodiscard]] double push_share() const { return pushes_ / pulls_; }

private:
    template <class T>
    [[nodiscard]] static double at(const std::map<int, T>& values, int node) {
        const auto found = values.find(node);
        return found == values.end() ? 0 : static_cast<double>(found->second);
    }
    template <class Load>
    [[nodiscard]] double busiest(const Load& load) const {
        double most = 0;
        for (const auto& [node, share] : shares_) {
            most = std::max(most, load(node, share));
        }
        for (const auto& [node, count] : workers_) {
            most = std::max(most, load(node, share_on(node)));
        }
        return most;
    }

    std::map<int, int> workers_;    ///< by node
    std::map<int, double> shares_;  ///< of the parameters, by node
    std::map<int, double> sent_;    ///< pushes that leave a node's workers
    double pushes_ = 0;             ///< sum of them
    double pulls_ = 0;
};

JobNeeds needs_with_servers(const JobSpec& spec, const ClusterProfile& profile,
                            const ServersOfJob& servers, const std::vector<int>& known,
                            const SyncPlan& plan) {
    const auto count = static_cast<double>(servers.shares.size());
    const std::size_t workers = spec.worker_nodes.size();
    const int steps = plan.work == Work::kDelta ? plan.local_steps : 1;
    const CohortSpec& cohort = plan.cohorts.front();
    const double fires = static_cast<double>(cohort.members.size()) / cohort.quorum;
    const bool together = cohort.quorum > 1 || workers == 1;
    const bool staged =
        spec.node_staging != NodeStaging::kOff && stages_pushes(plan, cohort.members.front());
    const Crossing crossing(spec, servers, staged, fires);
    const double bytes = spec.workload.parameter_bytes;
    const double sent = spec.wire_parameter_bytes();
    const double card_s = sent / profile.nic_bytes_per_s;
    const double passes = update_passes(spec.optimizer) + 1;  // and a copy
    const JobTraffic traffic{
        .nodes = spec.worker_nodes,
        .shares = servers.shares,
        .parameter_bytes = sent,
        .push_core_s = bytes / profile.memory_bytes_per_s,
        .update_core_s = passes * bytes / profile.memory_bytes_per_s + count * profile.update_s,
        .server_threads = profile.server_threads,
        .input_core_s = steps * spec.cost_of(spec.setting.batch).cpu_core_s,
        .input_threads = spec.workload.cpu_threads};
    const double serve_s = (cohort.quorum * traffic.push_core_s + traffic.update_core_s) *
                           std::ranges::max(servers.shares) / profile.server_threads;
    std::vector<double> own_s;
    for (const int node : spec.worker_nodes) {
        const double share = crossing.share_on(node);
        const double least_s = share * sent / profile.local_bytes_per_s;
        const double alone_s = crossing.of_one(node) * card_s;
        const double push_s =
            profile.latency_s + std::max(least_s, together ? crossing.pushed() * card_s : alone_s);
        const double pull_s =
            profile.latency_s + std::max(least_s, together ? crossing.pulled() * card_s : alone_s);
        const IterationSeconds each = computing(spec, profile, crossing.workers_on(node), steps);
        const double time_s = std::max(pull_s, serve_s) + each.input + each.forward +
                              each.backward + std::max(each.last_backward, push_s);
        const double carried_s = together || share >= 1 ? 0 : crossing.both() * card_s;
        own_s.push_back(std::max({time_s, carried_s, fires * serve_s}));
    }
    const std::vector<std::int64_t> batches(workers, steps * spec.setting.batch);
    JobNeeds needs{
        .placed = {demand_of(plan, own_s, batches, spec.reference_batch(), traffic), known}};
    needs.placed.demand.push_bytes *= crossing.push_share();
    needs.samples_s = time_plan(plan, own_s, batches, spec.reference_batch()).samples_s;
    return needs;
}

JobNeeds needs_of_ring(const JobSpec& spec, const ClusterProfile& profile, int nodes) {
    const auto workers = static_cast<double>(spec.workers());
    const double bytes = 2 * (workers - 1) / workers * spec.wire_parameter_bytes();
    std::map<int, int> out;
    for (std::size_t i = 0; i < spec.worker_nodes.size(); ++i) {
        const int node = spec.worker_nodes[i];
        out[node] += spec.worker_nodes[(i + 1) % spec.worker_nodes.size()] != node ? 1 : 0;
    }
    double crossed = 0;
    double computed_s = 0;
    const std::map<int, int> here = count_of(spec.worker_nodes);
    for (const auto& [node, count] : here) {
        crossed = std::max(crossed, static_cast<double>(out[node]));
        const IterationSeconds each = computing(spec, profile, count, 1);
        const double exchange_s = crossed * bytes / profile.nic_bytes_per_s;
        computed_s = std::max(computed_s,
                              each.input + each.forward + std::max(each.last_backward, exchange_s));
    }
    JobNeeds needs{.placed = {},
                   .ring = std::vector<NodeUse>(static_cast<std::size_t>(nodes)),
                   .samples_s = static_cast<double>(spec.reference_batch()) / computed_s};
    const double core_s = spec.cost_of(spec.setting.batch).cpu_core_s;
    for (const auto& [node, count] : here) {
        const double card = out[node] * bytes / profile.nic_bytes_per_s / computed_s;
        needs.ring[static_cast<std::size_t>(node)] = {
            .cores = count * core_s / profile.cores / computed_s, .rx = card, .tx = card};
    }
    return needs;
}

}  // namespace

JobNeeds needs_of(const JobSpec& spec, const ClusterProfile& profile, int nodes,
                  const ServersOfJob& servers, const SyncPlan& plan) {
    if (servers.shares.empty()) {
        return needs_of_ring(spec, profile, nodes);
    }
    ServersOfJob somewhere = servers;
    while (somewhere.nodes.size() < servers.shares.size()) {
        somewhere.nodes.push_back(nodes + static_cast<int>(somewhere.nodes.size()));
    }
    return needs_with_servers(spec, profile, somewhere, servers.nodes, plan);
}

}  // namespace cohort
