#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "sched/session/ring/round_scheduler.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/job/ring_job.hpp"

namespace cohort {

/// An all-reduce over what some members compute: it begins when the last one's part begins to
/// leave, and the sum is over when it and all members' computations are.
class VirtualSum {
public:
    using Action = VirtualCluster::Action;

    /// @param nodes of the members, in ring order  @param over called once, by an event
    VirtualSum(VirtualCluster& cluster, std::vector<int> nodes, double bytes, Action over)
        : cluster_(cluster), nodes_(std::move(nodes)), bytes_(bytes), over_(std::move(over)) {}

    VirtualSum(const VirtualSum&) = delete;
    VirtualSum& operator=(const VirtualSum&) = delete;
    /// What is in progress is cancelled.
    ~VirtualSum() {
        if (work_ != 0) {
            cluster_.cancel(work_);
        }
        if (event_ != 0) {
            cluster_.queue().cancel(event_);
        }
    }

    /// One more member's part begins to leave.
    void begun() {
        if (++begun_ < nodes_.size()) {
            return;
        }
        if (nodes_.size() == 1) {
            reduced_ = true;
            return;
        }
        work_ = cluster_.all_reduce(nodes_, bytes_, [this, begun_s = cluster_.queue().now()] {
            work_ = 0;
            moving_s_ = cluster_.queue().now() - begun_s;
            reduced_ = true;
            arrived();
        });
    }

    /// One more member has computed; begun() came before.
    void done() {
        ++done_;
        arrived();
    }

    /// Bytes that each member sends and receives.
    [[nodiscard]] double bytes_of_a_member() const noexcept {
        const auto members = static_cast<double>(nodes_.size());
        return 4 * (members - 1) / members * bytes_;
    }

    /// How long they were in flight; 0: a member alone, or not over.
    [[nodiscard]] double moving_s() const noexcept { return moving_s_; }

private:
    /// By an event, since what it calls may end this object.
    void arrived() {
        if (reduced_ && done_ == nodes_.size()) {
            event_ = cluster_.queue().after(0, [this] {
                event_ = 0;
                const Action over = std::move(over_);
                over();
            });
        }
    }

    VirtualCluster& cluster_;
    std::vector<int> nodes_;
    double bytes_;
    Action over_;
    std::size_t begun_ = 0;
    std::size_t done_ = 0;
    bool reduced_ = false;
    double moving_s_ = 0;
    VirtualCluster::WorkId work_ = 0;
    EventQueue::Id event_ = 0;
};

/// A worker of a virtual ring, member or rider.
class RingJob::Worker : public VirtualWorker {
public:
    using VirtualWorker::VirtualWorker;

    /// The update of the last round, if the worker has not applied it.
    void apply_update(Action then);
    /// Bytes for it are in flight: the worker's work until they arrive, and then `done`.
    void receive(int giver, double bytes, Action done);
    /// What it does, or receives, is given up.
    void give_up();

    IterationRecord next;     ///< what the round that is over says of the next lease
    bool update_due = false;  ///< it has not applied the last round's update
    bool entering = false;    ///< a member whose state is in flight
};

/// The round that runs: what its members compute, in groups if the plan wants it, and their sum.
class RingJob::RunningRound {
public:
    RunningRound(RingJob& job, const Round& round)
        : job_(job), round_(round), group_of_(at(job.workers()), nullptr) {
        sum_ = sum_of(job.ring_.roster.members(), [&job] { job.round_over(); });
    }

    /// A member's state is received.
    void begin_member(int worker) {
        if (Group* const group = group_of_[at(worker)]) {
            join_group(worker, *group);
        } else if (job_.worker(worker).lease == 0) {
            sum_->begun();
            member_done(worker);
        } else {
            begin_step(worker);
        }
    }

    /// The update of the round before comes first; a member that enters waits for its state.
    void begin() {
        for (const RoundMember& member : round_.members) {
            Worker& worker = job_.worker(member.worker);
            worker.begin(member.lease);
            worker.record = std::exchange(worker.next, {});
        }
        form_groups();
        start_learning();
        for (const RoundMember& member : round_.members) {
            Worker& worker = job_.worker(member.worker);
            if (!worker.entering) {
                worker.apply_update([this, index = member.worker] { begin_member(index); });
            }
        }
    }

    /// The round is over.
    /// The last to arrive shows the shortest exchange: that is everybody's own, the rest is
    /// waiting.
    void note_times() {
        const double now = job_.now();
        const double bytes = sum_->bytes_of_a_member();
        double own_s = now;
        for (const RoundMember& member : round_.members) {
            own_s = std::min(own_s, now - job_.worker(member.worker).computed_at_s);
        }
        for (const RoundMember& member : round_.members) {
            Worker& worker = job_.worker(member.worker);
            const double sends_at_s = now - own_s;
            worker.next = {.pull_s = own_s, .wait_s = sends_at_s - worker.computed_at_s};
            worker.next.use.rx_bytes_s = worker.next.use.tx_bytes_s =
                rate(bytes / 2, sum_->moving_s());
            job_.lanes.span(member.worker, LaneSpan::Kind::kWait, worker.computed_at_s, sends_at_s);
            job_.lanes.span(member.worker, LaneSpan::Kind::kPush, sends_at_s, now);
            job_.lanes.used(member.worker, 0, bytes);
        }
    }

private:
    /// Consecutive members that average at every local step.
    struct Group {
        std::vector<int> members;
        std::unique_ptr<VirtualSum> sum;  ///< of the step
        std::int32_t step = 0;
    };
    /// Groups of two and more where somebody has samples; others only pass on.
    void form_groups() {
        const auto wide = static_cast<std::size_t>(std::max(job_.engine().plan().group, 1));
        const std::span<const RoundMember> all(round_.members);
        for (std::size_t begin = 0; wide > 1 && begin < all.size(); begin += wide) {
            const auto part = all.subspan(begin, std::min(wide, all.size() - begin));
            if (part.size() < 2 ||
                std::none_of(part.begin(), part.end(),
                             [](const RoundMember& one) { return one.lease != 0; })) {
                continue;
            }
            Group& group = groups_.emplace_back();
            for (const RoundMember& member : part) {
                group.members.push_back(member.worker);
                group_of_[at(member.worker)] = &group;
            }
            begin_group_step(group);
        }
    }

    /// Everybody's gradient or delta, on the parameters that all members hold.
    void start_learning() {
        const auto job_of = [this](VirtualLease& lease) {
            lease.steps = round_.steps;
            lease.lr = round_.lr;
            return job_.job_of(lease, job_.parameters_for(lease.worker, 0));
        };
        for (const RoundMember& member : round_.members) {
            if (member.lease != 0 && group_of_[at(member.worker)] == nullptr) {
                VirtualLease& lease = job_.leases_out.at(member.lease);
                lease.computed = job_.learner.start(job_of(lease));
            }
        }
        for (const Group& group : groups_) {
            std::vector<VirtualLease*> leases;
            std::vector<Learner::Job> jobs;
            for (const int worker : group.members) {
                if (const std::uint64_t id = job_.worker(worker).lease; id != 0) {
                    leases.push_back(&job_.leases_out.at(id));
                    jobs.push_back(job_of(*leases.back()));
                }
            }
            const std::vector<Learner::WorkId> started = job_.learner.start_group(jobs);
            for (std::size_t i = 0; i < started.size(); ++i) {
                leases[i]->computed = started[i];
            }
        }
    }

    void begin_step(int worker) {
        job_.worker(worker).begin_step([this, worker] { backward(worker); },
                                       [this, worker] { computed(worker); });
    }

    /// Gradients begin to leave; deltas wait for the end.
    void backward(int worker) {
        if (const Group* const group = group_of_[at(worker)]) {
            group->sum->begun();
        } else if (round_.work == Work::kGradient) {
            sum_->begun();
        }
    }

    void computed(int worker) {
        if (const Group* const group = group_of_[at(worker)]) {
            group->sum->done();
        } else if (round_.work == Work::kDelta) {
            local_update(worker);
        } else {
            member_done(worker);
        }
    }

    [[nodiscard]] std::unique_ptr<VirtualSum> sum_of(const std::vector<int>& workers,
                                                     Worker::Action over) {
        std::vector<int> nodes;
        std::transform(workers.begin(), workers.end(), std::back_inserter(nodes),
                       [this](int worker) { return job_.node_of(worker); });
        return std::make_unique<VirtualSum>(job_.cluster, std::move(nodes), job_.bytes_,
                                            std::move(over));
    }

    /// Of its own parameters with its own or its group's gradient; then its own next step, unless
    /// that was the last.
    void local_update(int worker) {
        job_.worker(worker).update([this, worker] {
            Worker& one = job_.worker(worker);
            one.own_s += job_.now() - one.current.begun_s;
            step_over(worker);
        });
    }

    void step_over(int worker) {
        Group* const group = group_of_[at(worker)];
        if (group != nullptr && group->step < round_.steps) {
            join_group(worker, *group);
        } else if (group == nullptr && job_.worker(worker).step < round_.steps) {
            begin_step(worker);
        } else {
            sum_->begun();
            member_done(worker);
        }
    }

    /// Its part of the round is in flight.
    void member_done(int worker) {
        job_.worker(worker).computed_at_s = job_.now();
        sum_->done();
    }

    void begin_group_step(Group& group) {
        group.sum = sum_of(group.members, [this, &group] { group_step_over(group); });
    }

    /// Members without samples pass on at once.
    void join_group(int worker, Group& group) {
        job_.lanes.used(worker, 0, group.sum->bytes_of_a_member());
        if (job_.worker(worker).lease != 0) {
            begin_step(worker);
            return;
        }
        job_.worker(worker).computed_at_s = job_.now();
        group.sum->begun();
        group.sum->done();
    }

    void group_step_over(Group& group) {
        const bool last = ++group.step == round_.steps;
        for (const int worker : group.members) {
            job_.lanes.span(worker, LaneSpan::Kind::kWait, job_.worker(worker).computed_at_s,
                            job_.now());
        }
        if (!last) {
            begin_group_step(group);
        }
        for (const int worker : group.members) {
            local_update(worker);
        }
    }

    RingJob& job_;
    const Round& round_;
    std::unique_ptr<VirtualSum> sum_;
    std::deque<Group> groups_;
    std::vector<Group*> group_of_;  ///< by worker; null: none
};

}  // namespace cohort
