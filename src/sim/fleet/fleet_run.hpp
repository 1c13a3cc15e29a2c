#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/recorded/profile.hpp"
#include "cohort/sim/fleet.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/fleet/fleet_queue.hpp"
#include "sim/fleet/fleet_room.hpp"
#include "sim/fleet/use_meter.hpp"
#include "sim/job/job_setup.hpp"
#include "sim/job/virtual_job.hpp"
#include "sim/learner/learner.hpp"

namespace cohort {

/// What a fleet's jobs are made from: their specifications and learners.
class FleetParts {
public:
    /// Opens data sets and builds networks once to see that all jobs can be made.
    /// Errors: UsageError naming the job, FileError.
    explicit FleetParts(const FleetPlan& plan);

    [[nodiscard]] const ClusterProfile& profile() const noexcept { return profile_; }
    /// @param job  index in the plan
    [[nodiscard]] JobSpec spec(std::size_t job, NodesOfJob nodes) const;
    /// What learns in this job; threads, samples and engines are those of all jobs.
    [[nodiscard]] std::unique_ptr<Learner> learner(std::size_t job);

private:
    const FleetPlan& plan_;
    ClusterProfile profile_;
    std::vector<SampleSetInfo> samples_;           ///< [jobs]
    std::unique_ptr<LearnerResources> resources_;  ///< made for the first job that trains
};

/// Adds the pace of each job that ended without the others: the same plan, nodes and samples on the
/// same cluster, time only. What training adds to a job's times are a chooser's gradient statistics
/// alone, and nothing of it waits for other jobs.
void add_paces_alone(FleetResult& result, const FleetPlan& plan, const FleetParts& parts,
                     const std::function<bool(const FleetProgress&)>& progress);

/// Many jobs on one cluster. Each job is a client of the queue (EventQueue::client), so an error
/// that leaves an event is its job's: that job's work is given up, the others go on.
///  1. A job arrives, waits in the queue of the fleet and starts when there are devices.
///  2. It is over: its result is kept, its devices are free, waiting jobs may start.
///  3. Its memory is freed once nothing of it is under way.
class FleetRun {
public:
    using MakeLearner = std::function<std::unique_ptr<Learner>(std::size_t job)>;

    /// @param plan, parts  outlive it  @param learner  may throw: the job fails
    FleetRun(const FleetPlan& plan, const FleetParts& parts, MakeLearner learner);
    FleetRun(const FleetRun&) = delete;
    FleetRun& operator=(const FleetRun&) = delete;

    /// Once.
    [[nodiscard]] FleetResult run(const std::function<bool(const FleetProgress&)>& progress);

private:
    struct Active {
        std::unique_ptr<Learner> learner;
        std::unique_ptr<VirtualJob> job;
        bool over = false;
    };

    void arrive(std::size_t job);
    void start_waiting();
    /// Until a running job has used up its samples at its pace so far: longer than it takes when it
    /// reaches a target before.
    [[nodiscard]] double left_s(int job) const;
    void start(std::size_t job, const std::vector<int>& worker_nodes);
    /// One event; an error of a job ends that job. @return false: nothing is left
    bool step();
    void end_if_over(std::size_t job);
    void fail_stuck(bool all);
    void fail(std::size_t job, const std::string& why);
    /// Its devices are free from now on.
    void leave(std::size_t job);
    void stop();
    [[nodiscard]] FleetResult result();

    const FleetPlan& plan_;
    const FleetParts& parts_;
    MakeLearner make_learner_;
    EventQueue queue_;
    FleetRoom room_;
    VirtualCluster cluster_;
    FleetQueue waiting_;
    UseMeter meter_;
    std::map<std::size_t, Active> active_;  ///< by job: not freed yet
    FleetResult result_;
    FleetProgress state_;
    std::vector<std::size_t> news_;  ///< jobs that are over, not told yet
};

}  // namespace cohort
