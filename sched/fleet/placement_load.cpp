#include "sched/fleet/placement_load.hpp"

#include <algorithm>

#include "cohort/core/error.hpp"

namespace cohort {

PlacementLoad::PlacementLoad(std::span<const NodeRoom> nodes, std::span<const PlacedJob> jobs) {
    for (const NodeRoom& node : nodes) {
        const NodeCapacity& has = node.capacity;
        check_invariant(has.cores > 0 && has.rx_bytes_s > 0 && has.tx_bytes_s > 0,
                        "a node has processors and a network card");
        capacities_.push_back(has);
        use_.push_back(node.used);
    }
    for (const PlacedJob& placed : jobs) {
        const JobDemand& demand = placed.demand;
        Job& job = jobs_.emplace_back();
        job.demand = &demand;
        job.loads.resize(nodes.size());
        job.pushing.resize(nodes.size());
        job.servers.assign(demand.shares.size(), kNowhere);
        for (const JobDemand::Worker& worker : demand.workers) {
            const auto node = static_cast<std::size_t>(worker.node);
            check_invariant(node < nodes.size(), "a worker's node exists");
            if (!job.loads[node].any) {
                job.worker_nodes.push_back(worker.node);
            }
            job.pushing[node] += worker.iterations_s;
            job.pushing_all += worker.iterations_s;
            add(job, worker.node, {.input = demand.worker_cores / capacities_[node].cores});
        }
        // As long as a server is nowhere, all that workers send it and get from it crosses.
        double shares = 0;
        for (const double share : demand.shares) {
            shares += share;
        }
        for (const int index : job.worker_nodes) {
            const auto node = static_cast<std::size_t>(index);
            add(job, index,
                {.push_out =
                     shares * demand.push_bytes * job.pushing[node] / capacities_[node].tx_bytes_s,
                 .pull_in = shares * demand.pull_bytes * job.pushing[node] /
                            capacities_[node].rx_bytes_s});
        }
        check_invariant(placed.servers.empty() || placed.servers.size() == job.servers.size(),
                        "a node for each server");
        for (std::size_t server = 0; server < placed.servers.size(); ++server) {
            check_invariant(static_cast<std::size_t>(placed.servers[server]) < nodes.size(),
                            "a server's node exists");
            job.servers[server] = placed.servers[server];
            count(job, server, placed.servers[server], 1);
        }
    }
    for (Job& job : jobs_) {
        job.waits = waits_of(job);
    }
}

void PlacementLoad::add(Job& job, int node, const Load& change) {
    const auto index = static_cast<std::size_t>(node);
    Load& load = job.loads[index];
    load.push_in += change.push_in;
    load.push_out += change.push_out;
    load.pull_in += change.pull_in;
    load.pull_out += change.pull_out;
    load.input += change.input;
    load.serving += change.serving;
    load.any = true;
    use_[index].cores += change.input + change.serving;
    use_[index].rx += change.push_in + change.pull_in;
    use_[index].tx += change.push_out + change.pull_out;
}

/// A server on a node serves workers of other nodes over the card; those beside it need the card
/// no more.
void PlacementLoad::count(Job& job, std::size_t server, int node, double sign) {
    if (node == kNowhere) {
        return;
    }
    const auto index = static_cast<std::size_t>(node);
    const NodeCapacity& has = capacities_[index];
    const double share = sign * job.demand->shares[server];
    const double push = share * job.demand->push_bytes;
    const double pull = share * job.demand->pull_bytes;
    const double here = job.pushing[index];
    const double elsewhere = job.pushing_all - here;
    add(job, node,
        {.push_in = push * elsewhere / has.rx_bytes_s,
         .push_out = -push * here / has.tx_bytes_s,
         .pull_in = -pull * here / has.rx_bytes_s,
         .pull_out = pull * elsewhere / has.tx_bytes_s,
         .serving = share * job.demand->server_cores / has.cores});
}

void PlacementLoad::move(std::size_t index, std::size_t server, int node) {
    Job& job = jobs_[index];
    const int from = job.servers[server];
    count(job, server, from, -1);
    count(job, server, node, 1);
    job.servers[server] = node;
    refresh(from, node);
}

/// The waits of all jobs that use one of two nodes.
void PlacementLoad::refresh(int first, int second) {
    const auto uses = [](const Job& job, int node) {
        return node != kNowhere && job.loads[static_cast<std::size_t>(node)].any;
    };
    for (Job& job : jobs_) {
        if (uses(job, first) || uses(job, second)) {
            job.waits = waits_of(job);
        }
    }
}

double PlacementLoad::waits_of(const Job& job) const {
    const JobDemand& demand = *job.demand;
    double push = 0;
    double pull = 0;
    double serving = 0;
    double input = 0;
    const auto look = [&](int node) {
        const auto index = static_cast<std::size_t>(node);
        const Load& own = job.loads[index];
        const double rx = std::max(0.0, use_[index].rx - own.push_in - own.pull_in);
        const double tx = std::max(0.0, use_[index].tx - own.push_out - own.pull_out);
        push = std::max({push, own.push_in * (1 + rx), own.push_out * (1 + tx)});
        pull = std::max({pull, own.pull_in * (1 + rx), own.pull_out * (1 + tx)});
    };
    for (const int node : job.worker_nodes) {
        look(node);
        const double over = use_[static_cast<std::size_t>(node)].cores - 1;
        input = std::max(input, demand.worker_cores / demand.worker_threads * over);
    }
    for (std::size_t server = 0; server < job.servers.size(); ++server) {
        if (job.servers[server] == kNowhere) {
            continue;
        }
        look(job.servers[server]);
        const auto index = static_cast<std::size_t>(job.servers[server]);
        const double busy =
            std::max(demand.shares[server] * demand.server_cores / demand.server_threads,
                     job.loads[index].serving);
        serving = std::max(serving, busy * std::max(1.0, use_[index].cores));
    }
    return push + pull + serving + input;
}

PlacementScore PlacementLoad::score() const {
    PlacementScore score;
    for (const NodeUse& use : use_) {
        score.utilisation = std::max(score.utilisation, use.largest());
        score.crossing += use.rx + use.tx;
    }
    for (const Job& job : jobs_) {
        score.waits += job.waits;
    }
    return score;
}

double PlacementLoad::squares() const {
    double sum = 0;
    for (const NodeUse& use : use_) {
        sum += use.cores * use.cores + use.rx * use.rx + use.tx * use.tx;
    }
    return sum;
}

}  // namespace cohort
