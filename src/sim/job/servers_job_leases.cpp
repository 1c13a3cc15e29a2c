#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"
#include "sim/job/servers_job.hpp"

// Leases: who gets some and with whom they are worked on; plans that need a fence.
namespace cohort {

/// Leases for those who want some; plans that wait follow as soon as their fence is reached.
void ServersJob::deal() {
    const auto deal_all = [this] {
        while (!stopping() && deal_once()) {
        }
    };
    deal_all();
    while (next_plan_ && !stopping() && (!fence_ || worked_off())) {
        const LeaseShape before = lease_shape();
        put_in_force(*std::exchange(next_plan_, std::nullopt));
        if (!(lease_shape() == before) || engine().plan().fresh_leases) {  // those ahead come back
            for (Worker& each : workers_) {
                each.ahead.clear();
            }
        }
        fence_ = engine().plan().group > 1;
        validation_.set_every(engine().plan().validate_every);
        deal_all();
    }
    deal_validation();
    order_releases();
}

void ServersJob::install(PlanChange change) {
    if (next_plan_ && change.batches.empty()) {
        change.batches = std::move(next_plan_->batches);
    }
    next_plan_ = std::move(change);
    fence_ = fence_ || engine().plan().group > 1;
}

/// Nobody holds a lease that was not applied: all may start at once.
bool ServersJob::worked_off() const {
    return holding_ == 0 && engine().pending() == 0;
}

/// @return true when something happened that may have set leases or workers free
bool ServersJob::deal_once() {
    const bool group_plan_waits = next_plan_ && engine().plan().group > 1;
    fence_ = fence_ && (group_plan_waits || !worked_off());
    const std::vector<int> dealt = fence_ ? std::vector<int>() : take_leases();
    if (engine().plan().group > 1 && !dealt.empty()) {
        form_groups(dealt);
    }
    start_learning(dealt);
    for (const int index : dealt) {
        if (std::exchange(worker(index).idle, false)) {
            carry_out(engine().resumed(index));
        }
        const Lease& given = lease_of(index);
        engine().leased(index, given.id, given.slice.count);
        begun(index, given.slice.count);
        epoch_ = given.slice.epoch;
    }
    for (const int index : dealt) {
        start(index);
    }
    bool again = false;
    for (const int index : std::exchange(wanting_, {})) {
        idle_.insert(index);
        if (!std::exchange(worker(index).idle, true)) {
            const std::vector<Effect> effects = engine().idle(index);
            again = again || !effects.empty();
            carry_out(effects);
        }
    }
    return again;
}

/// @return who got one
std::vector<int> ServersJob::take_leases() {
    std::vector<int> dealt;
    for (std::set<int>* some : {&idle_, &wanting_}) {
        while (!some->empty() && take_one(*some->begin())) {
            dealt.push_back(*some->begin());
            some->erase(some->begin());
        }
    }
    return dealt;
}

/// Who was too late twice in a row gets a lease that it can finish in time.
bool ServersJob::take_one(int index) {
    Worker& w = worker(index);
    check_invariant(w.lease == 0, "a worker has one lease at a time");
    if (engine().needs_short_lease(index)) {
        w.ahead.assign(1, short_lease_of(batch_of(index)));
    }
    const Lease* const taken = take_lease(index, next_size(index));
    if (taken != nullptr) {
        w.ahead.pop_front();
        w.lease = taken->id;
        w.staged = stages(index);
        ++w.out;
        ++holding_;
    }
    return taken != nullptr;
}

/// Leases get their sizes when a real worker gets them, which holds some before it begins them.
std::int64_t ServersJob::next_size(int index) {
    Worker& w = worker(index);
    const SyncPlan& plan = engine().plan();
    const std::int64_t size = std::max<std::int64_t>(batch_of(index), 1) * steps_per_push(plan);
    const auto most = leases_ahead(plan) - w.out;
    while (w.ahead.empty() || static_cast<std::int64_t>(w.ahead.size()) < most) {
        w.ahead.push_back(size);
    }
    return w.ahead.front();
}

LeaseShape ServersJob::lease_shape() const {
    std::vector<bool> staged;
    for (int index = 0; index < workers() && !heads_.empty(); ++index) {
        staged.push_back(stages(index));
    }
    const std::vector<bool> live(at(workers()), true);
    return lease_shape_of(engine().plan(), live, std::move(staged));
}

/// New leases of the members of a group are worked on together, in equally many steps; who gets
/// none is left out.
void ServersJob::form_groups(const std::vector<int>& dealt) {
    const std::vector<bool> live(at(workers()), true);
    const std::set<int> with_lease(dealt.begin(), dealt.end());
    for (const std::vector<int>& members : averaging_groups(engine().plan(), live)) {
        const auto group = std::make_shared<Group>();
        std::int32_t steps = engine().plan().local_steps;
        for (const int member : members) {
            if (with_lease.contains(member)) {
                group->members.push_back(member);
                group->nodes.push_back(node_of(member));
                steps = std::min(steps, lease_of(member).steps);
            }
        }
        for (const int member : group->members) {
            lease_of(member).steps = steps;
            worker(member).group = group->members.size() > 1 ? group : nullptr;
        }
    }
}

/// As soon as it is known what is to be computed on which parameters, on the cores that are free.
void ServersJob::start_learning(const std::vector<int>& dealt) {
    for (const int index : dealt) {
        const Worker& w = worker(index);
        Lease& given = lease_of(index);
        if (w.group == nullptr) {
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
}

void ServersJob::deal_validation() {
    if (stopping() || !validation_.due()) {
        return;
    }
    std::vector<bool> may(at(workers()));
    for (std::size_t i = 0; i < may.size(); ++i) {
        may[i] = !workers_[i].idle && !workers_[i].validation && !workers_[i].validating;
    }
    if (const auto dealt = validation_.deal(may, epoch_)) {
        worker(dealt->worker).validation = *dealt;
    }
}

}  // namespace cohort
