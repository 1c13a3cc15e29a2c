#include "session/work_planner.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// The leases that the members of a group received at the same turn are worked on in equally many
/// steps.
void work_together(const std::vector<DealtLease*>& leases) {
    std::int32_t steps = leases.front()->order.work.steps;
    std::vector<std::int32_t> members;
    for (const DealtLease* lease : leases) {
        steps = std::min(steps, lease->order.work.steps);
        members.push_back(lease->worker);
    }
    for (DealtLease* lease : leases) {
        lease->order.work.steps = steps;
        lease->order.work.group = leases.size() > 1 ? members : std::vector<std::int32_t>();
    }
}

}  // namespace

WorkPlanner::WorkPlanner(TrainingSession& session, Stages stages)
    : session_(session),
      stages_(std::move(stages)),
      live_(static_cast<std::size_t>(session.options().workers), true),
      batches_(live_.size(), session.options().batch) {
}

void WorkPlanner::set_batches(std::vector<std::int64_t> batches) {
    check_invariant(batches.size() == batches_.size(), "a batch size for every worker");
    batches_ = std::move(batches);
}

void WorkPlanner::set_live(int worker, bool live) {
    live_.at(static_cast<std::size_t>(worker)) = live;
    session_.leases().set_live(worker, live);
    new_generation();
}

void WorkPlanner::plan_work(std::vector<DealtLease>& dealt) {
    const SyncPlan& plan = session_.engine().plan();
    const bool deltas = plan.work == Work::kDelta;
    const double lr = deltas ? session_.learning_rate(plan.lr_scale) : 0;
    for (auto& [worker, order] : dealt) {
        order.staged = stages_(worker);
        order.halves = session_.gradients().halve(plan, order.count, session_.gradient_policy());
        if (deltas) {
            const std::int64_t batch = batches_[static_cast<std::size_t>(worker)];
            order.work = {.work = plan.work,
                          .steps = local_steps_of(order.count, batch, plan),
                          .lr = lr,
                          .group = {},
                          .generation = generation_};
        }
    }
    if (plan.group > 1) {
        form_groups(dealt);
    }
    for (const DealtLease& lease : dealt) {
        *session_.leases().open().find(lease.order.lease) = lease.order;
    }
}

/// The n-th new lease of each member of a group is worked on together; who gets no n-th lease is
/// left out.
void WorkPlanner::form_groups(std::vector<DealtLease>& dealt) const {
    for (const std::vector<int>& group : averaging_groups(session_.engine().plan(), live_)) {
        std::vector<std::vector<DealtLease*>> turns;
        for (const int worker : group) {
            std::size_t turn = 0;
            for (DealtLease& lease : dealt) {
                if (lease.worker == worker) {
                    turns.resize(std::max(turns.size(), turn + 1));
                    turns[turn++].push_back(&lease);
                }
            }
        }
        for (const std::vector<DealtLease*>& turn : turns) {
            work_together(turn);
        }
    }
}

LeaseShape WorkPlanner::shape() const {
    std::vector<bool> staged(live_.size());
    for (std::size_t worker = 0; worker < staged.size(); ++worker) {
        staged[worker] = stages_(static_cast<int>(worker));
    }
    return lease_shape_of(session_.engine().plan(), live_, std::move(staged));
}

void WorkPlanner::shape_leases() {
    const SyncPlan& plan = session_.engine().plan();
    std::vector<std::int64_t> samples = batches_;
    for (std::int64_t& count : samples) {
        count = std::max<std::int64_t>(count, 1) * steps_per_push(plan);
    }
    session_.leases().set_batches(samples);
    session_.leases().set_ahead(leases_ahead(plan), !is_synchronous(plan));
}

std::vector<int> WorkPlanner::partners(int worker) const {
    const OpenLeases& open = session_.leases().open();
    std::vector<int> partners;
    for (int other = 0; other < session_.options().workers; ++other) {
        const std::vector<std::uint64_t> leases = open.held_leases(other);
        const bool together = std::any_of(leases.begin(), leases.end(), [&](std::uint64_t lease) {
            const std::vector<std::int32_t>& group = open.find(lease)->work.group;
            return std::find(group.begin(), group.end(), worker) != group.end();
        });
        if (together && other != worker && live_[static_cast<std::size_t>(other)]) {
            partners.push_back(other);
        }
    }
    return partners;
}

bool WorkPlanner::in_group(int worker) const {
    const OpenLeases& open = session_.leases().open();
    const std::vector<std::uint64_t> leases = open.held_leases(worker);
    return !leases.empty() && !open.find(leases.front())->work.group.empty();
}

void WorkerQueue::released(int worker) {
    at(worker).running = false;  // whatever it did, it begins anew
    ready_.insert(worker);
    if (!unneeded_.contains(worker)) {
        wanting_.insert(worker);
    }
}

void WorkerQueue::arrived(int worker) {
    at(worker).running = false;
    ready_.erase(worker);
}

void WorkerQueue::returns(int worker, std::uint64_t lease) {
    const LeaseOrder* const current = session_.leases().open().oldest_unpushed(worker);
    if (current == nullptr || current->lease != lease) {
        return;
    }
    if (std::exchange(at(worker).running, false)) {
        ready_.insert(worker);
    }
    session_.iteration_abandoned(worker);
}

void WorkerQueue::begin_iterations() {
    std::erase_if(ready_, [this](int worker) {
        const LeaseOrder* const lease = session_.leases().open().oldest_unpushed(worker);
        if (lease != nullptr) {
            at(worker).running = true;
            session_.iteration_begun(worker, lease->count);
        }
        return lease != nullptr;
    });
}

std::array<std::vector<int>, 2> WorkerQueue::wanting() const {
    return {std::vector<int>(unneeded_.begin(), unneeded_.end()),
            std::vector<int>(wanting_.begin(), wanting_.end())};
}

void WorkerQueue::served(int worker) {
    wanting_.erase(worker);
    unneeded_.erase(worker);
}

std::vector<int> WorkerQueue::take_wanting() {
    std::vector<int> workers(wanting_.begin(), wanting_.end());
    unneeded_.merge(wanting_);
    wanting_.clear();
    return workers;
}

}  // namespace cohort
