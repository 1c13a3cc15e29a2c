#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cohort/data/lease.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/optim/schedule.hpp"
#include "cohort/sched/drop_record.hpp"
#include "cohort/sched/load_desk.hpp"
#include "cohort/sched/mode_desk.hpp"
#include "cohort/sched/update_engine.hpp"
#include "cohort/sim/simulation.hpp"
#include "sched/run/gradient_desk.hpp"
#include "sched/run/worker_books.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/worker_lanes.hpp"
#include "sim/job/event_log.hpp"
#include "sim/learner/learner.hpp"

namespace cohort {

/// What a job under the virtual clock is made of.
struct JobSpec {
    ModeChoice choice;
    ModeSetting setting;            ///< of setting.live.size() workers
    std::vector<int> worker_nodes;  ///< [workers]
    std::vector<int> server_nodes;  ///< [servers]; empty with rings
    Workload workload;              ///< times and bytes
    OptimizerKind optimizer = OptimizerKind::kSgd;
    SampleSetInfo train;  ///< leases are cut from its epochs
    std::int64_t budget_samples = 0;
    double lr = 0;
    Schedule schedule;
    double noise_scale = 0;          ///< 0: measured where a plan needs it
    bool measure_gradients = false;  ///< whatever the mode
    std::uint64_t seed = 1;
    NodeStaging node_staging = NodeStaging::kOff;
    // Of the accuracy on the way.
    std::int64_t eval_every_samples = 0;  ///< 0: never, not at the end either
    std::int64_t eval_samples = 0;        ///< until near the target; 0: the whole test set
    bool eval_average = false;            ///< of the mean of the parameters too
    bool target_on_average = false;       ///< it is the one that is to reach the target
    double target_accuracy = 0;           ///< 0: none
    std::size_t lane_spans = 0;           ///< that are kept
    // Of the load of its workers.
    bool telemetry = true;  ///< what they report is kept, for those who choose modes
    /// Makes what forecasts come from, when a mode looks at some. Empty: there are none.
    std::function<std::unique_ptr<Predictor>()> predictor;
    std::size_t records = 0;  ///< that are kept for the result

    [[nodiscard]] int workers() const noexcept { return static_cast<int>(worker_nodes.size()); }
    [[nodiscard]] int servers() const noexcept { return static_cast<int>(server_nodes.size()); }
    /// Base cost of a gradient over so many samples.
    [[nodiscard]] VirtualCluster::IterationCost cost_of(std::int64_t samples) const;
    /// Of an update that a worker makes itself, of a gradient that it has: whoever has the
    /// parameters, device or processor, moves the bytes.
    [[nodiscard]] VirtualCluster::IterationCost update_cost(const ClusterProfile& profile) const;
};

/// A training job on a virtual cluster, apart from how its gradients travel: leases, plans, the
/// engine and its effects, modes, updates, evaluations, the books. Architectures derive from it:
/// they say when pushes arrive, and carry out what the engine decides on the cluster.
///
/// An architecture's event (a push that has arrived, a round that is over) calls push() or the
/// engine and carry_out(), then happened(). Events of a job that is over must not come: end_work()
/// cancels what is under way.
class VirtualJob {
public:
    /// @param cluster, learner outlive it. Errors: UsageError for a mode.
    VirtualJob(VirtualCluster& cluster, Learner& learner, JobSpec spec);
    VirtualJob(const VirtualJob&) = delete;
    VirtualJob& operator=(const VirtualJob&) = delete;
    virtual ~VirtualJob();

    /// Everybody starts, at the cluster's time. Once.
    void begin();
    /// Ends it with a reason for SimulationResult::stop_reason. Nothing happens when it is over.
    void end(const std::string& reason);
    [[nodiscard]] bool over() const noexcept { return over_; }
    /// Nothing of it is under way: it would wait for ever.
    [[nodiscard]] virtual bool stuck() const = 0;

    [[nodiscard]] std::int64_t samples_applied() const noexcept { return samples_applied_; }
    [[nodiscard]] std::int64_t updates() const noexcept { return updates_; }
    [[nodiscard]] const std::vector<EvaluationPoint>& evaluations() const noexcept {
        return evaluations_;
    }
    [[nodiscard]] const std::vector<SwitchReport>& switches() const noexcept { return switches_; }
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
        double own_s = 0;          ///< WorkerTelemetry::own_seconds, not scaled; 0: not measured
        IterationRecord record;    ///< its times and what it used
    };
    /// What a push says beside what the learner knows.
    struct Arrival {
        std::uint64_t lease = 0;
        std::int64_t version = 0;  ///< of the parameters it was computed on
        double own_s = 0;          ///< as Timed's
        IterationRecord record;    ///< the same; not looked at without own_s
    };

    /// Reference batches that have been done.
    [[nodiscard]] std::int64_t rounds_done() const noexcept {
        return samples_applied_ / reference_batch_;
    }

    // What an architecture does.
    /// Sends everybody to work.
    virtual void start_work() = 0;
    /// After each event: gives out leases; whoever gets none is idle.
    virtual void deal() = 0;
    /// An update was made: the learner has its parameters, releases are to be carried out.
    virtual void fired(const Fire& fire) = 0;
    virtual void released(const ReleaseOne& release) = 0;
    /// The worker gives up what it computes and starts again; its lease comes back next.
    virtual void interrupted(const Interrupt& interrupt) = 0;
    virtual void refused(const Refuse& /*refusal*/, const Lease& /*lease*/) {}
    /// The lease is about to be forgotten: nothing more is done with it.
    virtual void came_back(const Lease& /*lease*/) {}
    /// Another plan is wanted: put_in_force() now, or once the fence that it needs is reached; of
    /// several the newest counts, with the newest batches that were given.
    virtual void install(PlanChange change) = 0;
    /// Coefficients of an update's sum, in the order of its pushes.
    [[nodiscard]] virtual std::vector<double> coefficients(const Fire& fire) const;
    /// Cancels what is under way.
    virtual void end_work() = 0;
    virtual void report_servers(SimulationResult& /*result*/) {}

    // What it does it with.
    [[nodiscard]] VirtualCluster& cluster() noexcept { return cluster_; }
    [[nodiscard]] EventQueue& queue() noexcept { return cluster_.queue(); }
    [[nodiscard]] double now() { return cluster_.queue().now(); }
    [[nodiscard]] Learner& learner() noexcept { return learner_; }
    [[nodiscard]] const JobSpec& spec() const noexcept { return spec_; }
    [[nodiscard]] UpdateEngine& engine() noexcept { return engine_; }
    [[nodiscard]] const UpdateEngine& engine() const noexcept { return engine_; }
    [[nodiscard]] WorkerLanes& lanes() noexcept { return lanes_; }
    [[nodiscard]] int workers() const noexcept { return spec_.workers(); }
    [[nodiscard]] VirtualCluster::PlaceId place(int worker) const { return places_[at(worker)]; }
    [[nodiscard]] int node_of(int worker) const { return spec_.worker_nodes[at(worker)]; }
    /// Samples of a worker's gradient or local step, as installed.
    [[nodiscard]] std::int64_t batch_of(int worker) const { return batches_[at(worker)]; }
    /// For the next update. @param scale  SyncPlan::lr_scale
    [[nodiscard]] double learning_rate(double scale) const;
    /// No new work is given out any more.
    [[nodiscard]] bool stopping() const noexcept { return !stop_reason_.empty(); }

    /// A lease for a worker, with work as the plan in force wants it: its batch times the local
    /// steps, or `samples` if that is > 0. The engine is not told. Null when the book has none to
    /// give for now.
    Lease* take_lease(int worker, std::int64_t samples = 0);
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
    /// A worker that is released has been dealt a lease: an iteration of it begins.
    void begun(int worker, std::int64_t samples);
    /// It has given up what it did, and has no lease.
    void stopped(int worker);
    /// A push is complete: its own time goes into the books, the engine decides, which is carried
    /// out. The learner is waited for.
    void push(const Arrival& arrival);
    /// An iteration has come to its end. Every record passes here.
    void timed(Timed what);
    void carry_out(const std::vector<Effect>& effects);
    /// For the books: a mini-batch that is not used, of which the engine has no push.
    void unused(int worker, std::int64_t samples, ReturnReason reason);
    /// A step whose numbers are not finite: too many end the job.
    void dropped();
    /// The engine gets the plan, and its effects are carried out. Leases that are out stay as they
    /// are.
    void put_in_force(PlanChange change);
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

private:
    /// A push that the engine has, neither fired nor refused.
    struct Held {
        std::uint64_t lease = 0;
        std::int64_t samples = 0;
        std::int64_t version = 0;
    };

    void carry_out(const Fire& fire);
    void carry_out(const Refuse& refusal);
    void carry_out(const ReturnLease& lease);
    void carry_out(const Interrupt& interrupt, const ReturnLease* lease);
    void log(const Effect& effect);
    void apply(const Fire& fire);
    void learned_of_gradients();
    [[nodiscard]] GradientWish wish() const;
    void settle_books(const Fire& fire);
    void note_loss(const Fire& fire);
    void consult_modes();
    void set_alarm();
    void collect_switches();
    [[nodiscard]] RunMoment moment();
    void collect_stragglers();
    void evaluate();
    double evaluate(std::int64_t samples);
    void finish();
    void check_accounts() const;
    void report_load(SimulationResult& result) const;

    VirtualCluster& cluster_;
    Learner& learner_;
    JobSpec spec_;
    ModeDesk modes_;
    UpdateEngine engine_;
    GradientDesk gradients_;
    LeaseBook book_;
    WorkerBooks books_;
    std::vector<IterationRecord> records_;
    std::unique_ptr<LoadDesk> load_;  ///< null: see JobSpec::telemetry
    WorkerLanes lanes_;
    EventLog log_;
    std::vector<VirtualCluster::PlaceId> places_;  ///< by worker
    std::vector<std::int64_t> batches_;            ///< by worker
    std::vector<std::uint64_t> pushes_;            ///< by worker
    std::vector<std::int64_t> iterations_;         ///< by worker: recorded
    std::unordered_map<std::uint64_t, Lease> leases_;
    std::map<PushId, Held> held_;
    std::int64_t reference_batch_;
    std::int64_t samples_applied_ = 0;
    std::int64_t updates_ = 0;
    DropRecord drops_;
    std::int64_t next_evaluation_ = 0;
    double last_update_s_ = 0;
    std::optional<double> fired_lr_;  ///< of the update that is being carried out
    bool updated_ = false;            ///< an update was made since the modes were asked
    bool woken_ = false;              ///< it is the time for which they wished to be asked
    EventQueue::Id alarm_ = 0;        ///< when the modes are to be asked without an update
    std::optional<double> alarm_s_;   ///< its time
    bool over_ = false;
    std::string stop_reason_;
    std::optional<double> tta_s_;
    std::optional<std::int64_t> samples_to_target_;
    std::optional<Learner::Accuracy> last_;  ///< of the whole test set, at samples_applied_
    std::vector<EvaluationPoint> evaluations_;
    std::vector<SwitchReport> switches_;
    std::vector<DecisionRecord> decisions_;
    std::vector<RateWindow> windows_;
    std::vector<StragglerEpisode> stragglers_;
    std::vector<std::int64_t> lag_histogram_;
};

}  // namespace cohort
