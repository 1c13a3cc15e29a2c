#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "sched/session/ring/round_scheduler.hpp"
#include "sim/job/ring_job_round.hpp"

namespace cohort {

/// What riders compute, and the parameters that they go on with.
class RingJob::Rides {
public:
    explicit Rides(RingJob& job) : job_(job), riders_(job.at(job.workers())) {}

    /// Riders that have parameters begin, for as long as there are leases.
    void begin() {
        while (!parked_.empty() && begin(*parked_.begin())) {
        }
    }

    /// A worker is a rider from now on, with the parameters of now.
    /// What it has not applied of the parameters of now it applies before it begins.
    void join(int worker) {
        at(worker).parameters = job_.parameters_for(worker, 0);
        at(worker).version = job_.engine().version();
        park(worker);
    }

    /// It begins nothing, or goes on.
    void set_holding(int worker, bool holding) {
        if (holding) {
            parked_.erase(worker);
        } else if (at(worker).ready) {
            parked_.insert(worker);
        }
    }

    /// The worker is a member: it gives up parameters that it has or is sent.
    void leave(int worker) {
        at(worker).ready = false;
        at(worker).parameters.reset();
    }

    /// Its push is settled: the giver sends it the parameters of now.
    void release(int worker, double lag, int giver) {
        Rider& rider = at(worker);
        Worker& one = job_.worker(worker);
        const double begun_s = job_.now();
        rider.riding = false;
        rider.parameters = job_.parameters_for(worker, lag);
        rider.version = job_.engine().version();
        job_.lanes.span(worker, LaneSpan::Kind::kWait, rider.pushed_at_s, begun_s);
        one.record = {.wait_s = begun_s - rider.pushed_at_s};
        one.receive(giver, job_.bytes_, [this, worker, begun_s] { received(worker, begun_s); });
    }

    [[nodiscard]] bool riding(int worker) const { return riders_[job_.at(worker)].riding; }
    [[nodiscard]] int parent_of_push(int worker) const { return riders_[job_.at(worker)].parent; }
    /// The last mini-batch that it has begun.
    [[nodiscard]] std::uint64_t begun(int worker) const { return riders_[job_.at(worker)].begun; }
    /// Of the parameters that it computes on.
    [[nodiscard]] std::int64_t version(int worker) const {
        return riders_[job_.at(worker)].version;
    }
    [[nodiscard]] bool pushing() const {
        return std::any_of(riders_.begin(), riders_.end(),
                           [](const Rider& rider) { return rider.push != 0; });
    }

    void cancel() {
        parked_.clear();
        for (Rider& rider : riders_) {
            if (rider.push != 0) {
                job_.cluster.cancel(std::exchange(rider.push, 0));
            }
        }
    }

private:
    struct Rider {
        bool ready = false;       ///< it has parameters that it has not used
        bool riding = false;      ///< from the start of a mini-batch until it is applied or refused
        std::uint64_t begun = 0;  ///< mini-batches
        int parts = 0;            ///< of those under way: the computation, the push
        int parent = 0;           ///< of the push under way
        VirtualCluster::WorkId push = 0;
        double pushed_at_s = 0;
        Learner::Released parameters;
        std::int64_t version = 0;  ///< of them
    };
    [[nodiscard]] Rider& at(int worker) { return riders_[job_.at(worker)]; }
    /// False when there is no lease for it.
    bool begin(int worker) {
        VirtualLease* const mine = job_.take_lease(worker);
        if (mine == nullptr) {
            return false;
        }
        check_invariant(mine->work == Work::kGradient, "riders compute gradients");
        parked_.erase(worker);
        Rider& rider = at(worker);
        rider.ready = false;
        rider.riding = true;
        ++rider.begun;
        rider.parts = 2;
        rider.parent = job_.ring_.roster.seat(worker).parent;
        job_.worker(worker).begin(mine->id);
        job_.worker(worker).record.input_s = 0;
        mine->computed =
            job_.learner.start(job_.job_of(*mine, std::exchange(rider.parameters, nullptr)));
        job_.worker(worker).apply_update([this, worker] {
            job_.worker(worker).begin_step([this, worker] { backward(worker); },
                                           [this, worker] { part_done(worker); });
        });
        return true;
    }

    void backward(int worker) {
        at(worker).push = job_.cluster.send(job_.node_of(worker), job_.node_of(at(worker).parent),
                                            job_.bytes_, [this, worker] {
                                                at(worker).push = 0;
                                                part_done(worker);
                                            });
    }

    /// The gradient is ready for the next grant once it is computed and with the parent.
    void part_done(int worker) {
        Rider& rider = at(worker);
        if (--rider.parts > 0) {
            return;
        }
        note_times(worker);
        rider.pushed_at_s = job_.now();
        const VirtualLease& mine = job_.leases_out.at(job_.worker(worker).lease);
        const PushId push{.worker = worker, .sequence = rider.begun};
        job_.ring_.riders.add_ticket({.id = push,
                                      .lease = mine.id,
                                      .version = rider.version,
                                      .samples = mine.slice.count,
                                      .work = mine.work});
        job_.ring_.riders.add_gradient(push, rider.parent);
        job_.happened();
    }

    void note_times(int worker) {
        Worker& one = job_.worker(worker);
        const double now = job_.now();
        one.record.compute_s = one.own_s - one.record.input_s;
        const double sent_s = now - one.computed_at_s;
        const double card_s = job_.alone_s(job_.cluster.shares(job_.place(worker)).tx);
        one.record.push_s = std::clamp(one.backward_at_s + card_s - one.computed_at_s, 0.0, sent_s);
        one.record.wait_s += sent_s - one.record.push_s;
        one.record.use.tx_bytes_s = rate(job_.bytes_, now - one.backward_at_s);
        job_.iteration_ends_.timed({.lease = one.lease,
                                    .version = at(worker).version,
                                    .own_s = one.own_s,
                                    .record = one.record});
        job_.lanes.span(worker, LaneSpan::Kind::kPush, one.computed_at_s, now);
        for (const int end : {worker, at(worker).parent}) {
            job_.lanes.used(end, 0, job_.bytes_);
        }
    }

    void received(int worker, double begun_s) {
        Worker& one = job_.worker(worker);
        const double took_s = job_.now() - begun_s;
        one.record.pull_s =
            std::min(took_s, job_.alone_s(job_.cluster.shares(job_.place(worker)).rx));
        one.record.wait_s += took_s - one.record.pull_s;
        one.record.use.rx_bytes_s = rate(job_.bytes_, took_s);
        park(worker);
        job_.lanes.span(worker, LaneSpan::Kind::kPull, begun_s, job_.now());
        job_.happened();
    }

    /// It has parameters that it has not used.
    void park(int worker) {
        at(worker).ready = true;
        if (job_.ring_.roster.seat(worker).role == RingRole::kRider) {
            parked_.insert(worker);
        }
    }

    RingJob& job_;
    std::vector<Rider> riders_;
    std::set<int> parked_;  ///< riders that are ready
};

/// What becomes of a round that is over: an update, or nothing.
class RingJob::RoundEnd final : private RoundFeed {
public:
    explicit RoundEnd(RingJob& job) : job_(job), booking_(job.workers(), job.ring_.riders, *this) {}

    void settle(const Round& round);
    /// Rounds that are granted and have not begun are as if they had not been granted.
    void skip_unbegun();
    [[nodiscard]] bool finite(std::uint64_t lease);
    /// A rider's gradient that is not finite.
    void refuse(const PushId& push);

private:
    void push(std::uint64_t lease) override;
    void carry_out(const std::vector<Effect>& effects) override {
        job_.effects_.carry_out(effects);
    }
    void apply(const Round& round);
    void abort(const Round& round, const std::vector<ReturnReason>& reasons);
    void unused(int worker, std::int64_t samples, ReturnReason reason);

    RingJob& job_;
    RoundBooking booking_;
    std::int64_t computed_on_ = 0;  ///< version, of the round that is booked
};

}  // namespace cohort
