#include "train/worker/worker_context.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/profiler_range.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/worker/servers/push_step.hpp"
#include "train/worker/servers/start_permit.hpp"

namespace cohort {
namespace {

/// No message says that a transfer is done.
constexpr Clock::Seconds kPollTransfers{2e-3};

/// The worker's part in a run with servers:
///  1. Complete parameters are received: they go into the replica, which is evaluated if their
///     header says so.
///  2. They permit one mini-batch, that of the oldest lease, on the newest complete set.
///  3. PushStep computes and pushes it; then 1 again.
/// Leases may be taken back at any time; StartPermit says what that means.
class ServersExecutor final : public WorkerExecutor {
public:
    ServersExecutor(WorkerContext& context, AllReduceFactory rounds)
        : context_(context),
          comm_(context.comm()),
          layout_(cut_shards(context.replica().graph(),
                             initial_shares(context.job().options.shards, comm_.map))),
          inbox_(layout_, context.replica().device(), context.job().options.wire),
          places_(context, layout_),
          times_(context.clock()),
          push_step_(context, layout_, places_, times_, std::move(rounds)) {
        comm_.messenger.set_sink(Port::kWorker, &inbox_);
    }
    ~ServersExecutor() override { comm_.messenger.set_sink(Port::kWorker, nullptr); }

    void order(const Message& message) override {
        switch (static_cast<MessageKind>(message.kind)) {
            case MessageKind::kBegin: break;  // parameters come from the servers
            case MessageKind::kParameters:
                inbox_.arrived(decode<ParametersHeader>(message.body));
                break;
            case MessageKind::kRevoke: {
                const auto revoked = decode<RevokeOrder>(message.body);
                context_.batches().revoke(revoked);
                permit_.revoke(revoked);
                break;
            }
            case MessageKind::kJoin: join(decode<JoinOrder>(message.body)); break;
            case MessageKind::kReshard: next_layout_ = decode<ShardLayout>(message.body); break;
            default: refuse_order(message);
        }
    }

    void run() override {
        times_.skip();
        for (await_something(); !context_.coordinator().stopped(); await_something()) {
            if (joined_) {
                begin_incarnation();
            } else if (auto parameters = inbox_.take()) {
                use(*parameters);
                inbox_.give_back(std::move(*parameters));
            } else if (permit_.held()) {
                step();
            }
        }
        places_.end();  // servers may need its sums before they stop
        complete_transfers(
            comm_, Port::kWorker, "last parameters", [this] { return inbox_.coming(); },
            [this](const Message& message) {
                if (static_cast<MessageKind>(message.kind) == MessageKind::kParameters) {
                    inbox_.forget(decode<ParametersHeader>(message.body));
                }
            });
    }

    [[nodiscard]] std::int64_t version() const noexcept override { return permit_.version(); }

private:
    struct Loaded {
        LoadedBatch batch;
        LeaseOrder order;
    };

    /// Orders may come in the middle of a mini-batch: what that still uses stays until its end.
    void join(const JoinOrder& order) {
        context_.begin_incarnation(order.incarnation);
        context_.batches().revoke({.leases = {}, .up_to = order.leases_up_to});
        context_.batches().drop();
        permit_.join();
        inbox_.begin_incarnation(order.incarnation);
        if (!order.layout.ends.empty()) {
            next_layout_ = order.layout;
        }
        joined_ = true;
    }

    /// Pushes in flight to the servers may never end, and keep their memory.
    void begin_incarnation() {
        joined_ = false;
        pushes_ = 0;
        loaded_.reset();
        places_.renew();
        push_step_.begin_incarnation();
    }

    /// Sleeps until there are parameters to take or a mini-batch to do.
    void await_something() {
        const auto news = [this] {
            places_.check();
            return joined_ || inbox_.has_complete();
        };
        if (permit_.held()) {
            context_.coordinator().await(
                "lease", pushes_ + 1,
                [&] {
                    return news() || loaded_ || context_.batches().waiting() > 0 || !permit_.held();
                },
                CoordinatorLink::from_coordinator(), WaitLimit::kNone);
        } else {
            // The first ones are not due by a time: servers may restore theirs from a checkpoint.
            context_.coordinator().await(
                "parameters", pushes_, [&] { return news() || permit_.held(); },
                [this] { return inbox_.missing(); },
                pushes_ == 0 ? WaitLimit::kWarn : WaitLimit::kFatal);
        }
    }

    void use(const ReceivedParameters& parameters) {
        if (parameters.version < permit_.version()) {
            fail<PeerError>({.where = "parameters",
                             .what = "they are older than those before",
                             .expected = fmt::format("version {} or newer", permit_.version()),
                             .got = std::to_string(parameters.version)});
        }
        const ProfilerRange range("pull");
        TrainableModel& replica = context_.replica();
        float* values = parameters.values.floats();
        const auto count = static_cast<std::size_t>(layout_.parameters());
        context_.compute().copy(replica.parameters(), {values, count});
        context_.compute().copy(replica.state(),
                                {values + count, static_cast<std::size_t>(layout_.state())});
        if (!permit_.held()) {
            times_.parameters((SteadyClock().now() - parameters.announced).count());
        }
        permit_.parameters(parameters.version);
        places_.decided(parameters.outcomes);
        if (parameters.evaluation.id != 0) {
            context_.evaluate(parameters.evaluation);
            times_.skip();
        }
    }

    /// The next mini-batch, unless orders or parameters come first.
    void step() {
        times_.leased();
        const bool has_batch = load();
        times_.loaded();
        if (!has_batch) {
            return;
        }
        std::optional<PushBuffer> place = free_place();
        times_.placed();
        if (!place || !may_start()) {
            return;
        }
        times_.begin();
        const Loaded loaded = *std::exchange(loaded_, std::nullopt);
        if (!loaded.order.validation) {
            permit_.begin(loaded.order.lease);
        }
        const PushId id{.worker = context_.worker(),
                        .incarnation = context_.incarnation(),
                        .sequence = ++pushes_};
        if (next_layout_) {  // its leases follow it
            layout_.adopt(*std::exchange(next_layout_, std::nullopt));
        }
        places_.use(*place, id, loaded.order);
        push_step_.run({loaded.batch, loaded.order, id, *place, permit_.version()});
    }

    [[nodiscard]] bool load() {
        if (!loaded_) {
            auto batch = context_.batches().next(
                [this] { return context_.coordinator().stopped() || joined_ || !permit_.held(); });
            if (batch) {
                loaded_.emplace(std::move(*batch), context_.batches().order());
            }
        }
        return loaded_.has_value();
    }

    /// Nothing has come meanwhile that goes before the mini-batch in hand.
    [[nodiscard]] bool may_start() {
        if (context_.batches().revoked(loaded_->order.lease)) {
            loaded_.reset();
            times_.dropped();
            return false;
        }
        return permit_.held() && !joined_ && !inbox_.has_complete();
    }

    /// Nothing when kStop or a kJoin came before there was one.
    [[nodiscard]] std::optional<PushBuffer> free_place() {
        const auto find = [this] { return places_.find_free(loaded_->order, permit_.version()); };
        std::optional<PushBuffer> place = find();
        const auto leaving = places_.oldest();
        if (!place) {
            context_.coordinator().await(
                "gradients leaving", pushes_,
                [&] {
                    place = joined_ ? std::nullopt : find();
                    return joined_ || place;
                },
                [leaving] { return SendBuffers::missing(leaving); }, WaitLimit::kFatal,
                kPollTransfers);
        }
        return place;
    }

    WorkerContext& context_;
    const CommContext& comm_;
    ShardedLayout layout_;
    ParameterInbox inbox_;
    PushBuffers places_;
    StartPermit permit_;
    std::optional<Loaded> loaded_;            ///< the next mini-batch
    std::optional<ShardLayout> next_layout_;  ///< of the next one, if it is another
    bool joined_ = false;                     ///< a kJoin has not been carried out to its end
    std::uint64_t pushes_ = 0;
    IterationTimes times_;
    PushStep push_step_;
};

}  // namespace

std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context,
                                                      AllReduceFactory rounds) {
    return std::make_unique<ServersExecutor>(context, std::move(rounds));
}

}  // namespace cohort
