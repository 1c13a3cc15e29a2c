#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "sched/session/server_scheduler.hpp"
#include "train/coordinator/servers/order_sender.hpp"
#include "train/coordinator/servers/payload_router.hpp"
#include "train/coordinator/servers/push_arrivals.hpp"
#include "train/coordinator/servers/shard_moves.hpp"
#include "train/coordinator/update_driver.hpp"

namespace cohort {

/// The coordinator's side of parameter servers: tells the session's ServerScheduler which pushes
/// are complete and who was lost, and sends what it orders to servers and workers.
///  1. leases are dealt, servers release the first parameters
///  2. a push counts once its ticket is received and every server holds its payload; the engine
///     says what becomes of it
///  3. an update goes to all servers in the same order, with what it carries; so all shards pass
///     through the same versions, and no message of one needs to wait for another
/// Interrupts, losses and other plans take leases back: the worker is told which (kRevoke), and
/// gets others.
class ServersUpdateDriver final : public UpdateDriver {
public:
    ServersUpdateDriver(CommContext comm, const JobContext& parts, UpdateObserver& observer);

    int begin(const BeginOrder& order, const UpdateExtras& extras) override;
    bool handle(const Message& message) override;
    int request(const UpdateExtras& extras) override;
    [[nodiscard]] bool quiet() const override { return scheduler_.quiet(); }
    void install(PlanChange change) override { scheduler_.install(std::move(change)); }
    void lost(int worker) override;
    void joined(int worker) override;
    void lost_at_the_end(int worker) override;
    [[nodiscard]] std::vector<int> awaited() const override;
    [[nodiscard]] std::vector<int> evaluators() const override { return orders_.evaluators(); }
    std::string servers(const std::string& words) override;

private:
    /// Of an update's mean gradient, from the shards that have answered.
    struct Measured {
        double squares = 0;
        int parts = 0;
    };

    // Messages.
    [[nodiscard]] bool current(const PushId& push) const;
    void arrived(const PushReport& report);
    void arrived(const PushReceived& staged);
    void arrived(const GradientStatsReply& summed);
    void arrived(const ReshardedNote& note);
    void complete(const PushArrivals::Complete& push);
    void learn_from(const PushArrivals::Complete& push);
    [[nodiscard]] FireOrder release_all(const UpdateExtras& extras);
    void close();

    CommContext comm_;
    const JobContext& parts_;
    UpdateObserver& observer_;
    TrainingSession& session_;
    SteadyClock clock_;
    PushArrivals arrivals_;
    PayloadRouter payloads_;
    ShardMoves moves_;
    OrderSender orders_;
    ServerScheduler scheduler_;
    std::map<std::int64_t, Measured> measured_;  ///< by version
    bool closed_ = false;                        ///< the run is over: accounts are closed
};

}  // namespace cohort
