// The worker's part in a ring:
//  1. kBegin: parameters, state and optimizer from the seed or a checkpoint, on every worker
//  member (ring_member.hpp):
//  2. a grant comes (one round ahead): the batch of its lease, or nothing; gradients of its riders
//  3. the weighted gradient goes into the ring while backward runs, the summary ends it
//  4. all summaries finite: every member applies the same update and sends it to the riders whose
//     gradients were in it; else the round is aborted
//  5. the first member reports the summaries; snapshot and evaluation as the grant says; then 2
//     again
//  rider (ring_rider.hpp):
//  2. parameters permit it to start one mini-batch, that of its oldest lease
//  3. the gradient leaves for its parent while backward runs, the report follows; then 2 again
#include "train/worker/worker_context.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "train/protocol/complete_transfers.hpp"
#include "train/worker/ring/ring_member.hpp"
#include "train/worker/ring/ring_rider.hpp"

namespace cohort {
namespace {

/// What the coordinator has ordered and the worker has not carried out.
class RingOrders {
public:
    using Order = std::variant<RoundOrder, RoleOrder, SendStateOrder>;

    void queue(Order order) {
        const std::uint64_t epoch = epoch_of(order);
        epoch_ = std::max(epoch_, epoch);
        if (epoch == epoch_) {
            orders_.push_back(std::move(order));
        }
    }

    /// A member was lost: orders of older epochs are void.
    void recover(const RecoverOrder& order) {
        recover_ = order;
        epoch_ = std::max(epoch_, order.epoch);
        std::erase_if(orders_, [this](Order& one) { return is_void(one); });
    }

    /// This worker was lost and joins again: all orders from before are void.
    void join(const JoinOrder& order) {
        orders_.clear();
        recover_.reset();
        join_ = order;
    }

    /// Epoch of the newest order.
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
    [[nodiscard]] bool empty() const noexcept { return orders_.empty(); }
    /// A recovery or a join, which come before all other orders, is waiting.
    [[nodiscard]] bool interrupted() const noexcept { return recover_ || join_; }

    [[nodiscard]] std::optional<JoinOrder> take_join() { return std::exchange(join_, {}); }
    [[nodiscard]] std::optional<RecoverOrder> take_recovery() {
        return std::exchange(recover_, {});
    }
    /// The oldest of the others.
    [[nodiscard]] Order take() {
        Order order = std::move(orders_.front());
        orders_.pop_front();
        return order;
    }

private:
    [[nodiscard]] static std::uint64_t epoch_of(const Order& order) {
        return std::visit([](const auto& one) { return one.epoch; }, order);
    }

    /// A snapshot that no round goes with stays: the model that it is taken of is complete on this
    /// worker. Evaluations are ordered again.
    [[nodiscard]] bool is_void(Order& order) const {
        if (epoch_of(order) >= epoch_) {
            return false;
        }
        auto* round = std::get_if<RoundOrder>(&order);
        if (round == nullptr) {
            return true;
        }
        round->evaluation = 0;
        return !round->members.empty() || round->snapshot.empty();
    }

    std::deque<Order> orders_;  ///< oldest first
    std::optional<RecoverOrder> recover_;
    std::optional<JoinOrder> join_;
    std::uint64_t epoch_ = 0;
};

class RingExecutor final : public WorkerExecutor {
public:
    RingExecutor(WorkerContext& context, AllReduceFactory rounds)
        : context_(context),
          model_(context),
          member_(context, model_, std::move(rounds)),
          inbox_(member_.floats(), model_.pulled()),
          rider_(context, model_, inbox_) {
        context_.comm().messenger.set_sink(Port::kWorker, &inbox_);
    }
    ~RingExecutor() override { context_.comm().messenger.set_sink(Port::kWorker, nullptr); }

    void order(const Message& message) override {
        switch (static_cast<MessageKind>(message.kind)) {
            case MessageKind::kBegin: model_.begin(decode<BeginOrder>(message.body)); return;
            case MessageKind::kRound: orders_.queue(decode<RoundOrder>(message.body)); return;
            case MessageKind::kRevoke:
                context_.batches().revoke(decode<RevokeOrder>(message.body));
                return;
            case MessageKind::kJoin: orders_.join(decode<JoinOrder>(message.body)); return;
            case MessageKind::kPush: take_push(decode<PushHeader>(message.body).push); return;
            case MessageKind::kDiscard: discard(decode<DiscardOrder>(message.body)); return;
            default: ring_order(message);
        }
    }

    /// Orders are carried out in the order in which they came, before anything that a rider does on
    /// its own; grants that came before kStop too: other members may be in those rounds already.
    void run() override {
        for (;;) {
            await_something();
            if (const auto join_order = orders_.take_join()) {
                join(*join_order);
            } else if (const auto recovery = orders_.take_recovery()) {
                recover(*recovery);
            } else if (!broken_ && !orders_.empty()) {
                std::visit([this](const auto& one) { carry_out(one); }, orders_.take());
            } else if (context_.coordinator().stopped()) {
                break;
            } else {
                rider_.step();
            }
        }
        end();
    }

    [[nodiscard]] std::int64_t version() const noexcept override { return model_.version(); }

private:
    void ring_order(const Message& message) {
        switch (static_cast<RingMessageKind>(message.kind)) {
            case RingMessageKind::kRole: orders_.queue(decode<RoleOrder>(message.body)); return;
            case RingMessageKind::kSendState:
                orders_.queue(decode<SendStateOrder>(message.body));
                return;
            case RingMessageKind::kState: inbox_.state_arrived(message); return;
            case RingMessageKind::kHalt: {
                const auto halt = decode<HaltOrder>(message.body);
                member_.halt(halt.epoch == orders_.epoch() ? halt.round : 0);
                return;
            }
            case RingMessageKind::kRecover:
                orders_.recover(decode<RecoverOrder>(message.body));
                return;
            default: refuse_order(message);
        }
    }

    void take_push(PushId push) {
        if (auto values = inbox_.push_arrived(push)) {
            member_.stage(push, std::move(values));
            context_.coordinator().tell(MessageKind::kPushReceived,
                                        PushReceived{.push = push, .server = context_.worker()});
        }
    }

    void discard(const DiscardOrder& order) {
        for (const PushId& push : order.pushes) {
            if (!member_.discard(push)) {
                inbox_.discard(push);
            }
        }
    }

    /// Nobody writes into this worker's memory any more when this returns.
    void end() {
        complete_transfers(
            context_.comm(), Port::kWorker, "last gradients and parameters",
            [this] { return inbox_.coming(); },
            [this](const Message& message) { inbox_.forget(message); });
    }

    [[nodiscard]] bool something_to_do() const {
        if (orders_.interrupted()) {
            return true;
        }
        return !broken_ && ((role_ == RingRole::kRider && rider_.ready()) || !orders_.empty());
    }

    void await_something() {
        const auto ready = [this] { return something_to_do(); };
        if (role_ == RingRole::kRider && !rider_.may_start() && !broken_) {
            context_.coordinator().await(
                "parameters", rider_.begun(), ready,
                [rank = rider_.parent()] { return std::vector<int>{rank}; }, WaitLimit::kWarn);
        } else {
            const char* name = broken_                      ? "recovery of the ring"
                               : role_ == RingRole::kMember ? "round grant"
                                                            : "lease";
            context_.coordinator().await(name, member_.done() + 1, ready,
                                         CoordinatorLink::from_coordinator(), WaitLimit::kNone);
        }
    }

    /// The round that cannot end is over: tells the coordinator what this worker holds, to compare.
    /// A rider's parameters stay as they are until the coordinator says how the job goes on.
    void recover(const RecoverOrder& order) {
        broken_ = false;
        if (role_ != RingRole::kMember) {
            rider_.take_last_parameters(order.epoch);
        }
        context_.coordinator().tell(RingMessageKind::kRecovered,
                                    Recovered{.epoch = order.epoch,
                                              .worker = context_.worker(),
                                              .round = model_.last_round(),
                                              .version = model_.usable_version(),
                                              .reports = model_.reports(),
                                              .parameters_round = model_.parameters_round(),
                                              .optimizer_version = model_.optimizer_version()});
    }

    /// Restarts as a rider that waits for its role and parameters.
    void join(const JoinOrder& order) {
        context_.batches().revoke(
            {.leases = {}, .up_to = order.leases_up_to, .version = order.version});
        context_.begin_incarnation(order.incarnation);
        rider_.restart();
        member_.restart();
        model_.set_outdated();
        role_ = RingRole::kHold;
        broken_ = false;
    }

    void carry_out(const RoundOrder& order) {
        if (!order.members.empty() && !member_.skips(order)) {
            role_ = RingRole::kMember;
        }
        broken_ = !member_.carry_out(order);
    }

    void carry_out(const RoleOrder& order) {
        if (order.await_state && !await_state(order)) {
            return;  // another loss, or the end
        }
        if (order.successor && !order.await_state) {
            model_.succeed(order, nullptr);
        }
        rider_.follow(order, role_ == RingRole::kMember);
        role_ = order.role;
        inbox_.drop([&](const StateHeader& header) {
            return header.full && header.number <= order.number;
        });
        if (role_ != RingRole::kMember) {
            member_.leave();
        }
        context_.coordinator().tell(
            RingMessageKind::kRoleTaken,
            RoleTaken{
                .worker = context_.worker(), .number = order.number, .sequence = rider_.begun()});
    }

    /// All that a member holds, from another one. False when something else comes first.
    [[nodiscard]] bool await_state(const RoleOrder& order) {
        const auto fits = [&order](const StateHeader& header) {
            return header.full && header.epoch == order.epoch && header.number == order.number;
        };
        const int giver = context_.comm().map.rank_of_worker(order.giver);
        context_.coordinator().await(
            "state of the ring", order.number,
            [&] { return inbox_.has(fits) || orders_.interrupted(); },
            [giver] { return std::vector<int>{giver}; }, WaitLimit::kWarn);
        if (orders_.interrupted()) {
            return false;
        }
        const std::optional<ReceivedState> state = inbox_.take(fits);
        if (state && order.successor) {
            model_.succeed(order, &*state);
        } else if (state) {
            model_.take(*state);
        }
        return state.has_value();
    }

    void carry_out(const SendStateOrder& order) {
        model_.send({.epoch = order.epoch,
                     .number = order.number,
                     .after = order.after,
                     .incarnation = order.incarnation,
                     .full = order.full,
                     .scalars = {}},
                    order.worker, 0, 0);
    }

    WorkerContext& context_;
    RingModel model_;
    RingMember member_;
    RingInbox inbox_;
    RingRider rider_;
    RingOrders orders_;
    RingRole role_ = RingRole::kMember;
    bool broken_ = false;  ///< a member was lost: no round can end before recovery
};

}  // namespace

std::unique_ptr<WorkerExecutor> make_ring_executor(WorkerContext& context,
                                                   AllReduceFactory rounds) {
    return std::make_unique<RingExecutor>(context, std::move(rounds));
}

}  // namespace cohort
