#pragma once

#include <cstdint>
#include <vector>

#include "train/coordinator/ring/ring_context.hpp"

namespace cohort {

/// The newest role of a worker, and the parameters that it goes on with.
struct WorkerRole {
    std::uint64_t order = 0;  ///< number of the order
    int parent_before = 0;
    int giver = 0;            ///< sends it the parameters, or the state of a member
    bool requested = false;   ///< a rider's are to be sent apart from any round
    bool apart = false;       ///< a member was ordered to send them; the rider has not told of them
    std::uint64_t round = 0;  ///< that took a rider's newest gradient; 0: none
    double reference = 0;     ///< reference batches in the parameters that it has
    std::int64_t version = 0;  ///< of the parameters that it has, or an older one
};

/// Orders workers to be members or riders, and sees to it that each gets the parameters that it
/// goes on with: a rider from its parent, after the round that takes its gradient or apart from any
/// round; an entering member from another one.
class RingRoles {
public:
    explicit RingRoles(RingContext& context)
        : context_(context), workers_(static_cast<std::size_t>(context.comm.map.workers())) {}

    /// @return the order's number
    std::uint64_t give(int worker, RoleOrder order);
    /// Makes a worker a member with everything that `giver` holds. @return the order's number
    std::uint64_t bring(int worker, int giver);
    /// The ring goes on with this worker alone, from the parameters it holds and the optimizer's
    /// state of `giver`, its own if that is itself. @param round  the last one that is settled
    /// @return the order's number
    std::uint64_t succeed(int worker, int giver, std::uint64_t round);
    /// Gives a worker that is no member, or leaves the ring with the parameters it has, a role.
    void move(int worker, RingRole role, int parent);
    /// A worker that was lost begins again as a rider.
    void rejoin(int worker);
    /// Whether a member may still wait for the state that this worker was to send.
    [[nodiscard]] bool awaits_state_of(int worker) const;
    /// Carries out what is requested.
    void send_parameters();
    [[nodiscard]] WorkerRole& at(int worker) {
        return workers_.at(static_cast<std::size_t>(worker));
    }
    [[nodiscard]] const WorkerRole& at(int worker) const {
        return workers_.at(static_cast<std::size_t>(worker));
    }

private:
    RingContext& context_;
    std::vector<WorkerRole> workers_;
    std::uint64_t orders_ = 0;
};

}  // namespace cohort
