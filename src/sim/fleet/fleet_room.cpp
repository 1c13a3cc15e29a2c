#include "sim/fleet/fleet_room.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sched/servers/shard_shares.hpp"

namespace cohort {

FleetRoom::FleetRoom(const FleetPlan& plan, VirtualCluster& cluster)
    : plan_(plan), cluster_(cluster), ledger_(plan.make_room) {
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
    const ServersOfJob unplaced{.nodes = {},
                                .shares = equal_shares(static_cast<std::size_t>(servers))};
    jobs.push_back(needs_of(spec, cluster_.profile(), cluster_.nodes(), unplaced, first).placed);
    place_servers(nodes(), jobs, plan_.server_placement, spec.seed);
    return jobs.back().servers;
}

void FleetRoom::start(std::size_t job, VirtualJob& running, int client) {
    Running& one = running_[job];
    one.job = &running;
    one.client = client;
    one.since_s = running.now();
    refresh(one);
    changed_ = true;
}

bool FleetRoom::changed(const Running& one) {
    return one.plan != one.job->engine().plan().id || one.shares != one.job->shares;
}

void FleetRoom::refresh(Running& one) {
    if (!changed(one) && one.needs.samples_s > 0) {
        return;
    }
    if (one.needs.samples_s > 0) {
        measure_anew(one);
    }
    one.plan = one.job->engine().plan().id;
    one.shares = one.job->shares;
    one.needs = needs(one, one.job->engine().plan());
}

JobNeeds FleetRoom::needs(const Running& one, const SyncPlan& plan) const {
    const JobSpec& spec = one.job->spec;
    const std::vector<double> shares =
        one.shares.empty() ? equal_shares(spec.server_nodes.size()) : one.shares;
    return needs_of(spec, cluster_.profile(), cluster_.nodes(),
                    {.nodes = spec.server_nodes, .shares = shares}, plan);
}

bool FleetRoom::admits(std::size_t job, const SyncPlan& wanted, double worth) {
    const auto found = running_.find(job);
    if (plan_.make_room == RoomRule::kOff || found == running_.end() ||
        !found->second.needs.ring.empty()) {
        return true;
    }
    Running& asker = found->second;
    if (asker.refused.contains(wanted.name)) {
        return false;
    }
    const std::vector<RoomJob> all = jobs();
    const auto index = std::ranges::find(all, static_cast<int>(job), &RoomJob::id) - all.begin();
    const JobNeeds then = needs(asker, wanted);
    const PlanEffect effect =
        ledger_.effect_of(nodes(), all,
                          {.asker = static_cast<std::size_t>(index),
                           .demand = then.placed.demand,
                           .value = worth * then.samples_s / asker.needs.samples_s});
    if (effect.fits) {
        return true;
    }
    asker.refused.insert(wanted.name);
    const std::string& from = asker.job->engine().plan().name;
    const auto before = std::ranges::find_if(refusals_, [&](const FleetRefusal& one) {
        return one.job == static_cast<int>(job) && one.from == from && one.to == wanted.name;
    });
    if (before != refusals_.end()) {
        ++before->times;
    } else {
        refusals_.push_back({.job = static_cast<int>(job),
                             .at_s = cluster_.queue().now(),
                             .from = from,
                             .to = wanted.name,
                             .gain = effect.gain,
                             .losses = effect.losses});
    }
    return false;
}

void FleetRoom::look(std::size_t job) {
    const auto found = running_.find(job);
    if (plan_.make_room == RoomRule::kOff || found == running_.end() || !changed(found->second)) {
        return;
    }
    release(job);
}

void FleetRoom::release(std::size_t job) {
    book();
    ledger_.release(static_cast<int>(job));
    book();
    changed_ = true;
}

void FleetRoom::end(std::size_t job) {
    const auto found = running_.find(job);
    if (found == running_.end()) {
        return;
    }
    release(job);
    weights_.set(found->second.client, 1);
    running_.erase(found);
}

void FleetRoom::book() {
    const double now_s = cluster_.queue().now();
    const double passed_s = now_s - std::exchange(booked_s_, now_s);
    for (const auto& [asker, grant] : ledger_.grants()) {
        FleetGrant& record =
            open_.try_emplace(asker, FleetGrant{.job = asker, .from_s = now_s}).first->second;
        record.weight = std::max(record.weight, grant.weight);
        record.gained_s += grant.gain * passed_s;
        for (const auto& [giver, loss] : grant.givers) {
            record.given_s[giver] += loss * passed_s;
        }
    }
    for (auto it = open_.begin(); it != open_.end();) {
        const bool goes_on = ledger_.grants().contains(it->first);
        if (!goes_on) {
            it->second.to_s = now_s;
            over_.push_back(std::move(it->second));
        }
        it = goes_on ? std::next(it) : open_.erase(it);
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

/// RoomJob::ahead_s now.
double FleetRoom::ahead_s(const Running& one) const {
    const double done =
        static_cast<double>(one.job->session.counts().samples_applied - one.samples);
    return one.ahead_s + done / one.needs.samples_s -
           RoomLimits::kLeastPace * (one.job->now() - one.since_s);
}

void FleetRoom::measure_anew(Running& one) const {
    one.ahead_s = ahead_s(one);
    one.since_s = one.job->now();
    one.samples = one.job->session.counts().samples_applied;
}

/// Those with servers.
std::vector<RoomJob> FleetRoom::jobs() const {
    std::vector<RoomJob> found;
    for (const auto& [job, one] : running_) {
        if (one.needs.ring.empty()) {
            found.push_back(look_at(job, one));
        }
    }
    return found;
}

RoomJob FleetRoom::look_at(std::size_t job, const Running& one) const {
    const JobSpec& spec = one.job->spec;
    const std::int64_t left = spec.budget_samples - one.job->session.counts().samples_applied;
    return {
        .id = static_cast<int>(job),
        .placed = one.needs.placed,
        .left_s = static_cast<double>(std::max(left, spec.reference_batch())) / one.needs.samples_s,
        .ahead_s = ahead_s(one),
        .measured = measured(one)};
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
    for (auto& [job, one] : running_) {
        refresh(one);
        one.refused.clear();
    }
    std::map<int, double> before;
    for (const auto& [asker, grant] : ledger_.grants()) {
        before.emplace(asker, grant.weight);
    }
    ledger_.review(now_s, nodes(), jobs());
    for (const auto& [asker, grant] : ledger_.grants()) {
        const auto known = before.find(asker);
        fresh = fresh || known == before.end() || known->second != grant.weight;
    }
    fresh = fresh || before.size() != ledger_.grants().size();
    book();
    for (auto& [job, one] : running_) {
        weights_.set(one.client, ledger_.weight(static_cast<int>(job)));
        if (fresh || measured(one) > 0) {
            measure_anew(one);
        }
    }
}

void FleetRoom::report(FleetResult& result) {
    if (plan_.make_room == RoomRule::kOff) {
        return;
    }
    for (const auto& [job, one] : running_) {
        release(job);
    }
    const RoomLedger::Counts& counts = ledger_.counts();
    result.grants = {.granted = counts.granted,
                     .refused = counts.refused,
                     .returned = counts.returned,
                     .list = std::move(over_),
                     .refused_plans = std::move(refusals_)};
    for (FleetJobResult& job : result.jobs) {
        job.grants = 0;
        job.room_taken_s = job.room_given_s = 0;
    }
    for (const FleetGrant& grant : result.grants->list) {
        FleetJobResult& asker = result.jobs[static_cast<std::size_t>(grant.job)];
        ++*asker.grants;
        *asker.room_taken_s += grant.gained_s;
        for (const auto& [giver, seconds] : grant.given_s) {
            *result.jobs[static_cast<std::size_t>(giver)].room_given_s += seconds;
        }
    }
}

}  // namespace cohort
