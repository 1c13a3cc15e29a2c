#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "sched/session/server_scheduler.hpp"
#include "sim/job/servers_job_transfers.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

class Validations;

/// A virtual job with parameter servers. A worker's way:
///  1. an update releases it: its parameters are those of the update, on all servers
///  2. while the servers work on the update they send what is done of it: the pull, which is over
///     when both are
///  3. with parameters and a lease it computes; the push begins with backward (a delta's at the
///     end) and is complete when both are done. Where a node stages, it stays there
///  4. the engine decides, in the order of workers when pushes are complete at the same moment;
///     nodes send the sum of what of an update stayed there; 1 again
/// Parts of the parameters change their owners at a fence: no push is in flight then.
/// Leases and plans are the ServerScheduler's. The members of a group begin together and wait for
/// each other at every local step.
class ServersJob final : public VirtualJob, private ServerOrders {
public:
    ServersJob(VirtualCluster& on, Learner& model, JobSpec job);
    ~ServersJob() override;
    [[nodiscard]] bool stuck() const override;
    const SimulationResult& report() override;

private:
    class Servers;
    class Shards;
    class Tree;
    class Worker;
    class Group;
    class Arrivals;

    /// A worker's parameters, or what it computed on them.
    struct Release {
        int worker = 0;
        std::uint64_t turn = 0;  ///< counts the worker's releases
        double lag = 0;          ///< that its parameters look ahead by
    };
    /// What the servers work on while workers get it. Held as long as somebody does.
    struct Update {
        std::size_t waiting = 0;  ///< servers that have not begun
        std::size_t working = 0;  ///< servers that are not done
        std::vector<Release> workers;
        std::vector<Release> there;  ///< who has all of it before the servers are done
    };
    using UpdatePtr = std::shared_ptr<Update>;

    // VirtualJob
    void start_work() override;
    void fired(const Fire& fire) override;
    void release(const ReleaseOne& one) override;
    void interrupt(const Interrupt& interrupt, const ReturnLease* lease) override;
    void returned(const ReturnLease& lease) override;
    void install(PlanChange change) override { scheduler_.install(std::move(change)); }
    void end_work() override;

    // ServerOrders
    [[nodiscard]] bool stages(int index) const override;
    void prepare(const std::vector<DealtLease>& leases) override;
    void deal(const std::vector<DealtLease>& leases) override;
    [[nodiscard]] bool may_validate(int index) const override;
    void deal_validation(const ValidationSampler::Dealt& lease) override;
    void installing(const SyncPlan& plan) override;
    void move_shards() override;
    void flush() override;

    /// A worker's push is complete: the engine decides.
    void complete(int index);
    [[nodiscard]] Worker& worker(int index);

    ServerTransfers transfers_;
    std::unique_ptr<Servers> servers_;
    std::unique_ptr<Shards> shards_;
    ServerScheduler scheduler_;
    std::vector<Worker> workers_;
    std::unique_ptr<Validations> validations_;
    std::unique_ptr<Arrivals> arrivals_;
    std::vector<Release> releases_;  ///< of the event: not ordered yet
};

}  // namespace cohort
