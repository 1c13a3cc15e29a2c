// Leases that the session deals: with whom they are worked on, and when computing begins.
#include <algorithm>
#include <memory>
#include <utility>

#include "sched/plan/node_staging.hpp"
#include "sim/job/servers_job.hpp"

namespace cohort {

/// Whether a lease's push stays on its node.
bool ServersJob::stages(int index) const {
    return heads_.contains(node_of(index)) && stages_pushes(engine().plan(), index);
}

/// Computing begins as soon as it is known what is to be computed on which parameters, on the cores
/// that are free.
void ServersJob::prepare(const std::vector<DealtLease>& leases) {
    for (const auto& [index, order] : leases) {
        Worker& w = worker(index);
        w.lease = add_lease(index, order).id;
        w.staged = order.staged;
    }
    for (const auto& [index, order] : leases) {
        const std::vector<std::int32_t>& members = order.work.group;
        if (!members.empty() && members.front() == index) {
            const auto group = std::make_shared<Group>();
            for (const int member : members) {
                group->members.push_back(member);
                group->nodes.push_back(node_of(member));
                worker(member).group = group;
            }
        }
    }
    for (const auto& [index, order] : leases) {
        start_learning(index);
    }
}

/// A group's first member starts for all.
void ServersJob::start_learning(int index) {
    const Worker& w = worker(index);
    if (w.group == nullptr) {
        Lease& given = lease_of(index);
        given.computed = learner().start(job_of(given, w.parameters));
    } else if (w.group->members.front() == index) {
        std::vector<Learner::Job> jobs;
        for (const int member : w.group->members) {
            jobs.push_back(job_of(lease_of(member), worker(member).parameters));
        }
        const std::vector<Learner::WorkId> works = learner().start_group(jobs);
        for (std::size_t i = 0; i < works.size(); ++i) {
            lease_of(w.group->members[i]).computed = works[i];
        }
    }
}

void ServersJob::deal(const std::vector<DealtLease>& leases) {
    for (const auto& [index, order] : leases) {
        start(index);
    }
}

bool ServersJob::may_validate(int index) const {
    const Worker& w = workers_[at(index)];
    return !w.validation && !w.validating;
}

void ServersJob::deal_validation(const ValidationSampler::Dealt& lease) {
    worker(lease.worker).validation = lease;
}

// Nodes whose workers' pushes stay there, and leave as one sum.

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

void ServerLine::add(Order order) {
    orders_.push_back(std::move(order));
    advance();
}

void ServerLine::advance() {
    const bool waits =
        work_ != 0 || orders_.empty() || (orders_.front().missing && *orders_.front().missing > 0);
    if (waits) {
        return;
    }
    begun_s_ = cluster_.queue().now();
    work_ = cluster_.serve(use_.node, orders_.front().core_s, threads_, [this] { done(); });
    if (orders_.front().begun) {
        orders_.front().begun();
    }
}

void ServerLine::done() {
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    work_ = 0;
    use_.cpu_core_s += order.core_s;
    use_.busy_s += cluster_.queue().now() - begun_s_;
    order.done();
    advance();
}

void ServerLine::clear() {
    if (work_ != 0) {
        const double left = cluster_.cancel(work_);
        use_.cpu_core_s += (1 - left) * orders_.front().core_s;
        use_.busy_s += cluster_.queue().now() - begun_s_;
    }
    work_ = 0;
    orders_.clear();
}

}  // namespace cohort
