#pragma once

#include <cstdint>
#include <vector>

#include "train/coordinator/ring/ring_context.hpp"

namespace cohort {

/// Orders workers to be members or riders, and sees to it that each gets the parameters that it
/// goes on with: a rider from its parent, after the round that takes its gradient or apart from any
/// round; an entering member from another one.
class RingRoles {
public:
    explicit RingRoles(RingContext& context)
        : context_(context), workers_(static_cast<std::size_t>(context.links.map.workers())) {}

    /// @return the order's number
    std::uint64_t give(int worker, RoleOrder order);
    /// Makes a worker a member with everything that `giver` holds. @return the order's number
    std::uint64_t bring(int worker, int giver);
    /// Gives a worker that is no member, or leaves the ring with the parameters it has, a role.
    void move(int worker, RingRole role, int parent);
    /// A worker that was lost begins again as a rider.
    void rejoin(int worker);
    [[nodiscard]] std::uint64_t newest(int worker) const { return at(worker).order; }
    /// The parent before the newest order.
    [[nodiscard]] int parent_before(int worker) const { return at(worker).parent_before; }

    /// The worker that sends this one its parameters, or the state of a member.
    [[nodiscard]] int giver(int worker) const { return at(worker).giver; }
    /// Whether a member may still wait for the state that this worker was to send.
    [[nodiscard]] bool awaits_state_of(int worker) const;
    /// The rider gets its next parameters apart from any round, once it has taken its newest role.
    void request(int rider) { at(rider).requested = true; }
    [[nodiscard]] bool requested(int rider) const { return at(rider).requested; }
    void cancel_request(int rider) { at(rider).requested = false; }
    /// Carries out what is requested.
    void send_parameters();
    /// The round that takes the rider's gradient brings its parameters.
    void await_round(int rider, int parent);
    /// The parent of a rider has sent it the parameters of this round.
    void sent_in_round(int rider, int parent, std::uint64_t round);
    /// After the loss of a member: the parameters of `round`, which took the rider's gradient, were
    /// not sent unless its parent is among the workers that completed it.
    [[nodiscard]] bool missed(int rider, std::uint64_t round, const std::vector<int>& completed);
    /// Reference batches between the rider's parameters and `reached`.
    [[nodiscard]] double lag(int rider, double reached) const {
        return reached - at(rider).reference;
    }

private:
    struct Worker {
        std::uint64_t order = 0;  ///< number of its newest role order
        int parent_before = 0;
        int giver = 0;
        bool requested = false;
        std::uint64_t round = 0;  ///< that took the rider's newest gradient; 0: none
        double reference = 0;     ///< reference batches in the parameters that it has
    };
    [[nodiscard]] Worker& at(int worker) { return workers_.at(static_cast<std::size_t>(worker)); }
    [[nodiscard]] const Worker& at(int worker) const {
        return workers_.at(static_cast<std::size_t>(worker));
    }

    RingContext& context_;
    std::vector<Worker> workers_;
    std::uint64_t orders_ = 0;
};

}  // namespace cohort
