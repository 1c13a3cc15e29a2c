#pragma once

#include <cstdint>
#include <vector>

#include "sched/session/server_scheduler.hpp"
#include "train/coordinator/servers/payload_router.hpp"
#include "train/coordinator/servers/shard_moves.hpp"
#include "train/coordinator/update_driver.hpp"

namespace cohort {

/// Sends what a session with parameter servers orders: updates and releases to servers, leases and
/// what becomes of them to workers.
class OrderSender final : public EffectHandler, public ServerOrders {
public:
    /// All of them outlive it.
    OrderSender(CommContext comm, UpdateObserver& observer, PayloadRouter& payloads,
                ShardMoves& moves)
        : comm_(comm),
          observer_(observer),
          session_(observer.session()),
          payloads_(payloads),
          moves_(moves) {}

    /// Every worker that is live starts again with the newest parameters, and does a part of the
    /// evaluation that `extras` ask for.
    [[nodiscard]] FireOrder releases_to_all(const UpdateExtras& extras);
    /// World ranks that do the evaluation ordered last, part by part.
    [[nodiscard]] const std::vector<int>& evaluators() const noexcept { return evaluators_; }

    // EffectHandler.
    void apply(const UpdateOrder& update, const Fire& fire) override;
    void applied(const UpdateOrder& update, const Fire& fire) override;
    void release(const ReleaseOne& one) override;
    void interrupt(const Interrupt& interrupt, const ReturnLease* lease) override;
    void refuse(const Refuse& refusal, const PushTicket& ticket, bool held) override;
    void dropped(const PushTicket& ticket) override;

    // ServerOrders.
    [[nodiscard]] bool stages(int worker) const override {
        return payloads_.stages(worker, session_.engine().plan());
    }
    void deal(const std::vector<DealtLease>& leases) override;
    void deal_validation(const ValidationSampler::Dealt& lease) override;
    void revoke(int worker, const std::vector<std::uint64_t>& leases) override;
    void installing(const SyncPlan& /*plan*/) override { moves_.restart(); }
    void joins(int worker) override;
    void move_shards() override { moves_.begin(); }

private:
    [[nodiscard]] ReleaseOrder release_order(int worker, double lag,
                                             const EvaluationOrder& evaluation) const;
    void note_evaluators(const FireOrder& order);

    CommContext comm_;
    UpdateObserver& observer_;
    TrainingSession& session_;
    PayloadRouter& payloads_;
    ShardMoves& moves_;
    UpdateExtras extras_;          ///< of the update that is being carried out
    int evaluation_parts_ = 0;     ///< of it
    std::vector<int> evaluators_;  ///< ranks
};

}  // namespace cohort
