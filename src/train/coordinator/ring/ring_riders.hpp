#pragma once

#include <cstdint>

#include "train/coordinator/ring/ring_context.hpp"
#include "train/coordinator/ring/ring_gradients.hpp"
#include "train/coordinator/ring/ring_leases.hpp"
#include "train/coordinator/ring/ring_roles.hpp"

namespace cohort {

/// What riders and their parents say, and what becomes of the riders whose parent is lost.
class RingRiders {
public:
    RingRiders(RingContext& context, RingLeases& leases, RingGradients& gradients, RingRoles& roles)
        : context_(context), leases_(leases), gradients_(gradients), roles_(roles) {}

    void take_report(const PushReport& report);
    void take_staged(const PushReceived& staged);
    /// A worker has taken its newest role.
    void role_taken(const RoleTaken& taken);
    /// The round's parents have sent its riders new parameters.
    void applied(const Round& round);
    /// A lost worker's pushes are void, but for those in a round, which may still be applied.
    void lost(int worker);
    /// The same of the lost riders of a round that is not applied.
    void forget_lost(const Round& round);
    /// A rider is the ring's only member now.
    void succeeds(int worker);
    /// A version such that no live rider holds an older one, as far as they have told.
    [[nodiscard]] std::int64_t oldest_version() const;
    /// Riders of a lost parent get another one; what they had begun is void.
    void adopt();
    /// After the loss of all members: all other live workers become riders of the successor. The
    /// mini-batches that they had begun, and parameters that are on their way to them, are void.
    void all_ride_with(int successor);
    /// Members forget orders of older epochs, among them orders to send a rider parameters. Those
    /// that no rider has told of are given again.
    void ask_again();
    /// After the loss of a member: riders that miss the parameters of `round`, since the worker
    /// that was to send them is not among those that completed it, get new ones.
    void replace_missed(std::uint64_t round, const std::vector<int>& completed);
    /// The push lies with a worker that takes no part in rounds.
    [[nodiscard]] bool is_stranded(const PushId& push) const;

private:
    void refuse(const PushTicket& ticket, const LeaseOrder& lease);
    void forget(int worker);
    void drop(const PushId& push);
    void drop_begun(int rider);
    void discard(int parent, const PushId& push) const;
    void begin_anew(int worker, RingRole role, int parent, const std::vector<PushId>& gone);

    RingContext& context_;
    RingLeases& leases_;
    RingGradients& gradients_;
    RingRoles& roles_;
};

}  // namespace cohort
