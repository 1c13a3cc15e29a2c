#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "session/training_session.hpp"

namespace cohort {

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
    bool set_idle(int worker, bool idle);
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
