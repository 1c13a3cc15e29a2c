#include <algorithm>
#include <utility>

#include "sched/plan/lease_work.hpp"
#include "sim/job/servers_job.hpp"

// Leases that the session deals: with whom they are worked on, and when computing begins.
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

}  // namespace cohort
