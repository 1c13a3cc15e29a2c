#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/session/effect_interpreter.hpp"
#include "sim/job/virtual_job_context.hpp"

namespace cohort {

/// Wakes a job when whoever chooses the mode wants to be asked although no update was made.
class ConsultationAlarm {
public:
    /// @param queue  outlives it  @param rings  called when it is time
    ConsultationAlarm(EventQueue& queue, EventQueue::Action rings)
        : queue_(queue), rings_(std::move(rings)) {}
    ConsultationAlarm(const ConsultationAlarm&) = delete;
    ConsultationAlarm& operator=(const ConsultationAlarm&) = delete;
    ~ConsultationAlarm() { queue_.cancel(event_); }

    /// For this time, instead of the one before; without a time, or for one up to which it has rung
    /// already, it does not ring.
    void set(std::optional<double> at_s);
    /// It has rung, and stop() was not called since.
    [[nodiscard]] bool rung() const noexcept { return rung_; }
    /// @return rung(), until now
    bool stop() noexcept { return std::exchange(rung_, false); }

private:
    EventQueue& queue_;
    EventQueue::Action rings_;
    EventQueue::Id event_ = 0;
    std::optional<double> at_s_;
    double rang_s_ = -1;  ///< when it rang last
    bool rung_ = false;
};

/// The ends of iterations of a virtual job: their times are recorded, and what was learned becomes
/// a push.
class IterationEnds {
public:
    /// A push that is complete, or an iteration that is over, beside what the learner knows.
    struct End {
        std::uint64_t lease = 0;
        std::int64_t version = 0;  ///< of the parameters that it was computed on
        double own_s = 0;  ///< WorkerReport::own_s, not scaled; 0: timed() before, or not measured
        IterationRecord record;  ///< its times and what it used; not looked at without own_s
    };

    /// @param job  outlives it
    explicit IterationEnds(VirtualJobContext& job)
        : job_(job), pushes_(job.at(job.workers()), 0), iterations_(pushes_.size(), 0) {}

    /// An iteration has come to its end. Every record passes here.
    void timed(const End& end);
    /// A push is complete: its own time is recorded. The learner is waited for.
    /// @return it, for the engine
    [[nodiscard]] PushTicket pushed(const End& end);

private:
    VirtualJobContext& job_;
    std::vector<std::uint64_t> pushes_;     ///< by worker
    std::vector<std::int64_t> iterations_;  ///< by worker: recorded
};

/// A training job on a virtual cluster: drives a training session by what happens on the cluster
/// and carries out its orders there. Architectures derive from it: they say when pushes arrive and
/// what releases and interruptions mean.
///
/// An architecture's event (a push that has arrived, a round that is over) tells the engine,
/// carries out what it decides, and calls happened(). Events of a job that is over must not come:
/// end_work() cancels what is under way.
class VirtualJob : public VirtualJobContext, protected EffectHandler {
public:
    /// As VirtualJobContext.
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
    // What an architecture does.
    /// Sends everybody to work.
    virtual void start_work() = 0;
    /// After each event: gives out leases; whoever gets none is idle.
    virtual void give_leases() {}
    /// An update was made: the learner has its parameters, releases are to be carried out.
    virtual void fired(const Fire& fire) = 0;
    /// Another plan is wanted: it is put in force now, or once the fence that it needs is reached;
    /// of several the newest counts, with the newest batches that were given.
    virtual void install(PlanChange change) = 0;
    /// Cancels what is under way, and carries out what the engine decides when it is stopped.
    virtual void end_work() = 0;

    // What it does it with.
    /// No new work is given out any more.
    [[nodiscard]] bool stopping() const noexcept { return !stop_reason_.empty(); }
    /// A lease that the engine was not told of comes back.
    void give_back(std::uint64_t lease, ReturnReason reason);
    /// After a mini-batch or round whose numbers are not finite: too many end the job.
    void check_drops();
    /// After each event.
    void happened();

    // EffectHandler.
    void apply(const UpdateOrder& update, const Fire& fire) override;
    void applied(const UpdateOrder& update, const Fire& fire) override;
    void dropped(const PushTicket& /*ticket*/) override { check_drops(); }
    void returned(const ReturnLease& lease) override;

    IterationEnds iteration_ends_;

private:
    void stop(const std::string& reason);
    void finish();

    VirtualEvaluations evaluations_;
    ConsultationAlarm alarm_;
    bool over_ = false;
    std::string stop_reason_;
};

/// Jobs by architecture. @param cluster, learner outlive them. Errors: UsageError for a mode.
[[nodiscard]] std::unique_ptr<VirtualJob> make_servers_job(VirtualCluster& cluster,
                                                           Learner& learner, JobSpec spec);
[[nodiscard]] std::unique_ptr<VirtualJob> make_ring_job(VirtualCluster& cluster, Learner& learner,
                                                        JobSpec spec);
/// The one of the two: with servers when the job has some.
[[nodiscard]] std::unique_ptr<VirtualJob> make_job(VirtualCluster& cluster, Learner& learner,
                                                   JobSpec spec);

}  // namespace cohort
