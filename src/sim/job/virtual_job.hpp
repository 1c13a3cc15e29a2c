#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/effect_interpreter.hpp"
#include "sim/job/job_context.hpp"

namespace cohort {

/// A training job on a virtual cluster: drives a training session by what happens on the cluster
/// and carries out its orders there. Architectures derive from it: they say when pushes arrive and
/// what releases and interruptions mean.
///
/// An architecture's event (a push that has arrived, a round that is over) calls push() or the
/// engine and carry_out(), then happened(). Events of a job that is over must not come: end_work()
/// cancels what is under way.
class VirtualJob : public JobContext, protected EffectHandler {
public:
    /// As JobContext.
    VirtualJob(VirtualCluster& on, Learner& model, JobSpec job);

    /// Everybody starts, at the cluster's time. Once.
    void begin();
    /// Ends it with a reason for SimulationResult::stop_reason. Nothing happens when it is over.
    void end(const std::string& reason);
    [[nodiscard]] bool over() const noexcept { return over_; }
    /// Nothing of it is under way: it would wait for ever.
    [[nodiscard]] virtual bool stuck() const = 0;

    /// The result of a job that is over, as far as the job knows it.
    virtual const SimulationResult& report();

protected:
    /// A push that is complete, or an iteration that is over, beside what the learner knows.
    struct Arrival {
        std::uint64_t lease = 0;
        std::int64_t version = 0;  ///< of the parameters that it was computed on
        double own_s = 0;  ///< WorkerReport::own_s, not scaled; 0: timed() before, or not measured
        IterationRecord record;  ///< its times and what it used; not looked at without own_s
    };

    // What an architecture does.
    /// Sends everybody to work.
    virtual void start_work() = 0;
    /// After each event: gives out leases; whoever gets none is idle.
    virtual void give_leases() {}
    /// A push goes to the engine.
    virtual void deliver(const SessionPush& push) { effects().push(push); }
    /// An update was made: the learner has its parameters, releases are to be carried out.
    virtual void fired(const Fire& fire) = 0;
    /// Another plan is wanted: it is put in force now, or once the fence that it needs is reached;
    /// of several the newest counts, with the newest batches that were given.
    virtual void install(PlanChange change) = 0;
    /// Carries out what the engine decides.
    [[nodiscard]] virtual EffectInterpreter& effects() { return effects_; }
    /// Cancels what is under way.
    virtual void end_work() = 0;

    // What it does it with.
    /// No new work is given out any more.
    [[nodiscard]] bool stopping() const noexcept { return !stop_reason_.empty(); }
    /// A lease that the engine was not told of comes back.
    void give_back(std::uint64_t lease, ReturnReason reason);
    /// A push is complete: its own time is recorded, the engine decides, which is carried out. The
    /// learner is waited for.
    void push(const Arrival& arrival);
    /// An iteration has come to its end. Every record passes here.
    void timed(const Arrival& arrival);
    /// A mini-batch or round whose numbers are not finite: too many end the job.
    void dropped();
    /// After each event.
    void happened();

    // EffectHandler.
    void observe(const Effect& effect) override;
    void apply(const UpdateOrder& update, const Fire& fire) override;
    void applied(const UpdateOrder& update, const Fire& fire) override;
    void dropped(const SessionPush& /*push*/) override { check_drops(); }
    void returned(const ReturnLease& lease) override;

private:
    void stop(const std::string& reason);
    void check_drops();
    void consult_modes();
    void set_alarm();
    void finish();

    EffectInterpreter effects_;
    VirtualEvaluations evaluations_;
    std::vector<std::uint64_t> pushes_;     ///< by worker
    std::vector<std::int64_t> iterations_;  ///< by worker: recorded
    bool woken_ = false;             ///< it is the time for which the mode wished to be asked
    EventQueue::Id alarm_ = 0;       ///< when the mode is to be asked without an update
    std::optional<double> alarm_s_;  ///< its time
    bool over_ = false;
    std::string stop_reason_;
};

/// Jobs by architecture. @param cluster, learner outlive them. Errors: UsageError for a mode.
[[nodiscard]] std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster,
                                                           Learner& learner, JobSpec spec);
[[nodiscard]] std::unique_ptr<VirtualJob> make_ring_job(VirtualCluster& cluster, Learner& learner,
                                                        JobSpec spec);

}  // namespace cohort
