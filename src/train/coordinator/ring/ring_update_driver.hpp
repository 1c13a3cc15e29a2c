#pragma once

#include <cstdint>
#include <vector>

#include "sched/session/ring/ring.hpp"
#include "train/coordinator/ring/ring_context.hpp"
#include "train/coordinator/ring/ring_gradients.hpp"
#include "train/coordinator/ring/ring_leases.hpp"
#include "train/coordinator/ring/ring_losses.hpp"
#include "train/coordinator/ring/ring_requests.hpp"
#include "train/coordinator/ring/ring_riders.hpp"
#include "train/coordinator/ring/ring_roles.hpp"
#include "train/coordinator/ring/round_orders.hpp"
#include "train/coordinator/ring/round_results.hpp"
#include "train/coordinator/update_driver.hpp"

namespace cohort {

/// The coordinator's side of a ring:
///  1. leases are dealt; a grant names each member's next one, the gradients of riders that their
///     parents hold by then, and fixes weights, learning rate and what follows the round, while the
///     round before it still runs
///  2. the members sum, update and go on; the first one reports the tails
///  3. the engine gets the pushes, riders' first; its fire is the update that the members have
///     already applied; a round with a tail that is not finite is aborted and its leases come back
/// A plan is installed where no round is under way.
class RingUpdateDriver final : public UpdateDriver, private RingDriver {
public:
    RingUpdateDriver(CommContext comm, const JobContext& parts, UpdateObserver& observer);

    int begin(const BeginOrder& order, const UpdateExtras& extras) override;
    bool handle(const Message& message) override;
    int request(const UpdateExtras& extras) override;
    [[nodiscard]] bool quiet() const override {
        return ring_.rounds.empty() && !losses_.recovering();
    }
    void install(PlanChange change) override;
    void lost(int worker) override;
    void joined(int worker) override;
    /// Of rounds the members' own waits say whom they wait for.
    [[nodiscard]] std::vector<int> awaited() const override { return losses_.awaited(); }
    [[nodiscard]] std::vector<int> evaluators() const override { return requests_.evaluators(); }

private:
    // RingDriver
    [[nodiscard]] double learning_rate(std::int64_t samples) const override {
        return context_.parts.schedule.lr(context_.parts.options.lr, samples);
    }
    RoundLease claim(int worker) override { return leases_.claim_for_round(worker); }
    bool usable(const PushId& push) override { return !riders_.is_stranded(push); }
    void give_role(int worker, RingRole role, int parent) override;
    void enter(int worker, int giver) override;

    bool handle_ring(const Message& message);
    void go_on();
    void reported(const RoundReport& report);
    void switch_over();

    Ring ring_;
    RingContext context_;
    RingGradients gradients_;
    RingLeases leases_;
    RingRoles roles_;
    RingRiders riders_;
    RingRequests requests_;
    RoundOrders orders_;
    RoundResults results_;
    RingLosses losses_;
};

}  // namespace cohort
