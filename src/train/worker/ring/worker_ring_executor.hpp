#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "train/protocol/protocol_ring.hpp"
#include "train/server/server_checkpoints.hpp"
#include "train/worker/ring/worker_ring_inbox.hpp"
#include "train/worker/ring/worker_ring_rides.hpp"
#include "train/worker/ring/worker_ring_rounds.hpp"
#include "train/worker/worker_context.hpp"
#include "train/worker/worker_snapshots.hpp"

namespace cohort {

/// The worker's part in a ring:
///  1. kBegin: parameters, state and optimizer from the seed or a checkpoint, on every worker
///  member:
///  2. a grant comes (one round ahead): the batch of its lease, or nothing; gradients of its riders
///  3. the weighted gradient goes into the ring while backward runs, the tail ends it
///  4. all tails finite: every member applies the same update and sends it to the riders whose
///     gradients were in it; else the round is void
///  5. the first member reports the tails; snapshot and evaluation as the grant says; then 2 again
///  rider:
///  2. parameters are leave to start one mini-batch, that of its oldest lease
///  3. the gradient leaves for its parent while backward runs, the ticket follows; then 2 again
class RingExecutor final : public WorkerExecutor {
public:
    RingExecutor(WorkerContext& context, RoundExchangeFactory rounds);
    ~RingExecutor() override;

    void order(const Message& message) override;
    void run() override;
    [[nodiscard]] std::int64_t version() const noexcept override { return version_; }

private:
    using Order = std::variant<RoundOrder, RoleOrder, SendStateOrder>;

    // Orders and roles (worker_ring.cpp).
    void ring_order(const Message& message);
    void queue(Order order);
    [[nodiscard]] bool is_void(RoundOrder& order) const;
    template <class Other>
    [[nodiscard]] bool is_void(const Other& order) const {
        return order.epoch < epoch_;
    }
    void take_push(PushId push);
    void begin(const BeginOrder& order);
    void end();
    [[nodiscard]] bool something_to_do() const;
    void await_something();
    void recover(const RecoverOrder& order);
    void join(const JoinOrder& order);
    void carry_out(const RoleOrder& order);
    [[nodiscard]] bool await_state(const RoleOrder& order);
    void carry_out(const SendStateOrder& order);
    void send_state(StateHeader header, int worker, double lr, double lag);
    [[nodiscard]] std::function<bool(const StateHeader&)> mine_to_start() const;
    void take_parameters();
    void ride();

    // Rounds (worker_ring_member.cpp).
    void carry_out(const RoundOrder& order);
    [[nodiscard]] bool round(const RoundOrder& order);
    [[nodiscard]] std::vector<AddedPush> pushes_of(const RoundOrder& order,
                                                   const RoundMember& mine) const;
    void apply(const RoundOrder& order, const MemberRounds::Sum& sum);
    void add_delta(std::span<const float> delta);
    void release_riders(const RoundOrder& order, const RoundMember& mine);
    void report(const RoundOrder& order, const MemberRounds::Sum& sum,
                const GradientAnswer& answer);
    [[nodiscard]] GradientAnswer answer_to(const RoundOrder& order, const MemberRounds::Sum& sum);
    void snapshot(const SnapshotOrder& order);
    void evaluate(const RoundOrder& order);
    [[nodiscard]] std::int64_t parameters() const {
        return static_cast<std::int64_t>(replica_.parameters().size());
    }

    WorkerContext& context_;
    Replica& replica_;
    MemberRounds rounds_;
    std::unique_ptr<Optimizer> optimizer_;
    RingInbox inbox_;
    RingRides rides_;
    std::map<PushId, std::shared_ptr<const float>> staged_;  ///< of this worker's riders
    std::deque<Order> orders_;                               ///< not carried out, oldest first
    std::optional<RecoverOrder> recover_;                    ///< not answered
    std::optional<JoinOrder> join_;                          ///< not carried out
    RingRole role_ = RingRole::kMember;
    int parent_ = 0;
    bool leave_ = false;   ///< rider: its parameters are leave to start a mini-batch
    bool broken_ = false;  ///< a member was lost: no round can end before recovery
    bool begun_ = false;
    std::uint64_t epoch_ = 0;             ///< of the newest order
    std::uint64_t parameters_epoch_ = 0;  ///< rider: parameters of older ones do not count
    std::uint64_t held_epoch_ = 0;        ///< rider: of the parameters that it has
    std::int64_t version_ = 0;
    std::uint64_t done_ = 0;        ///< grants carried out
    std::uint64_t skip_ = 0;        ///< rounds up to this one do not begin
    std::uint64_t last_round_ = 0;  ///< that was over here, void ones too
    std::vector<float> kept_;       ///< mean gradient of a round, to compare; empty: none
    RoundReport last_report_;       ///< of it
    ShardWriter writer_;            ///< last: writes what is left before the rest goes
};

}  // namespace cohort
