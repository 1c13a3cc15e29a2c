#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sched/session/training_session.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/job/job_records.hpp"
#include "sim/job/job_spec.hpp"
#include "sim/learner/learner.hpp"

namespace cohort {

/// A lease that a worker of a virtual job holds, as what is to be learned; without the parameters,
/// and of the generation of the plan that it was dealt under.
struct VirtualLease : Learner::Job {
    std::uint64_t id = 0;
    Learner::WorkId computed = 0;  ///< 0: not started; given up when the lease returns
};

/// What all parts of a virtual job work with: cluster, learner, session and its consultation,
/// the leases that are out, and the records of its course.
struct VirtualJobContext {
    /// @param on, model  outlive it. Errors: UsageError for a mode.
    VirtualJobContext(VirtualCluster& on, Learner& model, JobSpec job);
    VirtualJobContext(const VirtualJobContext&) = delete;
    VirtualJobContext& operator=(const VirtualJobContext&) = delete;
    ~VirtualJobContext();

    [[nodiscard]] static std::size_t at(int index) { return static_cast<std::size_t>(index); }
    [[nodiscard]] double now() const { return cluster.queue().now(); }
    [[nodiscard]] UpdateEngine& engine() noexcept { return session.engine(); }
    [[nodiscard]] int workers() const noexcept { return spec.workers(); }
    [[nodiscard]] VirtualCluster::PlaceId place(int worker) const { return places[at(worker)]; }
    [[nodiscard]] int node_of(int worker) const { return spec.worker_nodes[at(worker)]; }
    /// Reference batches that have been done.
    [[nodiscard]] std::int64_t rounds_done() const noexcept {
        return session.counts().samples_applied / spec.reference_batch();
    }

    /// Notes a lease that a worker was given.
    VirtualLease& add_lease(int worker, const LeaseOrder& order);
    /// The parameters of now for a worker; see Learner::release. Those of an update look ahead with
    /// its learning rate.
    [[nodiscard]] Learner::Released parameters_for(int worker, double lag);
    /// What a lease asks for, to be computed on these parameters.
    [[nodiscard]] static Learner::Job job_of(const VirtualLease& lease,
                                             Learner::Released parameters) {
        Learner::Job job = lease;
        job.parameters = std::move(parameters);
        return job;
    }
    /// Seconds of a transfer of the parameters over a network card of which the trace leaves this
    /// share, when nobody else sends: what is longer is waiting for others.
    [[nodiscard]] double alone_s(double share) const;
    /// 0 when it took no time: nothing moved.
    [[nodiscard]] static double rate(double bytes, double seconds) noexcept {
        return seconds > 0 ? bytes / seconds : 0;
    }

    VirtualCluster& cluster;
    Learner& learner;
    const JobSpec spec;
    std::vector<double> shares;  ///< of the parameters now, by server; empty: all the same
    SimulationResult result;     ///< of the job, as far as it is known
    EventLog log;
    JobRecords records;
    TrainingSession session;
    ModeConsultation consultation{session};
    WorkerLanes lanes;
    std::vector<VirtualCluster::PlaceId> places;  ///< by worker
    std::map<std::uint64_t, VirtualLease> leases_out;
    std::optional<double> fired_lr;  ///< of the update that is being carried out
};

/// Computes a worker's leases on the cluster, step by step.
class VirtualWorker {
public:
    using Action = VirtualCluster::Action;
    VirtualWorker(VirtualJobContext& job, int index) : job_(&job), index_(index) {}

    /// Is about to compute on a lease; 0: it has none.
    void begin(std::uint64_t next_lease);
    /// The lease of a gradient, or the next of its local steps.
    /// @param backward  gradients begin to leave
    void begin_step(Action backward, Action computed);
    void compute(std::int64_t samples, Action backward, Action computed);
    /// An update of its own parameters.
    void update(Action then);
    /// What it does is given up. @return the share that was left, 0..1
    double cancel() { return work == 0 ? 0 : job_->cluster.cancel(std::exchange(work, 0)); }
    /// The share of its processors that the input work of the lease got. Without such work, what
    /// the trace says.
    [[nodiscard]] double cpu_share() const;

    /// An update or a computation.
    struct Current {
        VirtualCluster::IterationCost cost;
        double begun_s = 0;
        double delay_s = 0;
    };
    Current current;
    VirtualCluster::WorkId work = 0;  ///< update, computation, or parameters in flight
    std::uint64_t lease = 0;          ///< that it computes on
    std::int32_t step = 0;            ///< local ones that are done
    double backward_at_s = 0;         ///< of the step
    double computed_at_s = 0;         ///< the last step
    double own_s = 0;                 ///< of the lease
    IterationRecord record;           ///< of the lease, as far as it is known

protected:
    VirtualJobContext* job_;
    int index_;

private:
    void note_step();

    /// Input work of the lease.
    struct {
        double wanted_s = 0;  ///< with all processors
        double took_s = 0;
    } input_;
};

}  // namespace cohort
