#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sched/plan/ring_rules.hpp"
#include "sim/cluster/virtual_sum.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// A virtual job on a ring. All members hold the same parameters. In steps:
///  1. A round is granted while the one before the last still runs: each member's next lease, and
///     the gradients of riders that their parents hold by then.
///  2. Each member works off the update of the round before and computes. The all-reduce begins
///     when the last one's backward begins (of deltas: when the last one is done); the round is
///     over when it and all members are.
///  3. The engine gets the pushes, riders' first; its fire is the update of all members, who go on
///     with the next grant at once.
/// A rider computes at its own pace on parameters that its parent sent after the round that took
/// its last gradient; the gradient leaves for the parent while backward runs (ring_job_riders.cpp).
/// A plan is put in force where no round is under way (ring_job_switch.cpp).
class RingJob final : public VirtualJob {
public:
    RingJob(VirtualCluster& cluster, Learner& learner, JobSpec spec);
    [[nodiscard]] bool stuck() const override;

private:
    using ClusterWork = VirtualCluster::WorkId;
    /// A rider's gradient that its parent holds.
    struct RiderPush {
        int worker = 0;
        int parent = 0;
        std::uint64_t lease = 0;
        std::int64_t version = 0;  ///< of the parameters it was computed on
    };
    /// A grant.
    struct Round {
        std::vector<std::uint64_t> leases;  ///< as members_; 0: takes part with nothing
        std::vector<RiderPush> riders;      ///< in order of arrival
        std::int64_t samples = 0;
        std::int32_t steps = 1;  ///< local ones
    };
    /// Consecutive members that average at every local step.
    struct Group {
        std::vector<int> members;
        std::unique_ptr<VirtualSum> sum;  ///< of the step
        std::int32_t step = 0;
    };
    struct Seat {
        RingRole role = RingRole::kMember;
        bool idle = false;           ///< as the engine knows it
        ClusterWork work = 0;        ///< update, computation, or state and parameters on their way
        std::uint64_t lease = 0;     ///< that it computes on
        std::int32_t step = 0;       ///< local one
        double begun_s = 0;          ///< of the step
        double delay_s = 0;          ///< of it
        double wanted_s = 0;         ///< of it: input work with all processors
        double backward_at_s = 0;    ///< of it
        double computed_at_s = 0;    ///< all of the lease
        double own_s = 0;            ///< of the lease
        IterationRecord record;      ///< of the lease, as far as it is known
        CpuTime cpu;                 ///< of its input work
        IterationRecord next;        ///< what the round that is over says of the next lease
        bool update_due = false;     ///< it has not worked off the last round's update
        bool entering = false;       ///< a member whose state is on its way
        std::size_t group = kAlone;  ///< of the round
        // A rider's:
        int parent = 0;
        bool flush = false;   ///< a fence waits for what it has begun
        bool ready = false;   ///< it has parameters that it has not used
        bool riding = false;  ///< from the start of a mini-batch until it is applied or refused
        int parts = 0;        ///< of those under way: the computation, the push
        int pushes_to = 0;    ///< parent of the push under way
        ClusterWork push = 0;
        double pushed_at_s = 0;
        Learner::Released parameters;
        std::int64_t version = 0;  ///< of them
    };
    static constexpr std::size_t kAlone = static_cast<std::size_t>(-1);

    // VirtualJob (ring_job.cpp).
    void start_work() override;
    void deal() override;
    void fired(const Fire& fire) override;
    void released(const ReleaseOne& /*release*/) override {}  // rounds release
    void interrupted(const Interrupt& interrupt) override;
    void install(PlanChange change) override;
    [[nodiscard]] std::vector<double> coefficients(const Fire& fire) const override;
    void end_work() override;

    // Rounds (ring_job.cpp).
    [[nodiscard]] bool grant();
    void begin_next();
    void start_learning(const Round& round);
    void round_over();
    void settle(const Round& round);
    [[nodiscard]] bool finite(const Round& round);
    void void_round(const Round& round);
    void tell_engine(int worker, std::uint64_t lease);
    [[nodiscard]] Lease& held(std::uint64_t lease_id);
    [[nodiscard]] std::int64_t samples_of(std::uint64_t lease_id);

    // Members' and riders' work (ring_job_work.cpp).
    void form_groups(const Round& round);
    void get_ready(int worker);
    void work_off_update(int worker, VirtualCluster::Action then);
    void update(int worker, VirtualCluster::Action then);
    void begin_member(int worker);
    void begin_step(int worker);
    void backward(int worker);
    void computed(int worker);
    void local_update(int worker);
    void step_over(int worker);
    void member_done(int worker);
    void begin_group_step(Group& group);
    void join_group(int worker);
    void group_step_over(std::size_t group);
    void note_step(int worker);
    void note_round(double bytes);

    // Riders (ring_job_riders.cpp).
    void start_riders();
    bool start_ride(int worker);
    void park(int worker);
    void ride_part_done(int worker);
    [[nodiscard]] bool usable(const RiderPush& push);
    void add_riders(Round& next);
    void release_rider(int worker, double lag, int giver);
    [[nodiscard]] std::vector<RingSeat> ring_seats() const;

    // Plans (ring_job_switch.cpp).
    void prepare_fence(const std::vector<int>& next);
    [[nodiscard]] bool fence_ready() const;
    void skip_unbegun();
    void switch_over();
    void bring(int worker, int giver);
    void make_rider(int worker);

    [[nodiscard]] bool is_member(int worker) const;
    [[nodiscard]] Seat& seat(int worker) { return seats_[at(worker)]; }
    [[nodiscard]] double bytes() const noexcept { return spec().workload.parameter_bytes; }

    std::vector<Seat> seats_;          ///< by worker
    std::vector<int> members_;         ///< in ring order
    std::set<int> parked_;             ///< riders that are ready
    std::deque<RiderPush> ready_;      ///< not granted, in order of arrival
    std::deque<Round> granted_;        ///< not over, oldest first
    bool running_ = false;             ///< the oldest one has begun
    std::unique_ptr<VirtualSum> sum_;  ///< of the round that runs
    std::vector<Group> groups_;        ///< of it
    std::optional<PlanChange> next_;   ///< waits for its fence
};

}  // namespace cohort
