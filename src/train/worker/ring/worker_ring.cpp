#include "train/worker/ring/worker_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/worker/ring/worker_ring_executor.hpp"

namespace cohort {

RingExecutor::RingExecutor(WorkerContext& context, RoundExchangeFactory rounds)
    : context_(context),
      replica_(context.replica()),
      rounds_(context, std::move(rounds)),
      optimizer_(make_optimizer(context.job().optimizer, replica_.graph().parameters(), 0,
                                replica_.graph().parameters().total(), replica_.device(),
                                replica_.stream())),
      inbox_(rounds_.floats()),
      rides_(context, rounds_.floats()),
      writer_(context.job().hdf5, context.links().operations, [&context](const SavedPart& saved) {
          context.coordinator().tell(MessageKind::kSaved, saved);
      }) {
    context_.links().messenger.set_sink(Port::kWorker, &inbox_);
}

RingExecutor::~RingExecutor() {
    context_.links().messenger.set_sink(Port::kWorker, nullptr);
}

void RingExecutor::order(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kBegin: begin(decode<BeginOrder>(message.body)); return;
        case MessageKind::kRound: queue(decode<RoundOrder>(message.body)); return;
        case MessageKind::kRevoke:
            context_.batches().revoke(decode<RevokeOrder>(message.body));
            return;
        case MessageKind::kJoin:
            orders_.clear();  // all from before it was lost
            recover_.reset();
            join_ = decode<JoinOrder>(message.body);
            return;
        case MessageKind::kPush: take_push(decode<PushHeader>(message.body).push); return;
        case MessageKind::kDiscard:
            for (const PushId& push : decode<DiscardOrder>(message.body).pushes) {
                if (staged_.erase(push) == 0) {
                    inbox_.discard(push);
                }
            }
            return;
        default: ring_order(message);
    }
}

void RingExecutor::ring_order(const Message& message) {
    switch (static_cast<RingMessageKind>(message.kind)) {
        case RingMessageKind::kRole: queue(decode<RoleOrder>(message.body)); return;
        case RingMessageKind::kSendState: queue(decode<SendStateOrder>(message.body)); return;
        case RingMessageKind::kState: inbox_.state_arrived(message); return;
        case RingMessageKind::kHalt: {
            const auto halt = decode<HaltOrder>(message.body);
            rounds_.skip_after_this(halt.epoch == epoch_ ? halt.round : 0);
            return;
        }
        case RingMessageKind::kRecover: {
            recover_ = decode<RecoverOrder>(message.body);
            epoch_ = std::max(epoch_, recover_->epoch);
            std::erase_if(orders_, [this](Order& one) {
                return std::visit([this](auto& order) { return is_void(order); }, one);
            });
            return;
        }
        default: refuse_order(message);
    }
}

/// Whether it goes when a member was lost. A snapshot that no round goes with stays: what it is
/// taken of is complete here. Evaluations are asked for again.
bool RingExecutor::is_void(RoundOrder& order) const {
    order.evaluation = order.epoch < epoch_ ? 0 : order.evaluation;
    return order.epoch < epoch_ && (!order.members.empty() || order.snapshot.empty());
}

void RingExecutor::queue(Order order) {
    const std::uint64_t epoch = std::visit([](const auto& one) { return one.epoch; }, order);
    epoch_ = std::max(epoch_, epoch);
    if (epoch == epoch_) {
        orders_.push_back(std::move(order));
    }
}

void RingExecutor::take_push(PushId push) {
    if (auto values = inbox_.push_arrived(push)) {
        staged_[push] = std::move(values);
        context_.coordinator().tell(MessageKind::kStaged,
                                    Staged{.push = push, .server = context_.worker()});
    }
}

void RingExecutor::begin(const BeginOrder& order) {
    if (order.checkpoint.empty()) {
        replica_.initialise(context_.job().options.seed);
    } else {
        const auto wait = context_.coordinator().working("restoring from a checkpoint", 0);
        restore_replica(
            replica_, *optimizer_,
            read_checkpoint_range(order.checkpoint, 0, parameters(), true, context_.job().hdf5),
            order.checkpoint);
    }
    version_ = order.version;
    begun_ = true;
}

/// What has come is carried out in its order, before anything that a rider does on its own; grants
/// that came before kStop too: the others may be in those rounds already.
void RingExecutor::run() {
    for (;;) {
        await_something();
        if (join_) {
            join(*std::exchange(join_, std::nullopt));
        } else if (recover_) {
            recover(*std::exchange(recover_, std::nullopt));
        } else if (!broken_ && !orders_.empty()) {
            const Order order = std::move(orders_.front());
            orders_.pop_front();
            std::visit([this](const auto& one) { carry_out(one); }, order);
        } else if (context_.coordinator().stopped()) {
            break;
        } else if (!leave_) {
            take_parameters();
        } else {
            ride();
        }
    }
    end();
}

/// Nobody writes into this worker's memory any more when this returns.
void RingExecutor::end() {
    const auto* membership = context_.links().membership;
    complete_transfers(
        context_.links(), Port::kWorker, "last gradients and parameters",
        [this, membership] {
            std::vector<int> ranks;
            for (const int worker : inbox_.coming()) {
                const int rank = context_.links().map.rank_of_worker(worker);
                if (membership == nullptr || !membership->excluded(rank)) {
                    ranks.push_back(rank);
                }
            }
            return ranks;
        },
        [this](const Message& message) { inbox_.forget(message); });
}

bool RingExecutor::something_to_do() const {
    if (join_ || recover_) {
        return true;
    }
    if (broken_) {
        return false;
    }
    const bool own = role_ == RingRole::kRider &&
                     (leave_ ? context_.batches().waiting() > 0 : inbox_.has(mine_to_start()));
    return own || !orders_.empty();
}

void RingExecutor::await_something() {
    const auto ready = [this] { return something_to_do(); };
    if (role_ == RingRole::kRider && !leave_ && !broken_) {
        const int rank = context_.links().map.rank_of_worker(parent_);
        context_.coordinator().await(
            "parameters", rides_.begun(), ready, [rank] { return std::vector<int>{rank}; },
            WaitLimit::kWarn);
    } else {
        const char* name = broken_                      ? "recovery of the ring"
                           : role_ == RingRole::kMember ? "round grant"
                                                        : "lease";
        context_.coordinator().await(name, done_ + 1, ready, CoordinatorLink::from_coordinator(),
                                     WaitLimit::kNone);
    }
}

/// The round that cannot end is over: what this member has, for the coordinator to compare.
void RingExecutor::recover(const RecoverOrder& order) {
    broken_ = false;
    context_.coordinator().tell(RingMessageKind::kRecovered, Recovered{.epoch = order.epoch,
                                                                       .worker = context_.worker(),
                                                                       .round = last_round_,
                                                                       .version = version_,
                                                                       .report = last_report_});
}

/// Begins anew, as a rider that waits for its role and parameters.
void RingExecutor::join(const JoinOrder& order) {
    context_.batches().revoke(
        {.leases = {}, .up_to = order.leases_up_to, .version = order.version});
    context_.begin_incarnation(order.incarnation);
    rides_.restart();
    rounds_.keep_only({});
    staged_.clear();
    last_report_ = {};
    last_round_ = 0;
    kept_.clear();
    role_ = RingRole::kHold;
    leave_ = false;
    broken_ = false;
}

void RingExecutor::carry_out(const RoleOrder& order) {
    if (order.await_state && !await_state(order)) {
        return;  // another loss, or the end
    }
    if (role_ == RingRole::kMember && order.role != RingRole::kMember) {
        leave_ = true;  // its parameters are the newest
        held_epoch_ = order.epoch;
    }
    role_ = order.role;
    parent_ = order.parent;
    inbox_.drop(
        [&](const StateHeader& header) { return header.full && header.number <= order.number; });
    if (role_ != RingRole::kMember) {
        kept_.clear();
        last_round_ = 0;  // what it holds is not all that a member holds
    }
    if (order.afresh) {
        leave_ = leave_ && held_epoch_ >= order.epoch;  // else they are on their way
        parameters_epoch_ = order.epoch;
    }
    context_.coordinator().tell(
        RingMessageKind::kRoleTaken,
        RoleTaken{.worker = context_.worker(), .number = order.number, .sequence = rides_.begun()});
}

/// All that a member holds, from another one. False when something else comes first.
bool RingExecutor::await_state(const RoleOrder& order) {
    const auto fits = [&order](const StateHeader& header) {
        return header.full && header.epoch == order.epoch && header.number == order.number;
    };
    const int giver = context_.links().map.rank_of_worker(order.giver);
    context_.coordinator().await(
        "state of the ring", order.number, [&] { return inbox_.has(fits) || recover_ || join_; },
        [giver] { return std::vector<int>{giver}; }, WaitLimit::kWarn);
    const std::optional<ReceivedState> state = recover_ || join_ ? std::nullopt : inbox_.take(fits);
    if (!state) {
        return false;
    }
    unpack_state(replica_, *optimizer_, state->all(), state->header.scalars, true);
    version_ = state->header.version;
    last_round_ = state->header.round;
    last_report_ = {};
    return true;
}

void RingExecutor::carry_out(const SendStateOrder& order) {
    send_state({.epoch = order.epoch,
                .number = order.number,
                .after = order.after,
                .incarnation = order.incarnation,
                .full = order.full,
                .scalars = {}},
               order.worker, 0, 0);
}

void RingExecutor::send_state(StateHeader header, int worker, double lr, double lag) {
    PackedState packed = pack_state(replica_, *optimizer_, header.full);
    if (!header.full) {
        look_ahead_packed(replica_, *optimizer_, packed, lr, lag);
    }
    header.version = version_;
    header.round = last_round_;
    header.giver = context_.worker();
    header.scalars = std::move(packed.scalars);
    const Address to{context_.links().map.rank_of_worker(worker), Port::kWorker};
    const std::span<const float> all = packed.all();
    context_.links()
        .messenger
        .start_transfer(to, Port::kWorker, static_cast<std::uint16_t>(RingMessageKind::kState),
                        encode(header), std::as_bytes(all), ChunkOrder::kForward, packed.values)
        ->release(all.size_bytes());
}

/// Parameters that are leave to start a mini-batch: the answer to the last push, or what a new
/// parent sends in its place.
std::function<bool(const StateHeader&)> RingExecutor::mine_to_start() const {
    return [this](const StateHeader& header) {
        return !header.full && header.epoch >= parameters_epoch_ &&
               header.incarnation == context_.incarnation() && header.after == rides_.begun();
    };
}

void RingExecutor::take_parameters() {
    inbox_.drop([this](const StateHeader& header) {
        return !header.full &&
               (header.incarnation != context_.incarnation() || header.after < rides_.begun());
    });
    if (const auto state = inbox_.take(mine_to_start())) {
        unpack_state(replica_, *optimizer_, state->all(), {}, false);
        version_ = state->header.version;
        held_epoch_ = state->header.epoch;
        leave_ = true;
        rides_.pulled((SteadyClock().now() - state->announced).count());
    }
}

void RingExecutor::ride() {
    if (rides_.run(context_.links().map.rank_of_worker(parent_), version_)) {
        leave_ = false;
    }
}

std::unique_ptr<WorkerExecutor> make_ring_executor(WorkerContext& context,
                                                   RoundExchangeFactory rounds) {
    return std::make_unique<RingExecutor>(context, std::move(rounds));
}

}  // namespace cohort
