#include "sim/fleet/fleet_room.hpp"

#include <utility>

#include "sched/servers/shard_shares.hpp"

namespace cohort {

FleetRoom::FleetRoom(const FleetPlan& plan, const ClusterProfile& profile, VirtualCluster& cluster)
    : plan_(plan),
      profile_(profile),
      cluster_(cluster),
      review_(plan.make_room, std::vector<NodeCapacity>(static_cast<std::size_t>(plan.nodes),
                                                        {.cores = profile.cores,
                                                         .rx_bytes_s = profile.nic_bytes_per_s,
                                                         .tx_bytes_s = profile.nic_bytes_per_s})) {
}

std::vector<int> FleetRoom::place(const JobSpec& spec, int servers) {
    if (servers == 0) {
        return {};
    }
    for (auto& [job, one] : running_) {
        refresh(job, one);
    }
    std::vector<PlacedJob> jobs = review_.placed();
    const SyncPlan first = ModeController(spec.choice, spec.setting, 0).start();
    const ServersOfJob unplaced{.nodes = {},
                                .shares = equal_shares(static_cast<std::size_t>(servers))};
    jobs.push_back(needs_of(spec, profile_, plan_.nodes, unplaced, first).placed);
    place_servers(review_.nodes(), jobs, plan_.server_placement, spec.seed);
    return jobs.back().servers;
}

void FleetRoom::start(std::size_t job, VirtualJob& running, int client) {
    Running& one = running_[job];
    one = {.job = &running,
           .client = client,
           .plan = running.engine().plan().id,
           .shares = running.shares};
    review_.start(job, running.now(),
                  {.budget_samples = running.spec.budget_samples,
                   .reference_batch = running.spec.reference_batch(),
                   .samples = running.session.counts().samples_applied},
                  needs(one, running.engine().plan()));
}

bool FleetRoom::changed(const Running& one) {
    return one.plan != one.job->engine().plan().id || one.shares != one.job->shares;
}

void FleetRoom::refresh(std::size_t job, Running& one) {
    review_.applied(job, one.job->session.counts().samples_applied);
    if (changed(one)) {
        one.plan = one.job->engine().plan().id;
        one.shares = one.job->shares;
        review_.needs(job, one.job->now(), needs(one, one.job->engine().plan()));
    }
}

JobNeeds FleetRoom::needs(const Running& one, const SyncPlan& plan) const {
    const JobSpec& spec = one.job->spec;
    const std::vector<double> shares =
        one.shares.empty() ? equal_shares(spec.server_nodes.size()) : one.shares;
    return needs_of(spec, profile_, plan_.nodes, {.nodes = spec.server_nodes, .shares = shares},
                    plan);
}

bool FleetRoom::admits(std::size_t job, const SyncPlan& wanted, double worth) {
    const auto found = running_.find(job);
    if (!review_.on() || found == running_.end()) {
        return true;
    }
    for (const auto& [other, one] : running_) {
        review_.applied(other, one.job->session.counts().samples_applied);
    }
    return review_.admits(job, cluster_.queue().now(),
                          {.from = found->second.job->engine().plan().name,
                           .to = wanted.name,
                           .needs = needs(found->second, wanted),
                           .worth = worth});
}

void FleetRoom::look(std::size_t job) {
    const auto found = running_.find(job);
    if (review_.on() && found != running_.end() && changed(found->second)) {
        review_.release(job, cluster_.queue().now());
    }
}

void FleetRoom::end(std::size_t job) {
    const auto found = running_.find(job);
    if (found == running_.end()) {
        return;
    }
    review_.end(job, cluster_.queue().now());
    weights_.set(found->second.client, 1);
    running_.erase(found);
}

void FleetRoom::review_if_due() {
    const double now_s = cluster_.queue().now();
    if (!review_.due(now_s)) {
        return;
    }
    for (auto& [job, one] : running_) {
        refresh(job, one);
    }
    review_.review(now_s);
    for (const auto& [job, one] : running_) {
        weights_.set(one.client, review_.weight(job));
    }
}

void FleetRoom::report(FleetResult& result) {
    const double now_s = cluster_.queue().now();
    for (const auto& [job, one] : running_) {
        review_.release(job, now_s);
    }
    review_.report(result, now_s);
}

}  // namespace cohort
