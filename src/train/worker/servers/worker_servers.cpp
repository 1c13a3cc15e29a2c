#include "train/worker/servers/worker_servers.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/protocol/settle.hpp"
#include "train/run/train_parts.hpp"
#include "train/worker/local_steps.hpp"
#include "train/worker/servers/worker_halves.hpp"
#include "train/worker/servers/worker_leave.hpp"
#include "train/worker/servers/worker_places.hpp"
#include "train/worker/servers/worker_times.hpp"
#include "train/worker/worker_groups.hpp"

namespace cohort {
namespace {

/// No message says that a transfer is done.
constexpr Clock::Seconds kPollTransfers{2e-3};

/// The worker's part in a run with servers:
///  1. complete parameters come: into the replica; evaluate with them when their header says so
///  2. they are leave to start one mini-batch, that of the oldest lease, on the newest set there is
///  3. the gradient leaves while backward runs, or the delta after some local steps; the ticket
///     follows; then 1 again
/// At any time leases come back (StartLeave says what that means): what is computed on them is
/// given up between two layers. What has begun to leave leaves to its end, and is discarded.
class ServersExecutor final : public WorkerExecutor {
public:
    ServersExecutor(WorkerContext& context, AllReduceFactory rounds)
        : context_(context),
          links_(context.links()),
          layout_(cut_shards(context.replica().graph(), links_.map.servers)),
          inbox_(layout_, context.replica().device()),
          places_(context, layout_),
          groups_(std::move(rounds), layout_.floats(), context.on_this_device({})),
          times_(context.clock()) {
        links_.messenger.set_sink(Port::kWorker, &inbox_);
    }
    ~ServersExecutor() override { links_.messenger.set_sink(Port::kWorker, nullptr); }

    void order(const Message& message) override;
    void run() override;
    [[nodiscard]] std::int64_t version() const noexcept override { return leave_.version(); }

private:
    struct Loaded {
        LoadedBatch batch;
        LeaseOrder order;
    };

    void join(const JoinOrder& order);
    void begin_incarnation();
    void await_something();
    void use(const ReceivedParameters& parameters);
    void step();
    [[nodiscard]] bool load();
    [[nodiscard]] bool may_start();
    void gradient(const Loaded& loaded, PushId id, const PushPlace& place);
    void gradient_of_halves(const Loaded& loaded, PushId id, const PushPlace& place);
    void gradient_in_slot(const Loaded& loaded, PushId id, const PushPlace& place);
    void delta(const Loaded& loaded, PushId id, const PushPlace& place);
    [[nodiscard]] bool give_up(const Loaded& loaded, PushId id);
    [[nodiscard]] Ticket ticket_of(const Loaded& loaded, PushId id, const BatchResult& result,
                                   bool finite, double squares, std::int32_t slot = -1);
    void tell(const Ticket& ticket) { context_.tell_coordinator(MessageKind::kTicket, ticket); }
    [[nodiscard]] std::optional<PushPlace> free_place();

    WorkerContext& context_;
    const Links& links_;
    ShardedLayout layout_;
    ParameterInbox inbox_;
    PushPlaces places_;
    StartLeave leave_;
    std::optional<Loaded> loaded_;  ///< the next mini-batch
    bool joined_ = false;           ///< a kJoin has not been carried out to its end
    std::uint64_t pushes_ = 0;
    GroupExchanges groups_;
    std::unique_ptr<LocalSteps> local_;  ///< once there was work for it
    std::vector<float> delta_;           ///< or a gradient, before it leaves
    IterationTimes times_;
};

void ServersExecutor::order(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kBegin: break;  // parameters come from the servers
        case MessageKind::kParameters:
            inbox_.arrived(decode<ParametersHeader>(message.body));
            break;
        case MessageKind::kRevoke: {
            const auto revoked = decode<RevokeOrder>(message.body);
            context_.revoke(revoked);
            leave_.revoke(revoked);
            break;
        }
        case MessageKind::kJoin: join(decode<JoinOrder>(message.body)); break;
        default: refuse_order(message);
    }
}

/// Orders may come in the middle of a mini-batch: what that still uses stays until its end.
void ServersExecutor::join(const JoinOrder& order) {
    context_.begin_incarnation(order.incarnation);
    context_.revoke({.leases = {}, .up_to = order.leases_up_to});
    context_.drop_leases();
    leave_.join();
    inbox_.begin_incarnation(order.incarnation);
    joined_ = true;
}

/// What was on its way to the servers may never end, and keeps its memory.
void ServersExecutor::begin_incarnation() {
    joined_ = false;
    pushes_ = 0;
    loaded_.reset();
    places_.renew();
    if (local_) {
        local_->forget();
    }
}

void ServersExecutor::run() {
    times_.skip();
    for (await_something(); !context_.stopped(); await_something()) {
        if (joined_) {
            begin_incarnation();
        } else if (auto parameters = inbox_.take()) {
            use(*parameters);
            inbox_.give_back(std::move(*parameters));
        } else if (leave_.held()) {
            step();
        }
    }
    places_.end();  // servers may need its sums before they stop
    settle(
        links_, Port::kWorker, "last parameters", [this] { return inbox_.coming(); },
        [this](const Message& message) {
            if (static_cast<MessageKind>(message.kind) == MessageKind::kParameters) {
                inbox_.forget(decode<ParametersHeader>(message.body));
            }
        });
}

/// Sleeps until there are parameters to take or a mini-batch to do.
void ServersExecutor::await_something() {
    const auto news = [this] {
        places_.check();
        return joined_ || inbox_.has_complete();
    };
    if (leave_.held()) {
        context_.await(
            "lease", pushes_ + 1,
            [&] { return news() || loaded_ || context_.leases() > 0 || !leave_.held(); },
            WorkerContext::from_coordinator(), WaitLimit::kNone);
    } else {
        // Nobody owes the first ones by a time: servers may restore theirs from a checkpoint.
        context_.await(
            "parameters", pushes_, [&] { return news() || leave_.held(); },
            [this] { return inbox_.missing(); },
            pushes_ == 0 ? WaitLimit::kWarn : WaitLimit::kFatal);
    }
}

void ServersExecutor::use(const ReceivedParameters& parameters) {
    if (parameters.version < leave_.version()) {
        fail<PeerError>({.where = "parameters",
                         .what = "they are older than those before",
                         .expected = fmt::format("version {} or newer", leave_.version()),
                         .got = std::to_string(parameters.version)});
    }
    Replica& replica = context_.replica();
    float* values = parameters.values.floats();
    for (const ShardRange& shard : layout_.shards()) {
        const auto count = static_cast<std::size_t>(shard.parameters());
        context_.copy(replica.parameters().subspan(static_cast<std::size_t>(shard.begin), count),
                      layout_.part(values, shard).first(count));
    }
    const ShardRange& first = layout_.shards().front();
    context_.copy(
        replica.state(),
        layout_.part(values, first).subspan(static_cast<std::size_t>(first.parameters())));
    if (!leave_.held()) {
        times_.parameters((SteadyClock().now() - parameters.announced).count());
    }
    leave_.parameters(parameters.version);
    if (parameters.evaluation.id != 0) {
        context_.evaluate(parameters.evaluation);
        times_.skip();
    }
}

/// The next mini-batch, unless orders or parameters come first.
void ServersExecutor::step() {
    times_.leased();
    const bool has_batch = load();
    times_.loaded();
    if (!has_batch) {
        return;
    }
    const std::optional<PushPlace> place = free_place();
    times_.placed();
    if (!place || !may_start()) {
        return;
    }
    times_.begin();
    const Loaded loaded = *std::exchange(loaded_, std::nullopt);
    if (!loaded.order.validation) {
        leave_.begin(loaded.order.lease);
    }
    const PushId id{
        .worker = context_.worker(), .incarnation = context_.incarnation(), .sequence = ++pushes_};
    places_.use(*place, id);
    if (loaded.order.work.work == Work::kDelta) {
        delta(loaded, id, *place);
    } else if (loaded.order.halves) {
        gradient_of_halves(loaded, id, *place);
    } else if (place->slot >= 0) {
        gradient_in_slot(loaded, id, *place);
    } else {
        gradient(loaded, id, *place);
    }
}

/// The payload stays here; the node's head sums it with others when its update is decided.
void ServersExecutor::gradient_in_slot(const Loaded& loaded, PushId id, const PushPlace& place) {
    SlotObserver observer(context_.step_parts(), layout_, place.floats,
                          [&] { return give_up(loaded, id); });
    const auto result = context_.train_step(view_of(loaded.batch), observer);
    if (!result) {
        times_.skip();
        places_.give_back(place);
        return;
    }
    observer.finish();
    times_.computed(0, context_.device_seconds());
    const double squares = observer.sum_of_squares();
    tell(ticket_of(loaded, id, *result, std::isfinite(squares), squares, place.slot));
}

bool ServersExecutor::load() {
    if (!loaded_) {
        auto batch =
            context_.next_batch([this] { return context_.stopped() || joined_ || !leave_.held(); });
        if (batch) {
            loaded_.emplace(std::move(*batch), context_.lease_order());
        }
    }
    return loaded_.has_value();
}

/// Nothing has come meanwhile that goes before the mini-batch in hand.
bool ServersExecutor::may_start() {
    if (context_.revoked(loaded_->order.lease)) {
        loaded_.reset();
        times_.dropped();
        return false;
    }
    return leave_.held() && !joined_ && !inbox_.has_complete();
}

/// Others of a group wait for this worker at every step: nothing but its own loss ends that early.
bool ServersExecutor::give_up(const Loaded& loaded, PushId id) {
    context_.take_orders();
    if (context_.incarnation() != id.incarnation) {
        return true;
    }
    return loaded.order.work.group.empty() &&
           (context_.stopped() || context_.revoked(loaded.order.lease));
}

void ServersExecutor::gradient(const Loaded& loaded, PushId id, const PushPlace& place) {
    PushObserver observer(context_.step_parts(), links_, layout_, place.buffer, {id},
                          [&] { return give_up(loaded, id); });
    const auto result = context_.train_step(view_of(loaded.batch), observer);
    if (result) {
        observer.finish();
        places_.leaves(place, observer.transfers());
        times_.computed(observer.leaving_s(), context_.device_seconds());
        const double squares = observer.sum_of_squares();
        tell(ticket_of(loaded, id, *result, std::isfinite(squares), squares));
        return;
    }
    times_.skip();
    const auto transfers = observer.transfers();
    for (std::size_t server = 0; server < transfers.size(); ++server) {
        const auto floats = static_cast<std::uint64_t>(layout_.shards()[server].floats());
        transfers[server]->release(floats * sizeof(float));  // to the end, whatever is in it
    }
    places_.leaves(place, transfers);
    if (!transfers.empty()) {
        tell({.push = id,
              .lease = loaded.order.lease,
              .version = leave_.version(),
              .samples = loaded.batch.size(),
              .given_up = true});
    }
}

void ServersExecutor::delta(const Loaded& loaded, PushId id, const PushPlace& place) {
    delta_.resize(static_cast<std::size_t>(layout_.floats()));
    if (!local_) {
        local_ = std::make_unique<LocalSteps>(context_, layout_.floats());
    }
    const WorkOrder& work = loaded.order.work;
    GroupExchanges::Turn turn;
    if (!work.group.empty()) {
        turn = groups_.turn(work);
        if (turn.exchange == nullptr) {
            places_.give_back(place);
            return;  // a member is lost: the lease will be taken back
        }
    }
    const auto result = local_->run(loaded.batch, work, turn.exchange, turn.round, delta_,
                                    [&] { return give_up(loaded, id); });
    if (!result) {
        times_.skip();
        groups_.broke(work);
        places_.give_back(place);
        return;
    }
    times_.computed_for(result->compute_s);
    places_.put(place, id, delta_);
    tell(ticket_of(loaded, id, result->result, result->finite, result->squares, place.slot));
}

/// Nothing leaves before the end of the second half.
void ServersExecutor::gradient_of_halves(const Loaded& loaded, PushId id, const PushPlace& place) {
    delta_.resize(static_cast<std::size_t>(layout_.floats()));
    const auto step =
        train_in_halves(context_, loaded.batch, delta_, [&] { return give_up(loaded, id); });
    if (!step) {
        times_.skip();
        places_.give_back(place);
        return;
    }
    places_.put(place, id, delta_);
    times_.computed(0, step->device_s);
    Ticket ticket = ticket_of(loaded, id, step->result, std::isfinite(step->mean_squares),
                              step->mean_squares, place.slot);
    ticket.halves = true;
    ticket.first_squares = step->squares[0];
    ticket.second_squares = step->squares[1];
    tell(ticket);
}

Ticket ServersExecutor::ticket_of(const Loaded& loaded, PushId id, const BatchResult& result,
                                  bool finite, double squares, std::int32_t slot) {
    WorkerTimes times = times_.times();
    times.use = context_.meter().use();
    times.telemetry_s = context_.meter().take_cost_s();
    return {.push = id,
            .lease = loaded.order.lease,
            .version = leave_.version(),
            .samples = loaded.batch.size(),
            .loss_sum = result.loss_sum,
            .correct = result.correct,
            .finite = finite && std::isfinite(result.loss_sum),
            .gradient_norm = std::sqrt(squares),
            .times = times,
            .work = loaded.order.work.work,
            .validation = loaded.order.validation,
            .slot = slot};
}

/// Nothing when kStop or a kJoin came before there was one.
std::optional<PushPlace> ServersExecutor::free_place() {
    const auto find = [this] { return places_.find_free(loaded_->order, leave_.version()); };
    std::optional<PushPlace> place = find();
    const auto leaving = places_.oldest();
    if (!place) {
        context_.await(
            "gradients leaving", pushes_,
            [&] {
                place = joined_ ? std::nullopt : find();
                return joined_ || place;
            },
            [leaving] { return PushBuffers::missing(leaving); }, WaitLimit::kFatal, kPollTransfers);
    }
    return place;
}

}  // namespace

std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context,
                                                      AllReduceFactory rounds) {
    return std::make_unique<ServersExecutor>(context, std::move(rounds));
}

}  // namespace cohort
