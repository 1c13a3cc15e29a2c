#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cohort/sim/simulation.hpp"
#include "session/server_scheduler.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/job/virtual_job.hpp"

namespace cohort {

/// A server of a virtual job, or who sums for a node: what it is asked to do waits in line, one
/// thing at a time.
class ServerLine {
public:
    struct Order {
        double core_s = 0;
        VirtualCluster::Action begun;  ///< called when it begins; may be empty
        VirtualCluster::Action done;   ///< called when it is done, in the order of the calls
        /// It does not begin, and what is behind it neither, before this is 0; null: nothing is
        /// missing. Whoever makes it 0 calls advance().
        std::shared_ptr<const int> missing;
    };

    /// @param threads  cores that it can use at once
    ServerLine(VirtualCluster& cluster, int node, double threads)
        : cluster_(cluster), threads_(threads), use_{.node = node} {}
    ServerLine(const ServerLine&) = delete;
    ServerLine& operator=(const ServerLine&) = delete;

    void add(Order order);
    /// Begins what may begin.
    void advance();
    /// Gives up all that waits.
    void clear();
    [[nodiscard]] bool idle() const noexcept { return work_ == 0; }
    /// Without bytes.
    [[nodiscard]] const ServerUse& use() const noexcept { return use_; }

private:
    void done();

    VirtualCluster& cluster_;
    double threads_;
    ServerUse use_;
    std::deque<Order> orders_;  ///< the first one is in work, unless something is missing
    VirtualCluster::WorkId work_ = 0;
    double begun_s_ = 0;
};

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
    ServersJob(VirtualCluster& cluster, Learner& learner, JobSpec spec);
    [[nodiscard]] bool stuck() const override;

private:
    using Action = VirtualCluster::Action;
    using ClusterWork = VirtualCluster::WorkId;

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
    struct Worker {
        Learner::Released parameters;
        std::int64_t version = 0;      ///< of them
        std::uint64_t turn = 0;        ///< of its last release: what began before it is not used
        bool ready = false;            ///< the parameters are here and not used
        std::uint64_t lease = 0;       ///< dealt and not pushed; 0: none
        bool staged = false;           ///< the lease's push stays on the node
        std::shared_ptr<Group> group;  ///< of the lease; null: alone
        std::optional<ValidationSampler::Dealt> validation;  ///< to be computed before the lease
        bool validating = false;                             ///< it is
        Learner::WorkId validation_work = 0;                 ///< then
        ClusterWork pull = 0;
        ClusterWork compute = 0;
        ClusterWork push = 0;                     ///< 0 once it is complete
        bool computing = false;                   ///< the lease has begun and is not computed
        bool push_done = false;                   ///< of the lease
        std::int32_t step = 0;                    ///< local one
        double free_since_s = 0;                  ///< nothing was done since, as far as lanes know
        double step_begun_s = 0;                  ///< the computation under way
        double step_delay_s = 0;                  ///< of it
        VirtualCluster::IterationCost step_cost;  ///< of it
        double backward_at_s = 0;                 ///< of it
        double computed_at_s = 0;                 ///< the last step was done
        double own_s = 0;                         ///< of the lease, without the push
        double pushing_since_s = 0;               ///< the last push began
        IterationRecord record;                   ///< of the lease, as far as it is known
        CpuTime cpu;                              ///< of its input work
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
    /// Bytes that went over network cards between servers and others.
    struct Carried {
        double all = 0;                 ///< to or from all servers, if all were elsewhere
        std::map<int, double> by_node;  ///< of these, on nodes with servers
    };

    // VirtualJob (servers_job.cpp).
    void start_work() override;
    void deal() override {}  // ServerScheduler does, with every event
    void deliver(const SessionPush& push) override { scheduler_.push(push); }
    void fired(const Fire& fire) override;
    void released(const ReleaseOne& release) override;
    void interrupted(const Interrupt& interrupt) override;
    void came_back(const Lease& lease) override;
    void install(PlanChange change) override { scheduler_.install(std::move(change)); }
    [[nodiscard]] EffectInterpreter& effects() override { return scheduler_.effects(); }
    void end_work() override;
    void report_servers(SimulationResult& result) override;

    // ServerOrders (servers_job_leases.cpp).
    [[nodiscard]] bool stages(int worker) const override;
    void prepare(const std::vector<DealtLease>& leases) override;
    void deal(const std::vector<DealtLease>& leases) override;
    [[nodiscard]] bool may_validate(int worker) const override;
    void deal_validation(const ValidationSampler::Dealt& lease) override;
    void installing(const SyncPlan& plan) override { log_plan(plan); }
    void flush() override;
    void start_learning(int worker);

    // Servers and parameters (servers_job.cpp).
    [[nodiscard]] Release prepare(int worker, std::int64_t version, double lag);
    [[nodiscard]] std::vector<double> lags_of(const std::vector<Release>& releases) const;
    UpdatePtr order(double passes, double fixed_s, std::vector<Release> releases,
                    const std::shared_ptr<const int>& missing);
    void order_copies(std::vector<Release> releases);
    void pull(int worker, const UpdatePtr& update);
    void pulled(const Release& release);
    void give_up(int worker);
    double cancel(ClusterWork& work);
    void carry(Carried& carried, int node, double share) const;

    // Sums of nodes (servers_job_nodes.cpp).
    [[nodiscard]] static std::map<int, int> heads_of(const JobSpec& spec);
    void send_sum(int node, int pushes, const std::shared_ptr<int>& missing);

    // Work (servers_job_work.cpp).
    void start(int worker);
    void start_validation(int worker);
    void validated(Learner::WorkId learned);
    void begin_step(int worker);
    void compute(int worker, std::int64_t samples, Action backward_begins, Action done);
    void backward(int worker);
    void step_done(int worker);
    void local_update(int worker);
    void step_over(int worker);
    void note_step(int worker);
    void lease_computed(int worker);
    void begin_push(int worker);
    void pushed(int worker, std::uint64_t turn);
    void arrived(int worker);
    void settle_arrivals();
    void complete(int worker);
    void group_backward(const std::shared_ptr<Group>& group);
    void group_step(const std::shared_ptr<Group>& group);
    ClusterWork send_push(int worker, Action done);

    /// That a worker holds.
    [[nodiscard]] Lease& lease_of(int index) { return lease_out(worker(index).lease); }
    [[nodiscard]] Worker& worker(int index) { return workers_[at(index)]; }

    std::deque<ServerLine> servers_;
    std::map<int, int> heads_;           ///< by node that stages: the worker that sums
    std::map<int, ServerLine> summing_;  ///< by node
    std::set<std::uint64_t> staged_;     ///< leases whose pushes wait on their nodes
    std::weak_ptr<Update> current_;      ///< made a copy of the newest parameters as they are
    Carried pushed_;
    Carried pulled_;
    std::vector<Worker> workers_;
    ServerScheduler scheduler_;
    std::set<Learner::WorkId> validations_;  ///< under way
    std::vector<Release> releases_;          ///< of the event: not ordered yet
    std::vector<Release> arrivals_;          ///< complete pushes of this moment
    EventQueue::Id settling_ = 0;            ///< when they go to the engine
    std::uint64_t turns_ = 0;
    std::int64_t under_way_ = 0;  ///< pulls, computations, pushes
};

}  // namespace cohort
