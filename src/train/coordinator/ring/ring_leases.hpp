#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "train/coordinator/ring/ring_context.hpp"
#include "train/coordinator/ring/ring_gradients.hpp"

namespace cohort {

/// The leases of a ring's workers: dealt ahead, claimed for rounds and by riders' tickets, and
/// returned.
class RingLeases {
public:
    RingLeases(RingContext& context, RingGradients& gradients);

    void deal();
    /// The oldest lease of a worker that is in no round.
    [[nodiscard]] std::optional<LeaseOrder> claim(int worker);
    /// The same for a member's share in a round.
    [[nodiscard]] RoundLease claim_for_round(int worker);
    /// A member's share in a round that is skipped: live members keep their leases.
    void unclaim(const Round& round, const RoundMember& member);
    /// A lease comes back. At the end of a run all of them have come back already.
    void give_back(int worker, std::uint64_t lease, ReturnReason reason);
    /// A lost worker's come back, but for those in a round, which may still be applied.
    void lost(int worker);
    /// Sizes of leases under the plan in force. Workers that hold some of another size or kind,
    /// which they have not begun, get new ones. A rider goes on with its leases, unless they are
    /// those for several local steps that it got as a member.
    /// @param members  that are about to be  @param batches  by worker; empty: as before
    void resize(const std::vector<int>& members, bool other_work,
                std::vector<std::int64_t> batches);

private:
    [[nodiscard]] std::int64_t batch_of(int worker) const;
    [[nodiscard]] std::vector<std::uint64_t> granted() const;
    void replace(int worker);

    RingContext& context_;
    RingGradients& gradients_;
    std::vector<std::deque<LeaseOrder>> unused_;  ///< by worker: claimed, in no round
    std::vector<std::int64_t> batches_;           ///< by worker, as installed; empty: --batch
    std::vector<std::int64_t> sizes_;             ///< of leases, by worker
};

}  // namespace cohort
