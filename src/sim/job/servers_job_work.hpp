#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/job/servers_job.hpp"

namespace cohort {

/// Gradients that others are compared with, until they are computed and servers have them.
class Validations {
public:
    /// @param learner  outlives it
    explicit Validations(Learner& learner) : learner_(learner) {}

    /// Begins to compute one.
    Learner::WorkId begin(const Learner::Job& job) {
        return *under_way_.insert(learner_.start(job)).first;
    }
    /// It is computed and pushed: the reference from now on, unless it was given up meanwhile.
    void complete(Learner::WorkId work);
    void give_up(Learner::WorkId work) {
        under_way_.erase(work);
        learner_.forget(work);
    }
    /// Gives up all.
    void clear() {
        while (!under_way_.empty()) {
            give_up(*under_way_.begin());
        }
    }

private:
    Learner& learner_;
    std::set<Learner::WorkId> under_way_;
};

/// Pushes that are complete at the same moment: they go to the engine in the order of workers.
class ServersJob::Arrivals {
public:
    explicit Arrivals(ServersJob& job) : job_(job) {}
    Arrivals(const Arrivals&) = delete;
    Arrivals& operator=(const Arrivals&) = delete;
    ~Arrivals() { clear(); }

    /// @param push  of the worker's last release
    void add(const Release& push);
    [[nodiscard]] bool empty() const noexcept { return settling_ == 0; }
    void clear();

private:
    void settle();

    ServersJob& job_;
    std::vector<Release> pushes_;
    EventQueue::Id settling_ = 0;  ///< when they go to the engine
};

/// Workers that begin their leases together and average at every step of them.
class ServersJob::Group : public std::enable_shared_from_this<Group> {
public:
    Group(ServersJob& job, std::vector<int> members) : job_(job), members_(std::move(members)) {}

    [[nodiscard]] bool led_by(int worker) const { return members_.front() == worker; }
    /// Somebody has parameters for the first step.
    [[nodiscard]] bool begun() const noexcept { return arrived_ > 0; }
    /// Begins to compute what all leases ask for.
    void start_learning();
    /// One more has parameters: the last one begins the first step of all.
    void arrive();
    /// One more member's gradient of the step begins to leave.
    void backward();
    /// One more member has computed the step.
    void computed();
    /// Gives up the average.
    void cancel() { job_.transfers_.cancel(averaging_); }

private:
    void end_step();

    ServersJob& job_;
    std::vector<int> members_;
    std::size_t arrived_ = 0;    ///< have parameters
    std::size_t backwards_ = 0;  ///< of the step: begun
    std::size_t computed_ = 0;   ///< of the step: done
    bool averaged_ = false;      ///< of the step
    ServerTransfers::Id averaging_ = 0;
};

/// A worker's iteration: parameters, computing, alone or in a group, and the push. Its lease has
/// been dealt and not pushed; 0: it has none.
class ServersJob::Worker : public VirtualWorker {
public:
    Worker(ServersJob& job, int index) : VirtualWorker(job, index), owner_(&job) {}

    /// It will get the parameters of now, and no earlier ones.
    Release release(std::int64_t of_version, double lag);
    /// Servers send what is done of the update, to this worker alone.
    void pull(const UpdatePtr& update);
    /// Parameters are on their way to it, and have come.
    void begin_pull();
    void pull_arrived(const UpdatePtr& update);
    /// The update is done, and the worker has received all of it. @param turn  of the release that
    /// it is for
    void pulled(std::uint64_t turn);
    void deal(const LeaseOrder& order);
    /// Begins to compute what its lease asks for, for a group with its first member's.
    void start_learning();
    /// Computes, with parameters and a lease that are not used yet.
    void start();
    /// Begins the next step of the lease.
    void next_step();
    /// Updates its own parameters with its own or its group's gradient.
    void local_update();
    /// A push leaves.
    ServerTransfers::Id send_push(Action done);
    /// The lease's push is complete. @return the end of the iteration; the lease is not its any
    /// more
    IterationEnds::End complete();
    /// Gives up what it computes. A push that has begun goes on to its end, and nobody looks at it.
    void give_up();
    /// Gives up all.
    void end();
    [[nodiscard]] VirtualLease& dealt() const { return job_->leases_out.at(lease); }

    struct LastRelease {
        Learner::Released parameters;
        std::int64_t version = 0;  ///< of them
        std::uint64_t turn = 0;    ///< what began before it is not used
        bool unused = false;       ///< the parameters are here and not used
    };
    LastRelease released;
    std::shared_ptr<Group> group;                        ///< of the lease; null: alone
    std::optional<ValidationSampler::Dealt> validation;  ///< to be computed before the lease
    Learner::WorkId validating = 0;  ///< the validation gradient that it computes; 0: none
    double free_since_s = 0;         ///< nothing was done since, as far as lanes know

private:
    void start_validation(const ValidationSampler::Dealt& reference);
    void backward();
    void step_done();
    void lease_computed();
    void begin_push();
    void push_over();
    void spent(LaneSpan::Kind kind, double since_s);

    ServersJob* owner_;
    ServerTransfers::Id pull_ = 0;
    ServerTransfers::Id push_ = 0;  ///< 0 once it is complete
    bool staged_ = false;           ///< the lease's push stays on the node
    bool computing_ = false;        ///< the lease has begun and is not computed
    bool push_done_ = false;        ///< of the lease
    double pushing_since_s_ = 0;    ///< the last push began
};

}  // namespace cohort
