#include "sim/fleet/fleet_room.hpp"

#include <utility>

namespace cohort {

FleetRoom::FleetRoom(const FleetPlan& plan, VirtualCluster& cluster, ClientWeights& weights)
    : plan_(plan), cluster_(cluster), weights_(weights), ledger_(plan.make_room) {
}

/// Jobs on rings have weight 1 and stay where they are: they are what runs beside the others.
std::vector<NodeRoom> FleetRoom::nodes() const {
    const ClusterProfile& profile = cluster_.profile();
    std::vector<NodeRoom> nodes(static_cast<std::size_t>(cluster_.nodes()),
                                {.capacity = {.cores = profile.cores,
                                              .rx_bytes_s = profile.nic_bytes_per_s,
                                              .tx_bytes_s = profile.nic_bytes_per_s}});
    for (const auto& [job, one] : running_) {
        for (std::size_t node = 0; node < one.needs.ring.size(); ++node) {
            nodes[node].used.cores += one.needs.ring[node].cores;
            nodes[node].used.rx += one.needs.ring[node].rx;
            nodes[node].used.tx += one.needs.ring[node].tx;
        }
    }
    return nodes;
}

std::vector<int> FleetRoom::place(const JobSpec& spec, int servers) {
    if (servers == 0) {
        return {};
    }
    std::vector<PlacedJob> jobs;
    for (auto& [job, one] : running_) {
        refresh(one);
        if (one.needs.ring.empty()) {
            jobs.push_back(one.needs.placed);
        }
    }
    const SyncPlan first = ModeController(spec.choice, spec.setting, 0).start();
    jobs.push_back(needs_of(spec, cluster_.profile(), cluster_.nodes(), servers, {}, first).placed);
    place_servers(nodes(), jobs, plan_.server_placement, spec.seed);
    return jobs.back().servers;
}

void FleetRoom::start(std::size_t job, VirtualJob& running, int client) {
    Running& one = running_[job];
    one.job = &running;
    one.client = client;
    refresh(one);
    changed_ = true;
}

void FleetRoom::refresh(Running& one) {
    const SyncPlan& plan = one.job->engine().plan();
    if (one.plan == plan.id && one.needs.samples_s > 0) {
        return;
    }
    const JobSpec& spec = one.job->spec;
    one.plan = plan.id;
    one.needs = needs_of(spec, cluster_.profile(), cluster_.nodes(), spec.servers(),
                         spec.server_nodes, plan);
    one.since_s = one.job->now();
    one.samples = one.job->session.counts().samples_applied;
}

void FleetRoom::look(std::size_t job) {
    const auto found = running_.find(job);
    if (plan_.make_room == RoomRule::kOff || found == running_.end() ||
        found->second.plan == found->second.job->engine().plan().id) {
        return;
    }
    book();
    ledger_.release(static_cast<int>(job));
    changed_ = true;
}

void FleetRoom::end(std::size_t job) {
    const auto found = running_.find(job);
    if (found == running_.end()) {
        return;
    }
    book();
    ledger_.release(static_cast<int>(job));
    weights_.set(found->second.client, 1);
    running_.erase(found);
    changed_ = true;
}

/// What the grants in force have brought since the last call.
void FleetRoom::book() {
    const double now_s = cluster_.queue().now();
    const double passed_s = now_s - std::exchange(booked_s_, now_s);
    for (const auto& [asker, grant] : ledger_.grants()) {
        accounts_[static_cast<std::size_t>(asker)].taken_s += grant.gain * passed_s;
        for (const auto& [giver, loss] : grant.givers) {
            accounts_[static_cast<std::size_t>(giver)].given_s += loss * passed_s;
        }
    }
}

/// Relative to alone; 0: too little was done for it to be known.
double FleetRoom::measured(const Running& one) const {
    constexpr std::int64_t kLeastBatches = 10;  // reference batches
    const auto samples = one.job->session.counts().samples_applied - one.samples;
    const double seconds = cluster_.queue().now() - one.since_s;
    return samples < kLeastBatches * one.job->spec.reference_batch() || seconds <= 0
               ? 0
               : static_cast<double>(samples) / seconds / one.needs.samples_s;
}

void FleetRoom::review_if_due() {
    if (plan_.make_room != RoomRule::kOff && (changed_ || cluster_.queue().now() >= next_s_)) {
        review();
    }
}

void FleetRoom::review() {
    const double now_s = cluster_.queue().now();
    bool fresh = std::exchange(changed_, false);
    next_s_ = now_s + kReviewSeconds;
    book();
    ledger_.expire(now_s);
    std::vector<RoomJob> jobs;
    for (auto& [job, one] : running_) {
        refresh(one);
        if (one.needs.ring.empty()) {
            jobs.push_back({.id = static_cast<int>(job),
                            .placed = one.needs.placed,
                            .measured = measured(one)});
        }
    }
    std::map<int, double> before;
    for (const auto& [asker, grant] : ledger_.grants()) {
        before.emplace(asker, grant.weight);
    }
    ledger_.review(now_s, nodes(), jobs);
    for (const auto& [asker, grant] : ledger_.grants()) {
        const auto known = before.find(asker);
        accounts_[static_cast<std::size_t>(asker)].grants += known == before.end() ? 1 : 0;
        fresh = fresh || known == before.end() || known->second != grant.weight;
    }
    fresh = fresh || before.size() != ledger_.grants().size();
    for (auto& [job, one] : running_) {
        weights_.set(one.client, ledger_.weight(static_cast<int>(job)));
        if (fresh || measured(one) > 0) {
            one.since_s = now_s;
            one.samples = one.job->session.counts().samples_applied;
        }
    }
}

void FleetRoom::report(FleetResult& result) {
    if (plan_.make_room == RoomRule::kOff) {
        return;
    }
    book();
    const RoomLedger::Counts& counts = ledger_.counts();
    result.grants = {.granted = counts.granted,
                     .refused = counts.refused,
                     .expired = counts.expired,
                     .returned = counts.returned};
    for (std::size_t job = 0; job < result.jobs.size(); ++job) {
        const Account& account = accounts_[job];
        result.jobs[job].grants = account.grants;
        result.jobs[job].room_taken_s = account.taken_s;
        result.jobs[job].room_given_s = account.given_s;
    }
}

}  // namespace cohort
