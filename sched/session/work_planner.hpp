#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"
#include "sched/session/training_session.hpp"

namespace cohort {

/// The leases that the members of a group received at the same turn are worked on in equally many
/// steps.
inline void work_together(const std::vector<DealtLease*>& leases) {
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

/// Decides what is to be done with the leases of a job with parameter servers, as the plan in force
/// wants it: their sizes, local steps, and who works on them together. Pure.
class WorkPlanner {
public:
    /// Whether a worker's pushes stay on its node under the plan in force.
    using Stages = std::function<bool(int worker)>;
    /// @param session  outlives it
    WorkPlanner(TrainingSession& session, Stages stages)
        : session_(session),
          stages_(std::move(stages)),
          live_(static_cast<std::size_t>(session.options().workers), true),
          batches_(live_.size(), session.options().batch) {}

    /// Fills in the work of new leases.
    void plan_work(std::vector<DealtLease>& dealt) {
        const SyncPlan& plan = session_.engine().plan();
        const bool deltas = plan.work == Work::kDelta;
        const double lr = deltas ? session_.learning_rate(plan.lr_scale) : 0;
        for (auto& [worker, order] : dealt) {
            order.staged = stages_(worker);
            order.halves = session_.gradients().halve(order.count);
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

    /// What the plan in force asks of leases.
    [[nodiscard]] LeaseShape shape() const {
        std::vector<bool> staged(live_.size());
        for (std::size_t worker = 0; worker < staged.size(); ++worker) {
            staged[worker] = stages_(static_cast<int>(worker));
        }
        return lease_shape_of(session_.engine().plan(), live_, std::move(staged));
    }

    /// New leases are as the plan in force wants them.
    void shape_leases() {
        const SyncPlan& plan = session_.engine().plan();
        std::vector<std::int64_t> samples = batches_;
        for (std::int64_t& count : samples) {
            count = std::max<std::int64_t>(count, 1) * steps_per_push(plan);
        }
        session_.leases().set_batches(samples);
        session_.leases().set_ahead(leases_ahead(plan), !is_synchronous(plan));
    }

    /// Samples of a worker's gradient or local step.
    [[nodiscard]] const std::vector<std::int64_t>& batches() const noexcept { return batches_; }
    void set_batches(std::vector<std::int64_t> batches) {
        check_invariant(batches.size() == batches_.size(), "a batch size for every worker");
        batches_ = std::move(batches);
    }

    /// By worker.
    [[nodiscard]] const std::vector<bool>& live() const noexcept { return live_; }
    [[nodiscard]] bool live(int worker) const { return live_.at(static_cast<std::size_t>(worker)); }
    /// A worker that is not live gets no leases.
    void set_live(int worker, bool live) {
        live_.at(static_cast<std::size_t>(worker)) = live;
        session_.leases().set_live(worker, live);
        new_generation();
    }

    /// Members of groups are others than before: exchanges between them begin anew.
    void new_generation() noexcept { ++generation_; }
    /// Workers that hold a lease which is worked on together with this worker.
    [[nodiscard]] std::vector<int> partners(int worker) const {
        const OpenLeases& open = session_.leases().open();
        std::vector<int> partners;
        for (int other = 0; other < session_.options().workers; ++other) {
            const std::vector<std::uint64_t> leases = open.held_leases(other);
            const bool together =
                std::any_of(leases.begin(), leases.end(), [&](std::uint64_t lease) {
                    const std::vector<std::int32_t>& group = open.find(lease)->work.group;
                    return std::find(group.begin(), group.end(), worker) != group.end();
                });
            if (together && other != worker && live_[static_cast<std::size_t>(other)]) {
                partners.push_back(other);
            }
        }
        return partners;
    }

    /// The oldest lease that the worker holds is worked on in a group.
    [[nodiscard]] bool in_group(int worker) const {
        const OpenLeases& open = session_.leases().open();
        const std::vector<std::uint64_t> leases = open.held_leases(worker);
        return !leases.empty() && !open.find(leases.front())->work.group.empty();
    }

private:
    /// The n-th new lease of each member of a group is worked on together; who gets no n-th lease
    /// is left out.
    void form_groups(std::vector<DealtLease>& dealt) const {
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

    TrainingSession& session_;
    Stages stages_;
    std::vector<bool> live_;             ///< by worker
    std::vector<std::int64_t> batches_;  ///< by worker
    std::uint64_t generation_ = 0;       ///< of groups
};

/// Where the workers of a job with parameter servers are: waiting for parameters, ready to begin,
/// or at an iteration; and who has no lease. Tells the session's load monitor when iterations begin
/// and are given up. Pure.
class WorkerQueue {
public:
    /// @param session  outlives it
    explicit WorkerQueue(TrainingSession& session)
        : session_(session), workers_(static_cast<std::size_t>(session.options().workers)) {}

    /// A worker is sent parameters, in place of those it had.
    void released(int worker) {
        at(worker).running = false;  // whatever it did, it begins anew
        ready_.insert(worker);
        if (!unneeded_.contains(worker)) {
            wanting_.insert(worker);
        }
    }

    /// The worker's push has arrived, or nothing more will come from it.
    void arrived(int worker) {
        at(worker).running = false;
        ready_.erase(worker);
    }

    /// A lease of the worker is about to return.
    void returns(int worker, std::uint64_t lease) {
        const LeaseOrder* const current = session_.leases().open().oldest_unpushed(worker);
        if (current == nullptr || current->lease != lease) {
            return;
        }
        if (std::exchange(at(worker).running, false)) {
            ready_.insert(worker);
        }
        if (LoadMonitor* const load = session_.load()) {
            load->stopped(worker);
        }
    }

    /// The worker holds parameters that it has not answered with a push.
    [[nodiscard]] bool has_parameters(int worker) const {
        return at(worker).running || ready_.contains(worker);
    }
    /// Workers that have parameters and a lease begin their oldest lease that they have not pushed.
    void begin_iterations() {
        std::erase_if(ready_, [this](int worker) {
            const LeaseOrder* const lease = session_.leases().open().oldest_unpushed(worker);
            if (lease != nullptr) {
                begun(worker, *lease);
            }
            return lease != nullptr;
        });
    }

    /// Notes whether the engine knows a worker as idle; returns whether it did.
    bool set_idle(int worker, bool idle) { return std::exchange(at(worker).idle, idle); }
    [[nodiscard]] bool idle(int worker) const { return at(worker).idle; }
    /// Workers that have received no lease since they were released: those whom nobody waits for,
    /// then those that the engine waits for.
    [[nodiscard]] std::array<std::vector<int>, 2> wanting() const {
        return {std::vector<int>(unneeded_.begin(), unneeded_.end()),
                std::vector<int>(wanting_.begin(), wanting_.end())};
    }

    /// The worker has received a lease.
    void served(int worker) {
        wanting_.erase(worker);
        unneeded_.erase(worker);
    }

    /// The latter of these; from now on nobody waits for them.
    [[nodiscard]] std::vector<int> take_wanting() {
        std::vector<int> workers(wanting_.begin(), wanting_.end());
        unneeded_.merge(wanting_);
        wanting_.clear();
        return workers;
    }

private:
    struct Worker {
        bool idle = true;      ///< as the engine knows it
        bool running = false;  ///< at an iteration
    };
    void begun(int worker, const LeaseOrder& lease) {
        at(worker).running = true;
        if (LoadMonitor* const load = session_.load()) {
            load->begun(worker, session_.options().now().training_s, lease.count);
        }
    }
    [[nodiscard]] Worker& at(int worker) { return workers_.at(static_cast<std::size_t>(worker)); }
    [[nodiscard]] const Worker& at(int worker) const {
        return workers_.at(static_cast<std::size_t>(worker));
    }

    TrainingSession& session_;
    std::vector<Worker> workers_;
    std::set<int> ready_;     ///< have parameters, and are at no iteration
    std::set<int> wanting_;   ///< released, no lease since, and the engine waits for them
    std::set<int> unneeded_;  ///< the same, and nobody waits for them
};

}  // namespace cohort
