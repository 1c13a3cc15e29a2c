#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "session/ring/round_scheduler.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/job/ring_job.hpp"

namespace cohort {

/// An all-reduce over what some members compute: it begins when the last one's part begins to
/// leave, and the sum is over when it and all members' computations are.
class VirtualSum {
public:
    using Action = VirtualCluster::Action;

    /// @param nodes of the members, in ring order  @param over called once, by an event
    VirtualSum(VirtualCluster& cluster, std::vector<int> nodes, double bytes, Action over);
    VirtualSum(const VirtualSum&) = delete;
    VirtualSum& operator=(const VirtualSum&) = delete;
    /// What is in progress is cancelled.
    ~VirtualSum();

    /// One more member's part begins to leave.
    void begun();
    /// One more member has computed; begun() came before.
    void done();
    /// Bytes that each member sends and receives.
    [[nodiscard]] double bytes_of_a_member() const noexcept;
    /// How long they were in flight; 0: a member alone, or not over.
    [[nodiscard]] double moving_s() const noexcept { return moving_s_; }

private:
    void arrived();

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
    Worker(RingJob& job, int index) : VirtualWorker(job, index), job_(&job), index_(index) {}

    /// The update of the last round, if the worker has not applied it.
    void apply_update(Action then);
    /// Bytes for it are in flight: the worker's work until they arrive, and then `done`.
    void receive(int giver, double bytes, Action done);
    /// What it does, or receives, is given up.
    void give_up();

    IterationRecord next;     ///< what the round that is over says of the next lease
    bool update_due = false;  ///< it has not applied the last round's update
    bool entering = false;    ///< a member whose state is in flight

private:
    RingJob* job_;
    int index_;
};

/// The round that runs: what its members compute, in groups if the plan wants it, and their sum.
class RingJob::RunningRound {
public:
    RunningRound(RingJob& job, const Round& round);
    /// A member's state is received.
    void begin_member(int worker);
    void begin();
    /// The round is over.
    void note_times();

private:
    /// Consecutive members that average at every local step.
    struct Group {
        std::vector<int> members;
        std::unique_ptr<VirtualSum> sum;  ///< of the step
        std::int32_t step = 0;
    };
    void form_groups();
    void start_learning();
    void begin_step(int worker);
    void backward(int worker);
    void computed(int worker);
    [[nodiscard]] std::unique_ptr<VirtualSum> sum_of(const std::vector<int>& workers,
                                                     Worker::Action over);
    void local_update(int worker);
    void step_over(int worker);
    void member_done(int worker);
    void begin_group_step(Group& group);
    void join_group(int worker, Group& group);
    void group_step_over(Group& group);

    RingJob& job_;
    const Round& round_;
    std::unique_ptr<VirtualSum> sum_;
    std::deque<Group> groups_;
    std::vector<Group*> group_of_;  ///< by worker; null: none
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
        job_.effects().carry_out(effects);
    }
    void apply(const Round& round);
    void abort(const Round& round, const std::vector<ReturnReason>& reasons);
    void unused(int worker, std::int64_t samples, ReturnReason reason);

    RingJob& job_;
    RoundBooking booking_;
    std::int64_t computed_on_ = 0;  ///< version, of the round that is booked
};

/// What riders compute, and the parameters that they go on with.
class RingJob::Rides {
public:
    explicit Rides(RingJob& job) : job_(job), riders_(job.at(job.workers())) {}

    /// Riders that have parameters begin, for as long as there are leases.
    void begin();
    /// A worker is a rider from now on, with the parameters of now.
    void join(int worker);
    /// It begins nothing, or goes on.
    void set_holding(int worker, bool holding);
    /// The worker is a member: it gives up parameters that it has or is sent.
    void leave(int worker);
    /// Its push is settled: the giver sends it the parameters of now.
    void release(int worker, double lag, int giver);
    [[nodiscard]] bool riding(int worker) const { return riders_[job_.at(worker)].riding; }
    [[nodiscard]] int parent_of_push(int worker) const { return riders_[job_.at(worker)].parent; }
    /// The last mini-batch that it has begun.
    [[nodiscard]] std::uint64_t begun(int worker) const { return riders_[job_.at(worker)].begun; }
    /// Of the parameters that it computes on.
    [[nodiscard]] std::int64_t version(int worker) const {
        return riders_[job_.at(worker)].version;
    }
    [[nodiscard]] bool pushing() const;
    void cancel();

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
    bool begin(int worker);
    void backward(int worker);
    void part_done(int worker);
    void note_times(int worker);
    void received(int worker, double begun_s);
    void park(int worker);

    RingJob& job_;
    std::vector<Rider> riders_;
    std::set<int> parked_;  ///< riders that are ready
};

}  // namespace cohort
