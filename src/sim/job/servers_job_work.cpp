#include "sim/job/servers_job_work.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "sim/job/servers_job_servers.hpp"

namespace cohort {

void Validations::complete(Learner::WorkId work) {
    if (under_way_.erase(work) == 0) {
        return;
    }
    if (learner_.outcome(work).finite) {
        learner_.set_reference(work);
    } else {
        learner_.forget(work);
    }
}

void ServersJob::Arrivals::add(const Release& push) {
    pushes_.push_back(push);
    if (pushes_.size() == 1) {
        settling_ = job_.cluster.queue().at(job_.now(), [this] { settle(); });
    }
}

void ServersJob::Arrivals::settle() {
    settling_ = 0;
    std::vector<Release> pushes = std::exchange(pushes_, {});
    std::sort(pushes.begin(), pushes.end(),
              [](const Release& a, const Release& b) { return a.worker < b.worker; });
    for (const Release& push : pushes) {
        if (job_.worker(push.worker).released.turn == push.turn) {  // else it was interrupted
            job_.complete(push.worker);
        }
    }
}

void ServersJob::Arrivals::clear() {
    job_.cluster.queue().cancel(std::exchange(settling_, 0));
    pushes_.clear();
}

void ServersJob::Group::start_learning() {
    std::vector<Learner::Job> jobs;
    for (const int member : members_) {
        const Worker& one = job_.worker(member);
        jobs.push_back(job_of(one.dealt(), one.released.parameters));
    }
    const std::vector<Learner::WorkId> works = job_.learner.start_group(jobs);
    for (std::size_t i = 0; i < works.size(); ++i) {
        job_.worker(members_[i]).dealt().computed = works[i];
    }
}

void ServersJob::Group::arrive() {
    if (++arrived_ == members_.size()) {
        for (const int member : members_) {
            job_.worker(member).next_step();
        }
    }
}

/// Gradients leave while backward runs: the average is under way from the moment when the last
/// member has some.
void ServersJob::Group::backward() {
    if (++backwards_ < members_.size()) {
        return;
    }
    averaging_ = job_.transfers_.average(members_, [self = shared_from_this()] {
        self->averaging_ = 0;
        self->averaged_ = true;
        self->end_step();
    });
}

void ServersJob::Group::computed() {
    ++computed_;
    end_step();
}

/// The step is over when all have computed it and the average is there.
void ServersJob::Group::end_step() {
    if (computed_ < members_.size() || !averaged_) {
        return;
    }
    backwards_ = 0;
    computed_ = 0;
    averaged_ = false;
    for (const int member : members_) {
        job_.worker(member).local_update();
    }
}

/// Notes what the worker did until now; lanes go on from here.
void ServersJob::Worker::spent(LaneSpan::Kind kind, double since_s) {
    job_->lanes.span(index_, kind, since_s, job_->now());
    free_since_s = job_->now();
}

ServersJob::Release ServersJob::Worker::release(std::int64_t of_version, double lag) {
    released = {.parameters = job_->parameters_for(index_, lag),
                .version = of_version,
                .turn = released.turn + 1};
    if (pull_ != 0) {
        const double share = owner_->transfers_.cancel_pull(index_, pull_);
        job_->lanes.used(index_, 0, share * job_->spec.wire_parameter_bytes());
        spent(LaneSpan::Kind::kPull, free_since_s);
    }
    return {.worker = index_, .turn = released.turn, .lag = lag};
}

void ServersJob::Worker::pull(const UpdatePtr& update) {
    begin_pull();
    pull_ = owner_->transfers_.pull(index_, [this, update] {
        pull_ = 0;
        pull_arrived(update);
    });
}

void ServersJob::Worker::begin_pull() {
    record = {.wait_s = job_->now() - free_since_s};
    spent(LaneSpan::Kind::kWait, free_since_s);
}

void ServersJob::Worker::pull_arrived(const UpdatePtr& update) {
    record.use.rx_bytes_s = rate(job_->spec.wire_parameter_bytes(), job_->now() - free_since_s);
    if (update->working == 0) {
        pulled(released.turn);
    } else {
        update->there.push_back({.worker = index_, .turn = released.turn});
    }
}

void ServersJob::Worker::pulled(std::uint64_t turn) {
    if (released.turn != turn) {
        return;
    }
    released.unused = true;
    const double took_s = job_->now() - free_since_s;
    record.pull_s = std::min(took_s, job_->alone_s(job_->cluster.shares(job_->place(index_)).rx));
    record.wait_s += took_s - record.pull_s;
    spent(LaneSpan::Kind::kPull, free_since_s);
    start();
}

void ServersJob::Worker::deal(const LeaseOrder& order) {
    lease = job_->add_lease(index_, order).id;
    staged_ = order.staged;
}

void ServersJob::Worker::start_learning() {
    if (group == nullptr) {
        dealt().computed = job_->learner.start(job_of(dealt(), released.parameters));
    } else if (group->led_by(index_)) {
        group->start_learning();
    }
}

void ServersJob::Worker::start() {
    if (!released.unused || lease == 0 || computing_ || validating != 0) {
        return;
    }
    if (validation) {
        start_validation(*std::exchange(validation, std::nullopt));
        return;
    }
    released.unused = false;
    computing_ = true;
    push_done_ = false;
    begin(lease);
    record.input_s = 0;
    if (group == nullptr) {
        next_step();
    } else {
        group->arrive();
    }
}

/// A gradient that others are compared with: computed on the parameters of the lease that follows,
/// and pushed like any other.
void ServersJob::Worker::start_validation(const ValidationSampler::Dealt& reference) {
    const std::int64_t count = reference.count;
    validating = owner_->validations_->begin(
        {.worker = index_,
         .slice = {.epoch = reference.epoch, .position = reference.position, .count = count},
         .parameters = released.parameters});
    const auto part = [this, learned = validating, left = std::make_shared<int>(2)] {
        if (--*left == 0) {
            owner_->validations_->complete(learned);
        }
    };
    spent(LaneSpan::Kind::kWait, free_since_s);
    compute(
        count, [this, part] { send_push(part); },
        [this, part] {
            --step;  // the lease before it has had its last
            free_since_s = job_->now();
            validating = 0;
            part();
            start();
        });
}

void ServersJob::Worker::next_step() {
    spent(LaneSpan::Kind::kWait, free_since_s);
    begin_step([this] { backward(); }, [this] { step_done(); });
}

void ServersJob::Worker::backward() {
    if (dealt().work == Work::kGradient) {
        begin_push();
    } else if (group != nullptr) {
        group->backward();
    }
}

void ServersJob::Worker::step_done() {
    free_since_s = job_->now();
    if (group != nullptr) {
        group->computed();
    } else if (dealt().work == Work::kDelta) {
        local_update();
    } else {
        lease_computed();
    }
}

void ServersJob::Worker::local_update() {
    spent(LaneSpan::Kind::kWait, free_since_s);
    update([this] {
        own_s += job_->now() - current.begun_s;
        computed_at_s = free_since_s = job_->now();
        if (step < dealt().steps) {
            next_step();
        } else {
            lease_computed();
        }
    });
}

void ServersJob::Worker::lease_computed() {
    computing_ = false;
    spent(LaneSpan::Kind::kWait, free_since_s);
    if (dealt().work == Work::kDelta) {
        begin_push();
    } else if (push_done_) {
        owner_->arrivals_->add({.worker = index_, .turn = released.turn});
    }
}

/// What stays on the node takes no time beside backward, which wrote it.
void ServersJob::Worker::begin_push() {
    if (staged_) {
        owner_->servers_->stage(lease);
        push_over();
        return;
    }
    push_ = send_push([this, turn = released.turn] {
        if (released.turn != turn) {
            return;  // it was given up
        }
        push_ = 0;
        record.use.tx_bytes_s =
            rate(job_->spec.wire_parameter_bytes(), job_->now() - pushing_since_s_);
        push_over();
    });
}

ServerTransfers::Id ServersJob::Worker::send_push(Action done) {
    pushing_since_s_ = job_->now();
    return owner_->transfers_.push(index_, std::move(done));
}

void ServersJob::Worker::push_over() {
    push_done_ = true;
    if (!computing_) {
        owner_->arrivals_->add({.worker = index_, .turn = released.turn});
    }
}

/// What the worker did is all its own time, but for waiting for a group.
IterationEnds::End ServersJob::Worker::complete() {
    const double sent_s = job_->now() - computed_at_s;
    spent(LaneSpan::Kind::kPush, computed_at_s);
    group = nullptr;
    record.compute_s = own_s - record.input_s;
    const double card_s = job_->alone_s(job_->cluster.shares(job_->place(index_)).tx);
    record.push_s = std::clamp(pushing_since_s_ + card_s - computed_at_s, 0.0, sent_s);
    record.wait_s += sent_s - record.push_s;
    record.use.cpu_share = cpu_share();
    return {.lease = std::exchange(lease, 0),
            .version = released.version,
            .own_s = own_s + job_->now() - computed_at_s,
            .record = record};
}

void ServersJob::Worker::give_up() {
    check_invariant(group == nullptr || !group->begun(), "a group is not parted");
    if (work != 0) {
        const double input_s = current.cost.cpu_core_s / current.cost.cpu_threads;
        const double done_s =
            (1 - cancel()) * (current.delay_s + input_s + current.cost.device_s) - current.delay_s;
        job_->lanes.used(index_, std::clamp(done_s, 0.0, input_s) * current.cost.cpu_threads, 0);
        spent(LaneSpan::Kind::kLost, current.begun_s);
    } else if (push_ != 0) {
        spent(LaneSpan::Kind::kLost, computed_at_s);
    }
    if (validating != 0) {
        owner_->validations_->give_up(std::exchange(validating, 0));
    }
    computing_ = false;
    push_ = 0;
}

void ServersJob::Worker::end() {
    owner_->transfers_.cancel_pull(index_, pull_);
    owner_->transfers_.cancel_push(index_, push_);
    (void)cancel();
    if (group != nullptr) {
        std::exchange(group, nullptr)->cancel();
    }
    released.parameters = nullptr;
    ++released.turn;
}

}  // namespace cohort
