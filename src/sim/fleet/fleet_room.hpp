#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "cohort/sim/fleet.hpp"
#include "sim/fleet/room_review.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// Where the servers of a virtual fleet's jobs go, and whose transfers go first where jobs meet:
/// looks at the plans in force, asks RoomReview and the rules of placement (docs/making-room.md),
/// and sets the jobs' weights.
class FleetRoom {
public:
    /// @param plan, profile  outlive it  @param cluster  used from the first job on; it may be made
    /// with weights() after this
    FleetRoom(const FleetPlan& plan, const ClusterProfile& profile, VirtualCluster& cluster);
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
    /// Reviews the grants when it is due. To be called after each event.
    void review_if_due();
    /// Ends all grants and writes what there was, if room is made.
    void report(FleetResult& result);

private:
    struct Running {
        VirtualJob* job = nullptr;
        int client = 0;
        // What the needs that the review knows are for.
        std::uint64_t plan = 0;
        std::vector<double> shares;
    };
    /// Its plan or shards are others than those that its needs are for.
    [[nodiscard]] static bool changed(const Running& one);
    /// Tells the review how far the job is, and what it needs if that has changed.
    void refresh(std::size_t job, Running& one);
    [[nodiscard]] JobNeeds needs(const Running& one, const SyncPlan& plan) const;

    const FleetPlan& plan_;
    const ClusterProfile& profile_;
    VirtualCluster& cluster_;
    ClientWeights weights_;
    RoomReview review_;
    std::map<std::size_t, Running> running_;
};

}  // namespace cohort
