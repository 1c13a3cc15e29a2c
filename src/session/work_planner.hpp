#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "sched/plan/lease_work.hpp"
#include "session/training_session.hpp"

namespace cohort {

/// Decides what is to be done with the leases of a job with parameter servers, as the plan in force
/// wants it: their sizes, local steps, and who works on them together. Pure.
class WorkPlanner {
public:
    /// Whether a worker's pushes stay on its node under the plan in force.
    using Stages = std::function<bool(int worker)>;
    /// @param session  outlives it
    WorkPlanner(TrainingSession& session, Stages stages);

    /// Fills in the work of new leases.
    void plan_work(std::vector<DealtLease>& dealt);
    /// What the plan in force asks of leases.
    [[nodiscard]] LeaseShape shape() const;
    /// New leases are as the plan in force wants them.
    void shape_leases();
    /// Samples of a worker's gradient or local step.
    [[nodiscard]] const std::vector<std::int64_t>& batches() const noexcept { return batches_; }
    void set_batches(std::vector<std::int64_t> batches);
    /// By worker.
    [[nodiscard]] const std::vector<bool>& live() const noexcept { return live_; }
    /// A worker that is not live gets no leases.
    void set_live(int worker, bool live);
    /// Members of groups are others than before: exchanges between them begin anew.
    void new_generation() noexcept { ++generation_; }
    /// Workers that hold a lease which is worked on together with this worker.
    [[nodiscard]] std::vector<int> partners(int worker) const;
    /// The oldest lease that the worker holds is worked on in a group.
    [[nodiscard]] bool in_group(int worker) const;

private:
    void form_groups(std::vector<DealtLease>& dealt) const;

    TrainingSession& session_;
    Stages stages_;
    std::vector<bool> live_;             ///< by worker
    std::vector<std::int64_t> batches_;  ///< by worker
    std::uint64_t generation_ = 0;       ///< of groups
};

/// Where the workers of a job with parameter servers are: waiting for parameters, ready to begin,
/// or at an iteration; and who has no lease. Tells the session when iterations begin and are given
/// up. Pure.
class WorkerQueue {
public:
    /// @param session  outlives it
    explicit WorkerQueue(TrainingSession& session)
        : session_(session), workers_(static_cast<std::size_t>(session.options().workers)) {}

    /// A worker is sent parameters, in place of those it had.
    void released(int worker);
    /// The worker's push has arrived, or nothing more will come from it.
    void arrived(int worker);
    /// A lease of the worker is about to return.
    void returns(int worker, std::uint64_t lease);
    /// The worker holds parameters that it has not answered with a push.
    [[nodiscard]] bool has_parameters(int worker) const {
        return at(worker).running || ready_.contains(worker);
    }
    /// Workers that have parameters and a lease begin their oldest lease that they have not pushed.
    void begin_iterations();

    /// Notes whether the engine knows a worker as idle; returns whether it did.
    bool set_idle(int worker, bool idle) { return std::exchange(at(worker).idle, idle); }
    [[nodiscard]] bool idle(int worker) const { return at(worker).idle; }
    /// Workers that have received no lease since they were released: those whom nobody waits for,
    /// then those that the engine waits for.
    [[nodiscard]] std::array<std::vector<int>, 2> wanting() const;
    /// The worker has received a lease.
    void served(int worker);
    /// The latter of these; from now on nobody waits for them.
    [[nodiscard]] std::vector<int> take_wanting();

private:
    struct Worker {
        bool idle = true;      ///< as the engine knows it
        bool running = false;  ///< at an iteration
    };
    [[nodiscard]] Worker& at(int worker) { return workers_.at(static_cast<std::size_t>(worker)); }
    [[nodiscard]] const Worker& at(int worker) const {
        return workers_.at(static_cast<std::size_t>(worker));
    }

    TrainingSession& session_;
    std::vector<Worker> workers_;
    std::set<int> ready_;     ///< have parameters, and are at no iteration
    std::set<int> wanting_;   ///< released, no lease since, and the engine waits for them
    std::set<int> unneeded_;  ///< the same, and nobody waits for them
};

}  // namespace cohort
