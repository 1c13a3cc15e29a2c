#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/effect_interpreter.hpp"
#include "session/training_session.hpp"
#include "sim/cluster/worker_lanes.hpp"
#include "sim/job/event_log.hpp"
#include "sim/job/job_records.hpp"
#include "sim/job/job_spec.hpp"
#include "sim/job/virtual_evaluations.hpp"

namespace cohort {

/// A training job on a virtual cluster: drives a training session by what happens on the cluster
/// and carries out its orders there. Architectures derive from it: they say when pushes arrive and
/// what releases and interruptions mean.
///
/// An architecture's event (a push that has arrived, a round that is over) calls push() or the
/// engine and carry_out(), then happened(). Events of a job that is over must not come: end_work()
/// cancels what is under way.
class VirtualJob : protected EffectHandler {
public:
    /// @param cluster, learner outlive it. Errors: UsageError for a mode.
    VirtualJob(VirtualCluster& cluster, Learner& learner, JobSpec spec);
    VirtualJob(const VirtualJob&) = delete;
    VirtualJob& operator=(const VirtualJob&) = delete;
    ~VirtualJob() override;

    /// Everybody starts, at the cluster's time. Once.
    void begin();
    /// Ends it with a reason for SimulationResult::stop_reason. Nothing happens when it is over.
    void end(const std::string& reason);
    [[nodiscard]] bool over() const noexcept { return over_; }
    /// Nothing of it is under way: it would wait for ever.
    [[nodiscard]] virtual bool stuck() const = 0;

    [[nodiscard]] std::int64_t samples_applied() const noexcept {
        return session_.counts().samples_applied;
    }
    [[nodiscard]] std::int64_t updates() const noexcept { return session_.counts().updates; }
    [[nodiscard]] const std::vector<EvaluationPoint>& evaluations() const noexcept {
        return evaluations_.points();
    }
    [[nodiscard]] const std::vector<SwitchReport>& switches() const noexcept {
        return records_.switches();
    }
    /// Fills in what it knows; a job that is over.
    void report(SimulationResult& result);

protected:
    /// A lease that is out.
    struct Lease {
        std::uint64_t id = 0;
        int worker = 0;
        LeaseSlice slice;
        Work work = Work::kGradient;
        std::int32_t steps = 1;        ///< local ones, of about equal size
        double lr = 0;                 ///< kDelta: of them
        bool halves = false;           ///< as Learner::Job says
        std::uint64_t plan = 0;        ///< id of the one that it was dealt under
        Learner::WorkId computed = 0;  ///< 0: not started; given up when the lease comes back
    };
    /// Where an iteration's time went. timed() adds who, which and when.
    struct Timed {
        int worker = 0;
        std::int64_t samples = 0;
        std::int64_t version = 0;  ///< of the parameters it was computed on
        double own_s = 0;          ///< WorkerReport::own_s, not scaled; 0: not measured
        IterationRecord record;    ///< its times and what it used
    };
    /// What a push says beside what the learner knows.
    struct Arrival {
        std::uint64_t lease = 0;
        std::int64_t version = 0;  ///< of the parameters it was computed on
        double own_s = 0;          ///< as Timed's
        IterationRecord record;    ///< the same; not looked at without own_s
    };

    // What an architecture does.
    /// Sends everybody to work.
    virtual void start_work() = 0;
    /// After each event: gives out leases; whoever gets none is idle.
    virtual void deal() = 0;
    /// A push goes to the engine.
    virtual void deliver(const SessionPush& push) { effects().push(push); }
    /// An update was made: the learner has its parameters, releases are to be carried out.
    virtual void fired(const Fire& fire) = 0;
    virtual void released(const ReleaseOne& release) = 0;
    /// The worker gives up what it computes and starts again; its lease comes back next.
    virtual void interrupted(const Interrupt& interrupt) = 0;
    /// The lease is about to be forgotten: nothing more is done with it.
    virtual void came_back(const Lease& /*lease*/) {}
    /// Another plan is wanted: put_in_force() now, or once the fence that it needs is reached; of
    /// several the newest counts, with the newest batches that were given.
    virtual void install(PlanChange change) = 0;
    /// Carries out what the engine decides.
    [[nodiscard]] virtual EffectInterpreter& effects() { return effects_; }
    /// Cancels what is under way.
    virtual void end_work() = 0;
    virtual void report_servers(SimulationResult& /*result*/) {}

    // What it does it with.
    [[nodiscard]] VirtualCluster& cluster() noexcept { return cluster_; }
    [[nodiscard]] EventQueue& queue() noexcept { return cluster_.queue(); }
    [[nodiscard]] double now() const { return cluster_.queue().now(); }
    [[nodiscard]] Learner& learner() noexcept { return learner_; }
    [[nodiscard]] const JobSpec& spec() const noexcept { return spec_; }
    [[nodiscard]] TrainingSession& session() noexcept { return session_; }
    [[nodiscard]] UpdateEngine& engine() noexcept { return session_.engine(); }
    [[nodiscard]] const UpdateEngine& engine() const noexcept { return session_.engine(); }
    [[nodiscard]] WorkerLanes& lanes() noexcept { return lanes_; }
    [[nodiscard]] int workers() const noexcept { return spec_.workers(); }
    [[nodiscard]] VirtualCluster::PlaceId place(int worker) const { return places_[at(worker)]; }
    [[nodiscard]] int node_of(int worker) const { return spec_.worker_nodes[at(worker)]; }
    /// Reference batches that have been done.
    [[nodiscard]] std::int64_t rounds_done() const noexcept {
        return samples_applied() / spec_.reference_batch();
    }
    /// No new work is given out any more.
    [[nodiscard]] bool stopping() const noexcept { return !stop_reason_.empty(); }

    /// A lease for a worker, with work as the plan in force wants it: its batch times the local
    /// steps. The engine is not told. Null when there is none to give for now.
    Lease* take_lease(int worker);
    /// Notes a lease that a worker was given.
    Lease& add_lease(int worker, const LeaseOrder& order);
    /// Null: it is not out.
    [[nodiscard]] Lease* lease(std::uint64_t id);
    /// One that is out.
    [[nodiscard]] Lease& lease_out(std::uint64_t id) { return leases_.at(id); }
    /// A lease that the engine was not told of comes back.
    void give_back(std::uint64_t lease, ReturnReason reason);
    /// The parameters of now for a worker; see Learner::release. Those of an update look ahead with
    /// its learning rate.
    [[nodiscard]] Learner::Released parameters_for(int worker, double lag);
    /// What a lease asks for, to be computed on `parameters`.
    [[nodiscard]] Learner::Job job_of(const Lease& lease, Learner::Released parameters) const;
    /// A push is complete: its own time is recorded, the engine decides, which is carried out. The
    /// learner is waited for.
    void push(const Arrival& arrival);
    /// An iteration has come to its end. Every record passes here.
    void timed(Timed what);
    void carry_out(const std::vector<Effect>& effects) { this->effects().carry_out(effects); }
    /// For the records: a mini-batch that is not used, of which the engine has no push.
    void unused(int worker, std::int64_t samples, ReturnReason reason);
    /// A round whose numbers are not finite: too many end the job.
    void dropped();
    /// The engine gets the plan, and its effects are carried out. Leases that are out stay as they
    /// are.
    void put_in_force(PlanChange change);
    /// A plan is about to be installed.
    void log_plan(const SyncPlan& plan);
    /// After each event.
    void happened();

    /// How long a worker's input work took, and what it takes with all its processors.
    struct CpuTime {
        double wanted_s = 0;
        double took_s = 0;
    };
    /// What it got of them. Without such work, what the trace says.
    [[nodiscard]] double cpu_share(int worker, const CpuTime& time) const;
    /// What a worker's transfer of so many bytes takes over its own node's card, in either
    /// direction, when nobody else sends: what is longer it waits for others.
    [[nodiscard]] double out_alone_s(int worker, double bytes) const;
    [[nodiscard]] double in_alone_s(int worker, double bytes) const;
    /// 0 when it took no time: nothing moved.
    [[nodiscard]] static double rate(double bytes, double seconds) noexcept {
        return seconds > 0 ? bytes / seconds : 0;
    }
    [[nodiscard]] static std::size_t at(int index) { return static_cast<std::size_t>(index); }

    // EffectHandler.
    void observe(const Effect& effect) override;
    void apply(const UpdateOrder& update, const Fire& fire) override;
    void applied(const UpdateOrder& update, const Fire& fire) override;
    void release(const ReleaseOne& one) override { released(one); }
    void interrupt(const Interrupt& interrupt, const ReturnLease* /*lease*/) override {
        interrupted(interrupt);
    }
    void refuse(const Refuse& /*refusal*/, const SessionPush& /*push*/, bool /*held*/) override {}
    void dropped(const SessionPush& push) override;
    void returned(const ReturnLease& lease) override;

private:
    void stop(const std::string& reason);
    void consult_modes();
    void set_alarm();
    void finish();
    void check_accounts() const;

    VirtualCluster& cluster_;
    Learner& learner_;
    JobSpec spec_;
    JobRecords records_;
    TrainingSession session_;
    EffectInterpreter effects_;
    WorkerLanes lanes_;
    EventLog log_;
    VirtualEvaluations evaluations_;
    std::vector<VirtualCluster::PlaceId> places_;  ///< by worker
    std::vector<std::int64_t> batches_;            ///< by worker; not with servers
    std::vector<std::uint64_t> pushes_;            ///< by worker
    std::vector<std::int64_t> iterations_;         ///< by worker: recorded
    std::unordered_map<std::uint64_t, Lease> leases_;
    std::optional<double> fired_lr_;  ///< of the update that is being carried out
    bool woken_ = false;              ///< it is the time for which the mode wished to be asked
    EventQueue::Id alarm_ = 0;        ///< when the mode is to be asked without an update
    std::optional<double> alarm_s_;   ///< its time
    bool over_ = false;
    std::string stop_reason_;
};

}  // namespace cohort
