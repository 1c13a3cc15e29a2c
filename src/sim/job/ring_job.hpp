#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sched/session/ring/ring.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// A virtual job on a ring. All members hold the same parameters. In steps:
///  1. A round is granted while the one before the last still runs: each member's next lease, and
///     the gradients of riders that their parents hold by then.
///  2. Each member applies the update of the round before and computes. The all-reduce begins
///     when the last one's backward begins (of deltas: when the last one is done); the round is
///     over when it and all members are (RunningRound).
///  3. The engine gets the pushes, riders' first; its fire is the update of all members, who go on
///     with the next grant at once.
/// A rider computes at its own pace on parameters that its parent sent after the round that took
/// its last gradient; the gradient leaves for the parent while backward runs (Rides).
/// A plan is put in force where no round is under way.
class RingJob final : public VirtualJob, private RingDriver {
public:
    RingJob(VirtualCluster& on, Learner& model, JobSpec job);
    ~RingJob() override;
    [[nodiscard]] bool stuck() const override;

private:
    class Worker;
    class RunningRound;
    class RoundEnd;
    class Rides;

    // VirtualJob
    void start_work() override { ring_.plans.place(engine().plan()); }
    void give_leases() override;
    void fired(const Fire& fire) override;
    void interrupt(const Interrupt& /*interrupt*/, const ReturnLease* /*lease*/) override {
        check_invariant(false, "no plan of a ring interrupts");
    }
    void install(PlanChange change) override { ring_.plans.install(std::move(change), true); }
    void end_work() override;

    // RingDriver
    [[nodiscard]] double learning_rate(std::int64_t samples) const override {
        return spec.schedule.lr(spec.lr, samples);
    }
    RoundLease claim(int worker) override;
    bool usable(const PushId& push) override;
    void give_role(int worker, RingRole role, int parent) override;
    void enter(int worker, int giver) override;

    /// A lease for a worker, with work as the plan in force wants it: its batch times the local
    /// steps. The engine is not told. Null when there is none to give for now.
    VirtualLease* take_lease(int worker);
    void begin_next();
    void round_over();
    void switch_over();
    [[nodiscard]] Worker& worker(int index);

    Ring ring_;
    std::unique_ptr<RoundEnd> ends_;
    std::vector<Worker> workers_;
    std::vector<std::int64_t> batches_;  ///< by worker
    std::unique_ptr<Rides> rides_;
    std::unique_ptr<RunningRound> running_;  ///< the oldest that is granted, once it has begun
    EffectInterpreter effects_;
    const double bytes_;  ///< of the parameters on the wire
};

}  // namespace cohort
