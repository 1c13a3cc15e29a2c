// What members and riders compute, and when.
#include <algorithm>
#include <utility>

#include "sim/job/ring_job.hpp"

namespace cohort {

/// Groups of two and more where somebody has samples; others only pass on.
void RingJob::form_groups(const Round& round) {
    const SyncPlan& plan = engine().plan();
    const auto wide = static_cast<std::size_t>(std::max(plan.group, 1));
    for (std::size_t begin = 0; wide > 1 && begin < members_.size(); begin += wide) {
        const std::size_t end = std::min(begin + wide, members_.size());
        const bool samples = std::any_of(round.leases.begin() + static_cast<std::ptrdiff_t>(begin),
                                         round.leases.begin() + static_cast<std::ptrdiff_t>(end),
                                         [](std::uint64_t lease) { return lease != 0; });
        if (end - begin < 2 || !samples) {
            continue;
        }
        Group group;
        for (std::size_t i = begin; i < end; ++i) {
            group.members.push_back(members_[i]);
            seat(members_[i]).group = groups_.size();
        }
        groups_.push_back(std::move(group));
        begin_group_step(groups_.back());
    }
}

/// The update of the round before comes first; who enters waits for its state.
void RingJob::get_ready(int worker) {
    if (!seat(worker).entering) {
        work_off_update(worker, [this, worker] { begin_member(worker); });
    }
}

/// The last round's, if it is due.
void RingJob::work_off_update(int worker, VirtualCluster::Action then) {
    if (std::exchange(seat(worker).update_due, false)) {
        update(worker, [this, worker, begun_s = now(), then = std::move(then)] {
            seat(worker).record.pull_s += now() - begun_s;
            then();
        });
    } else {
        then();
    }
}

void RingJob::update(int worker, VirtualCluster::Action then) {
    const VirtualCluster::IterationCost cost = spec().update_cost(cluster().profile());
    lanes().used(worker, cost.cpu_core_s, 0);
    seat(worker).work = cluster().work(
        place(worker), cost, [this, worker, begun_s = now(), then = std::move(then)] {
            seat(worker).work = 0;
            lanes().span(worker, LaneSpan::Kind::kCompute, begun_s, now());
            then();
        });
}

void RingJob::begin_member(int worker) {
    if (seat(worker).group != kAlone) {
        join_group(worker);
    } else if (seat(worker).lease == 0) {
        sum_->begun();
        member_done(worker);
    } else {
        begin_step(worker);
    }
}

/// The lease of a gradient, or one of its local steps.
void RingJob::begin_step(int worker) {
    Seat& one = seat(worker);
    const Lease& mine = held(one.lease);
    const std::int64_t count = mine.slice.count;
    const std::int64_t samples =
        count * (one.step + 1) / mine.steps - count * one.step / mine.steps;
    one.begun_s = now();
    cluster().begin_iteration(place(worker), rounds_done() + one.step);
    one.delay_s = cluster().shares(place(worker)).delay_s;
    const VirtualCluster::IterationCost cost = spec().cost_of(samples);
    one.wanted_s = cost.cpu_core_s / cost.cpu_threads;
    lanes().used(worker, cost.cpu_core_s, 0);
    one.work = cluster().compute(
        place(worker), cost, [this, worker] { backward(worker); },
        [this, worker] { computed(worker); });
}

/// Gradients begin to leave; deltas wait for the end.
void RingJob::backward(int worker) {
    Seat& one = seat(worker);
    one.backward_at_s = now();
    if (one.role != RingRole::kMember) {
        one.push = cluster().send(node_of(worker), node_of(one.pushes_to), bytes(), [this, worker] {
            seat(worker).push = 0;
            ride_part_done(worker);
        });
    } else if (one.group != kAlone) {
        groups_[one.group].sum->begun();
    } else if (held(one.lease).work == Work::kGradient) {
        sum_->begun();
    }
}

void RingJob::computed(int worker) {
    Seat& one = seat(worker);
    one.work = 0;
    one.own_s += now() - one.begun_s;
    one.computed_at_s = now();
    note_step(worker);
    ++one.step;
    if (one.role != RingRole::kMember) {
        ride_part_done(worker);
    } else if (one.group != kAlone) {
        groups_[one.group].sum->done();
    } else if (held(one.lease).work == Work::kDelta) {
        local_update(worker);
    } else {
        member_done(worker);
    }
}

/// Of its own parameters with its own or its group's gradient; then its own next step, unless that
/// was the last.
void RingJob::local_update(int worker) {
    update(worker, [this, worker, begun_s = now()] {
        seat(worker).own_s += now() - begun_s;
        step_over(worker);
    });
}

void RingJob::step_over(int worker) {
    const Seat& one = seat(worker);
    const std::int32_t steps = granted_.front().steps;
    if (one.group != kAlone && groups_[one.group].step < steps) {
        join_group(worker);
    } else if (one.group == kAlone && one.step < held(one.lease).steps) {
        begin_step(worker);
    } else {
        sum_->begun();
        member_done(worker);
    }
}

/// Its part of the round is on its way.
void RingJob::member_done(int worker) {
    seat(worker).computed_at_s = now();
    sum_->done();
}

void RingJob::begin_group_step(Group& group) {
    std::vector<int> nodes;
    for (const int worker : group.members) {
        nodes.push_back(node_of(worker));
    }
    const std::size_t index = seat(group.members.front()).group;
    group.sum = std::make_unique<VirtualSum>(cluster(), std::move(nodes), bytes(),
                                             [this, index] { group_step_over(index); });
}

/// Who has no samples passes on at once.
void RingJob::join_group(int worker) {
    Seat& one = seat(worker);
    VirtualSum& sum = *groups_[one.group].sum;
    lanes().used(worker, 0, sum.bytes_of_a_member());
    if (one.lease != 0) {
        begin_step(worker);
        return;
    }
    one.computed_at_s = now();
    sum.begun();
    sum.done();
}

void RingJob::group_step_over(std::size_t index) {
    Group& group = groups_[index];
    const bool last = ++group.step == granted_.front().steps;
    for (const int worker : group.members) {
        lanes().span(worker, LaneSpan::Kind::kWait, seat(worker).computed_at_s, now());
    }
    if (!last) {
        begin_group_step(group);
    }
    for (const int worker : group.members) {
        local_update(worker);
    }
}

/// A step in the picture: forward takes its share of the time that backward took.
void RingJob::note_step(int worker) {
    Seat& one = seat(worker);
    const double share = spec().workload.backward_share;
    const double device_s = share > 0 ? (now() - one.backward_at_s) / share : 0;
    const double input_at_s = std::min(one.begun_s + one.delay_s, now());
    const double forward_at_s = std::max(now() - device_s, input_at_s);
    lanes().span(worker, LaneSpan::Kind::kDelay, one.begun_s, input_at_s);
    lanes().span(worker, LaneSpan::Kind::kInput, input_at_s, forward_at_s);
    lanes().span(worker, LaneSpan::Kind::kCompute, forward_at_s, now());
    one.record.input_s += forward_at_s - one.begun_s;
    one.cpu.wanted_s += one.wanted_s;
    one.cpu.took_s += forward_at_s - input_at_s;
    one.record.use.cpu_share = cpu_share(worker, one.cpu);
}

/// The last to arrive shows the shortest exchange: that is everybody's own, the rest is waiting.
/// @param bytes  that each member sent and received
void RingJob::note_round(double bytes) {
    double own_s = now();
    for (const int worker : members_) {
        own_s = std::min(own_s, now() - seat(worker).computed_at_s);
    }
    for (const int worker : members_) {
        const double sends_at_s = now() - own_s;
        Seat& one = seat(worker);
        one.next = {.pull_s = own_s, .wait_s = sends_at_s - one.computed_at_s};
        one.next.use.rx_bytes_s = one.next.use.tx_bytes_s = rate(bytes / 2, sum_->moving_s());
        lanes().span(worker, LaneSpan::Kind::kWait, seat(worker).computed_at_s, sends_at_s);
        lanes().span(worker, LaneSpan::Kind::kPush, sends_at_s, now());
        lanes().used(worker, 0, bytes);
    }
}

}  // namespace cohort
