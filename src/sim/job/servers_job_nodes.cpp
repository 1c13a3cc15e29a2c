#include <algorithm>
#include <memory>

#include "sched/plan/lease_work.hpp"
#include "sim/job/servers_job.hpp"

// Nodes whose workers' pushes stay there, and leave as one sum.
namespace cohort {

/// The first worker of each node that stages.
std::map<int, int> ServersJob::heads_of(const JobSpec& spec) {
    int nodes = 0;
    for (const std::vector<int>* some : {&spec.worker_nodes, &spec.server_nodes}) {
        nodes = std::max(nodes, 1 + *std::max_element(some->begin(), some->end()));
    }
    std::vector<NodeRanks> ranks(at(nodes));
    for (const int node : spec.worker_nodes) {
        ++ranks[at(node)].workers;
    }
    for (const int node : spec.server_nodes) {
        ++ranks[at(node)].servers;
    }
    const std::vector<bool> staging = staging_nodes(ranks, spec.node_staging, false);
    std::map<int, int> heads;
    for (int worker = 0; worker < spec.workers(); ++worker) {
        const int node = spec.worker_nodes[at(worker)];
        if (staging[at(node)]) {
            heads.try_emplace(node, worker);
        }
    }
    return heads;
}

/// The sum leaves for the servers while it is made: pushes are read, it is written.
/// @param missing  one less once it is there
void ServersJob::send_sum(int node, int pushes, const std::shared_ptr<int>& missing) {
    const double bytes = spec().workload.parameter_bytes;
    const double core_s = (pushes + 1) * bytes / cluster().profile().memory_bytes_per_s;
    const int head = heads_.at(node);
    const auto part = [this, missing, left = std::make_shared<int>(2)] {
        if (--*left == 0 && --*missing == 0) {
            for (ServerLine& server : servers_) {
                server.advance();
            }
        }
    };
    summing_.at(node).add({.core_s = core_s,
                           .begun = [this, head, part] { send_push(head, part); },
                           .done =
                               [this, head, core_s, part] {
                                   lanes().used(head, core_s, 0);
                                   part();
                               },
                           .missing = nullptr});
}

}  // namespace cohort
