#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "sched/fleet/making_room.hpp"
#include "sim/fleet/job_needs.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// Where the servers of a fleet's jobs go, and whose transfers go first where jobs meet: looks at
/// the plans in force, asks the rules of docs/making-room.md, and sets the jobs' weights.
class FleetRoom {
public:
    /// Virtual seconds between two reviews at most, as long as jobs run.
    static constexpr double kReviewSeconds = 60;

    /// @param plan  outlives it  @param cluster  used from the first job on; it may be made with
    /// weights() after this
    FleetRoom(const FleetPlan& plan, VirtualCluster& cluster);
    /// Of all jobs, by their clients.
    [[nodiscard]] const ClientWeights& weights() const noexcept { return weights_; }

    /// Nodes of the servers of a job that is about to start with its first plan.
    /// @param spec  without servers
    [[nodiscard]] std::vector<int> place(const JobSpec& spec, int servers);
    /// A job has started. @param running  valid until end()  @param client  of the queue
    void start(std::size_t job, VirtualJob& running, int client);
    /// Whether a job may have another plan (ModeSetting::admits): one that does not fit beside the
    /// others is refused until the next review.
    [[nodiscard]] bool admits(std::size_t job, const SyncPlan& wanted, double worth);
    /// A job may have changed its plan or shards, by what has just happened.
    void look(std::size_t job);
    /// A job is over, or has failed; nothing happens when it did not start.
    void end(std::size_t job);
    /// Reviews the grants when a job has started, ended or changed its plan, or after
    /// kReviewSeconds. To be called after each event.
    void review_if_due();
    /// Ends all grants and writes what there was, if room is made.
    void report(FleetResult& result);

private:
    struct Running {
        VirtualJob* job = nullptr;
        int client = 0;
        // What `needs` are for.
        std::uint64_t plan = 0;
        std::vector<double> shares;
        JobNeeds needs;
        // The pace is measured from here on: the same plan, neighbours and weights.
        double since_s = 0;
        std::int64_t samples = 0;
        double ahead_s = 0;             ///< RoomJob::ahead_s, until then
        std::set<std::string> refused;  ///< plans, since the last review
    };
    /// Its plan or shards are others than those that `needs` are for.
    [[nodiscard]] static bool changed(const Running& one);
    void refresh(Running& one);
    void review();
    /// What the grants in force have brought since the last call; those that are over are closed.
    void book();
    void release(std::size_t job);
    [[nodiscard]] std::vector<NodeRoom> nodes() const;
    [[nodiscard]] JobNeeds needs(const Running& one, const SyncPlan& plan) const;
    [[nodiscard]] std::vector<RoomJob> jobs() const;
    [[nodiscard]] RoomJob look_at(std::size_t job, const Running& one) const;
    [[nodiscard]] double measured(const Running& one) const;
    [[nodiscard]] double ahead_s(const Running& one) const;
    void measure_anew(Running& one) const;

    const FleetPlan& plan_;
    VirtualCluster& cluster_;
    ClientWeights weights_;
    RoomLedger ledger_;
    std::map<std::size_t, Running> running_;
    std::map<int, FleetGrant> open_;  ///< grants in force, by asker
    std::vector<FleetGrant> over_;
    std::vector<FleetRefusal> refusals_;
    double booked_s_ = 0;
    double next_s_ = 0;
    bool changed_ = false;  ///< jobs or plans, since the last review
};

}  // namespace cohort
