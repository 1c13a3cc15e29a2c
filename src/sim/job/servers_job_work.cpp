#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/job/servers_job.hpp"
#include "sim/job/servers_job_servers.hpp"

// A worker's iteration: computing, alone or in a group, and the push.
namespace cohort {

/// With parameters and a lease, neither used yet.
void ServersJob::start(int index) {
    Worker& w = worker(index);
    if (!w.ready || w.lease == 0 || w.computing || w.validating) {
        return;
    }
    if (w.validation) {
        start_validation(index);
        return;
    }
    w.ready = false;
    w.computing = true;
    w.push_done = false;
    w.begin(w.lease);
    w.record.input_s = 0;
    if (w.group == nullptr) {
        begin_step(index);
        return;
    }
    const std::shared_ptr<Group> group = w.group;
    if (++group->arrived == group->members.size()) {
        for (const int member : group->members) {
            begin_step(member);
        }
    }
}

void ServersJob::begin_step(int index) {
    lanes.span(index, LaneSpan::Kind::kWait, worker(index).free_since_s, now());
    worker(index).begin_step([this, index] { backward(index); },
                             [this, index] { step_done(index); });
}

void ServersJob::backward(int index) {
    const Worker& w = worker(index);
    if (lease_of(index).work == Work::kGradient) {
        begin_push(index);
    } else if (w.group != nullptr) {
        group_backward(w.group);
    }
}

void ServersJob::step_done(int index) {
    Worker& w = worker(index);
    w.free_since_s = now();
    if (w.group != nullptr) {
        ++w.group->computed;
        group_step(w.group);
    } else if (lease_of(index).work == Work::kDelta) {
        local_update(index);
    } else {
        lease_computed(index);
    }
}

/// Of its own parameters with its own or its group's gradient.
void ServersJob::local_update(int index) {
    lanes.span(index, LaneSpan::Kind::kWait, worker(index).free_since_s, now());
    worker(index).update([this, index] {
        Worker& w = worker(index);
        w.own_s += now() - w.current.begun_s;
        w.computed_at_s = w.free_since_s = now();
        if (w.step < lease_of(index).steps) {
            begin_step(index);
        } else {
            lease_computed(index);
        }
    });
}

/// Gradients leave while backward runs: the average is under way from the moment when the last
/// member has some.
void ServersJob::group_backward(const std::shared_ptr<Group>& group) {
    if (++group->backwards < group->members.size()) {
        return;
    }
    ++under_way_;
    const double bytes = spec.workload.parameter_bytes;
    group->averaging = cluster.all_reduce(group->nodes, bytes, [this, group, bytes] {
        --under_way_;
        group->averaging = 0;
        group->averaged = true;
        const auto count = static_cast<double>(group->members.size());
        for (const int member : group->members) {
            lanes.used(member, 0, 4 * (count - 1) / count * bytes);
        }
        group_step(group);
    });
}

/// The step is over when all have computed it and the average is there.
void ServersJob::group_step(const std::shared_ptr<Group>& group) {
    if (group->computed < group->members.size() || !group->averaged) {
        return;
    }
    group->backwards = 0;
    group->computed = 0;
    group->averaged = false;
    for (const int member : group->members) {
        local_update(member);
    }
}

void ServersJob::lease_computed(int index) {
    Worker& w = worker(index);
    w.computing = false;
    lanes.span(index, LaneSpan::Kind::kWait, w.free_since_s, now());
    w.free_since_s = now();
    if (lease_of(index).work == Work::kDelta) {
        begin_push(index);
    } else if (w.push_done) {
        arrived(index);
    }
}

/// What stays on the node takes no time beside backward, which wrote it.
void ServersJob::begin_push(int index) {
    Worker& w = worker(index);
    if (!w.staged) {
        w.push = send_push(index, [this, index, turn = w.turn] { pushed(index, turn); });
        return;
    }
    servers_->stage(w.lease);
    w.push_done = true;
    if (!w.computing) {
        arrived(index);
    }
}

ServersJob::ClusterWork ServersJob::send_push(int index, Action done) {
    const double bytes = spec.workload.parameter_bytes;
    ++under_way_;
    worker(index).pushing_since_s = now();
    return cluster.scatter(node_of(index), spec.server_nodes, bytes,
                           [this, index, bytes, finished = std::move(done)] {
                               --under_way_;
                               servers_->pushed(node_of(index), 1);
                               lanes.used(index, 0, bytes);
                               finished();
                           });
}

/// @param turn  the worker's when the push began: later it is one that was given up
void ServersJob::pushed(int index, std::uint64_t turn) {
    Worker& w = worker(index);
    if (w.turn != turn) {
        return;
    }
    w.push = 0;
    w.push_done = true;
    w.record.use.tx_bytes_s = rate(spec.workload.parameter_bytes, now() - w.pushing_since_s);
    if (!w.computing) {
        arrived(index);
    }
}

/// What is complete at the same moment goes to the engine in the order of workers.
void ServersJob::arrived(int index) {
    arrivals_.push_back({.worker = index, .turn = worker(index).turn});
    if (arrivals_.size() == 1) {
        ++under_way_;
        settling_ = cluster.queue().at(now(), [this] { settle_arrivals(); });
    }
}

void ServersJob::settle_arrivals() {
    --under_way_;
    settling_ = 0;
    std::vector<Release> arrivals = std::exchange(arrivals_, {});
    std::sort(arrivals.begin(), arrivals.end(),
              [](const Release& a, const Release& b) { return a.worker < b.worker; });
    for (const Release& arrival : arrivals) {
        if (worker(arrival.worker).turn == arrival.turn) {  // else it was interrupted
            complete(arrival.worker);
        }
    }
}

/// What the worker did is all its own time, but for waiting for a group.
void ServersJob::complete(int index) {
    Worker& w = worker(index);
    lanes.span(index, LaneSpan::Kind::kPush, w.computed_at_s, now());
    w.free_since_s = now();
    w.group = nullptr;
    w.record.compute_s = w.own_s - w.record.input_s;
    const double sent_s = now() - w.computed_at_s;
    const double card_s = alone_s(cluster.shares(place(index)).tx);
    w.record.push_s = std::clamp(w.pushing_since_s + card_s - w.computed_at_s, 0.0, sent_s);
    w.record.wait_s += sent_s - w.record.push_s;
    w.record.use.cpu_share = w.cpu_share();
    (void)scheduler_.arrived(index);
    push({.lease = std::exchange(w.lease, 0),
          .version = w.version,
          .own_s = w.own_s + now() - w.computed_at_s,
          .record = w.record});
    happened();
}

/// A gradient that others are compared with: computed on the parameters of the lease that follows,
/// and pushed like any other.
void ServersJob::start_validation(int index) {
    Worker& w = worker(index);
    const ValidationSampler::Dealt dealt = *std::exchange(w.validation, std::nullopt);
    w.validating = true;
    w.validation_work = learner.start(
        {.worker = index,
         .slice = {.epoch = dealt.epoch, .position = dealt.position, .count = dealt.count},
         .parameters = w.parameters});
    validations_.insert(w.validation_work);
    const auto part = [this, learned = w.validation_work, left = std::make_shared<int>(2)] {
        if (--*left == 0) {
            validated(learned);
        }
    };
    lanes.span(index, LaneSpan::Kind::kWait, w.free_since_s, now());
    w.compute(
        dealt.count, [this, index, part] { send_push(index, part); },
        [this, index, part] {
            Worker& self = worker(index);
            --self.step;  // the lease before it has had its last
            self.free_since_s = now();
            self.validating = false;
            part();
            start(index);
        });
}

void ServersJob::validated(Learner::WorkId learned) {
    if (validations_.erase(learned) == 0) {
        return;  // given up meanwhile
    }
    if (learner.outcome(learned).finite) {
        learner.set_reference(learned);
    } else {
        learner.forget(learned);
    }
}

}  // namespace cohort
