#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "session/server_scheduler.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// A virtual job with parameter servers. A worker's way:
///  1. an update releases it: its parameters are those of the update, on all servers
///  2. while the servers work on the update they send what is done of it: the pull, which is over
///     when both are
///  3. with parameters and a lease it computes; the push begins with backward (a delta's at the
///     end) and is complete when both are done. Where a node stages, it stays there
///  4. the engine decides, in the order of workers when pushes are complete at the same moment;
///     nodes send the sum of what of an update stayed there; 1 again
/// Leases and plans are the ServerScheduler's. The members of a group begin together and wait for
/// each other at every local step.
class ServersJob final : public VirtualJob, private ServerOrders {
public:
    ServersJob(VirtualCluster& on, Learner& model, JobSpec job);
    ~ServersJob() override;
    [[nodiscard]] bool stuck() const override;
    const SimulationResult& report() override;

private:
    using Action = VirtualCluster::Action;
    using ClusterWork = VirtualCluster::WorkId;
    class Servers;

    /// Workers that average at every step of the leases they hold.
    struct Group {
        std::vector<int> members;
        std::vector<int> nodes;     ///< of them
        std::size_t arrived = 0;    ///< have parameters
        std::size_t backwards = 0;  ///< of the step: begun
        std::size_t computed = 0;   ///< of the step: done
        bool averaged = false;      ///< of the step
        ClusterWork averaging = 0;
    };
    /// Its lease has been dealt and not pushed; 0: there is none.
    struct Worker : VirtualWorker {
        using VirtualWorker::VirtualWorker;

        Learner::Released parameters;
        std::int64_t version = 0;      ///< of them
        std::uint64_t turn = 0;        ///< of its last release: what began before it is not used
        bool ready = false;            ///< the parameters are here and not used
        bool staged = false;           ///< the lease's push stays on the node
        std::shared_ptr<Group> group;  ///< of the lease; null: alone
        std::optional<ValidationSampler::Dealt> validation;  ///< to be computed before the lease
        bool validating = false;                             ///< it is
        Learner::WorkId validation_work = 0;                 ///< then
        ClusterWork pull = 0;
        ClusterWork push = 0;        ///< 0 once it is complete
        bool computing = false;      ///< the lease has begun and is not computed
        bool push_done = false;      ///< of the lease
        double free_since_s = 0;     ///< nothing was done since, as far as lanes know
        double pushing_since_s = 0;  ///< the last push began
    };
    struct Release {
        int worker = 0;
        std::uint64_t turn = 0;  ///< of the worker
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

    // VirtualJob (servers_job.cpp).
    void start_work() override;
    void deliver(const SessionPush& push) override { scheduler_.push(push); }
    void fired(const Fire& fire) override;
    void release(const ReleaseOne& one) override {
        releases_.push_back(prepare(one.worker, one.version, one.lag));
    }
    void interrupt(const Interrupt& interrupt, const ReturnLease* lease) override;
    void returned(const ReturnLease& lease) override;
    void install(PlanChange change) override { scheduler_.install(std::move(change)); }
    [[nodiscard]] EffectInterpreter& effects() override { return scheduler_.effects(); }
    void end_work() override;

    // ServerOrders (servers_job.cpp).
    [[nodiscard]] bool stages(int index) const override;
    void prepare(const std::vector<DealtLease>& leases) override;
    void deal(const std::vector<DealtLease>& leases) override;
    [[nodiscard]] bool may_validate(int index) const override;
    void deal_validation(const ValidationSampler::Dealt& lease) override {
        worker(lease.worker).validation = lease;
    }
    void installing(const SyncPlan& plan) override {
        log.add(EventLog::Kind::kPlan, now(), plan.id);
    }
    void flush() override;
    void start_learning(int index);

    // Parameters (servers_job.cpp).
    [[nodiscard]] Release prepare(int index, std::int64_t version, double lag);
    void pull(int index, const UpdatePtr& update);
    void pulled(const Release& release);
    void give_up(int index);
    double cancel(ClusterWork& work);

    // Work (servers_job_work.cpp).
    void start(int index);
    void start_validation(int index);
    void validated(Learner::WorkId learned);
    void begin_step(int index);
    void backward(int index);
    void step_done(int index);
    void local_update(int index);
    void lease_computed(int index);
    void begin_push(int index);
    void pushed(int index, std::uint64_t turn);
    void arrived(int index);
    void settle_arrivals();
    void complete(int index);
    void group_backward(const std::shared_ptr<Group>& group);
    void group_step(const std::shared_ptr<Group>& group);
    ClusterWork send_push(int index, Action done);

    /// That a worker holds.
    [[nodiscard]] VirtualLease& lease_of(int index) { return leases_out.at(worker(index).lease); }
    [[nodiscard]] Worker& worker(int index) { return workers_[at(index)]; }

    std::unique_ptr<Servers> servers_;
    std::vector<Worker> workers_;
    ServerScheduler scheduler_;
    std::set<Learner::WorkId> validations_;  ///< under way
    std::vector<Release> releases_;          ///< of the event: not ordered yet
    std::vector<Release> arrivals_;          ///< complete pushes of this moment
    EventQueue::Id settling_ = 0;            ///< when they go to the engine
    std::uint64_t turns_ = 0;
    std::int64_t under_way_ = 0;  ///< pulls, averages, pushes
};

}  // namespace cohort
