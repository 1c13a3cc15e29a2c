#include "worker_servers.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "cohort/core/error.hpp"
#include "settle.hpp"
#include "train_parts.hpp"
#include "worker_push.hpp"

namespace cohort {
namespace {

/// No message says that a transfer is done.
constexpr Clock::Seconds kPollTransfers{2e-3};

/// The worker's part in a run with servers:
///  1. complete parameters come: into the replica; evaluate with them when their header says so
///  2. they are leave to start one mini-batch, that of the oldest lease, on the newest set there is
///  3. the gradient leaves while backward runs, the ticket follows; then 1 again
class ServersExecutor final : public WorkerExecutor {
public:
    explicit ServersExecutor(WorkerContext& context)
        : context_(context),
          links_(context.links()),
          layout_(cut_shards(context.replica().graph(), links_.map.servers)),
          inbox_(layout_, context.replica().device()),
          buffers_(layout_, context.replica().device()) {
        links_.messenger.set_sink(Port::kWorker, &inbox_);
    }
    ~ServersExecutor() override { links_.messenger.set_sink(Port::kWorker, nullptr); }

    void order(const Message& message) override;
    void run() override;
    [[nodiscard]] std::int64_t version() const noexcept override { return version_; }

private:
    void await_something();
    void use(const ReceivedParameters& parameters);
    void step();
    [[nodiscard]] std::shared_ptr<Buffer> free_buffer();
    double lap();

    WorkerContext& context_;
    const Links& links_;
    ShardedLayout layout_;
    ParameterInbox inbox_;
    PushBuffers buffers_;
    std::int64_t version_ = -1;  ///< of the replica's parameters; -1: none yet
    bool leave_ = false;         ///< to start a mini-batch
    std::uint64_t pushes_ = 0;
    WorkerTimes times_;
    Clock::Seconds lap_{0};
};

void ServersExecutor::order(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kBegin: break;  // parameters come from the servers
        case MessageKind::kParameters:
            inbox_.arrived(decode<ParametersHeader>(message.body));
            break;
        default: refuse_order(message);
    }
}

void ServersExecutor::run() {
    lap();
    for (await_something(); !context_.stopped(); await_something()) {
        if (auto parameters = inbox_.take()) {
            use(*parameters);
            inbox_.give_back(std::move(*parameters));
        } else {
            step();
        }
    }
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
    if (leave_) {
        context_.await(
            "lease", pushes_ + 1, [this] { return inbox_.has_complete() || context_.leases() > 0; },
            WorkerContext::from_coordinator(), WaitLimit::kNone);
    } else {
        // Nobody owes the first ones by a time: servers may restore theirs from a checkpoint.
        context_.await(
            "parameters", pushes_, [this] { return inbox_.has_complete(); },
            [this] { return inbox_.missing(); },
            pushes_ == 0 ? WaitLimit::kWarn : WaitLimit::kFatal);
    }
}

/// Seconds since the last call.
double ServersExecutor::lap() {
    const Clock::Seconds before = std::exchange(lap_, context_.clock().now());
    return (lap_ - before).count();
}

void ServersExecutor::use(const ReceivedParameters& parameters) {
    if (parameters.version < version_) {
        fail<PeerError>({.where = "parameters",
                         .what = "they are older than those before",
                         .expected = fmt::format("version {} or newer", version_),
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
    version_ = parameters.version;
    if (!leave_) {
        times_.exchange_s = lap();
    }
    leave_ = true;
    if (parameters.evaluation.id != 0) {
        context_.evaluate(parameters.evaluation);
        lap();  // neither exchange nor input
    }
}

void ServersExecutor::step() {
    const auto batch = context_.next_batch(true);
    if (!batch) {
        return;  // kStop
    }
    const std::shared_ptr<Buffer> buffer = free_buffer();
    if (!buffer) {
        return;  // kStop
    }
    times_.input_s = lap();
    leave_ = false;
    const PushId id{.worker = context_.worker(), .incarnation = 0, .sequence = ++pushes_};
    PushObserver observer(context_.replica(), context_.injector(), links_, layout_, buffer, {id});
    const auto result =
        context_.replica().train_step(view_of(*batch), context_.job().options.seed, observer);
    observer.finish();
    buffers_.in_use(buffer, observer.transfers());
    times_.compute_s = lap();
    const double squares = observer.sum_of_squares();
    context_.tell_coordinator(
        MessageKind::kTicket,
        Ticket{.push = id,
               .lease = batch->lease().id,
               .version = version_,
               .samples = batch->size(),
               .loss_sum = result->loss_sum,
               .correct = result->correct,
               .finite = std::isfinite(result->loss_sum) && std::isfinite(squares),
               .gradient_norm = std::sqrt(squares),
               .times = times_});
}

/// A buffer for the next push; null when kStop came before one was free.
std::shared_ptr<Buffer> ServersExecutor::free_buffer() {
    std::shared_ptr<Buffer> buffer = buffers_.free();
    const auto leaving = buffers_.oldest();
    if (!buffer) {
        context_.await(
            "gradients leaving", pushes_,
            [&] {
                buffer = buffers_.free();
                return buffer != nullptr;
            },
            [leaving] { return PushBuffers::missing(leaving); }, WaitLimit::kFatal, kPollTransfers);
    }
    return buffer;
}

}  // namespace

std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context) {
    return std::make_unique<ServersExecutor>(context);
}

}  // namespace cohort
