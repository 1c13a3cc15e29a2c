#include "train/server/server_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/system/launch_env.hpp"
#include "core/system/process_usage.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/protocol_node.hpp"
#include "train/server/order_line.hpp"
#include "train/server/server_checkpoints.hpp"
#include "train/server/server_shard.hpp"

namespace cohort {
namespace {

/// More threads than this find no more memory bandwidth.
constexpr int kMostThreads = 8;

int thread_count(int asked) {
    return std::min(asked > 0 ? asked : read_launch_env().cores, kMostThreads);
}

ServerParts parts_of(JobParts& job) {
    return {.graph = job.graph,
            .optimizer = job.optimizer,
            .seed = job.options.seed,
            .threads = job.options.threads,
            .device = job.options.server_device,
            .hdf5 = &job.hdf5};
}

}  // namespace

struct ServerLoop::Impl {
    Impl(Links to, const ServerParts& with, int index)
        : links(to),
          parts(with),
          server(index),
          shard(parts.graph,
                cut_shards(parts.graph, links.map.servers).at(static_cast<std::size_t>(server)),
                parts.optimizer, thread_count(parts.threads),
                make_shard_device(parts.device, links.map, server)),
          line(links, shard.staging()),
          writer(parts.hdf5 == nullptr
                     ? nullptr
                     : std::make_unique<ShardWriter>(
                           *parts.hdf5, links.operations, [this](const SavedPart& saved) {
                               tell_coordinator(MessageKind::kSaved, saved);
                           })) {
        links.messenger.set_sink(Port::kServer, &shard.staging());
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() { links.messenger.set_sink(Port::kServer, nullptr); }

    template <class Body>
    void tell_coordinator(MessageKind kind, const Body& body) {
        links.messenger.send({0, Port::kCoordinator}, Port::kServer,
                             static_cast<std::uint16_t>(kind), encode(body));
    }

    void handle(const Message& message);
    void begin(const BeginOrder& order);
    void pushed(PushId push);
    [[nodiscard]] Message next();
    void advance();
    void carry_out(const OrderLine::Update& update);
    void carry_out(const ReferenceOrder& order) { shard.set_reference(order.push); }
    void carry_out(const Empty& /*stop*/) { stopped = true; }
    void fire(const FireOrder& order);
    void save(const std::string& checkpoint);
    [[nodiscard]] std::vector<std::shared_ptr<OutgoingTransfer>> start_sending(
        const FireOrder& order, const FireOutput& output);
    [[nodiscard]] std::shared_ptr<OutgoingTransfer> start(Address to, MessageKind kind,
                                                          std::vector<std::byte> header,
                                                          std::shared_ptr<const float> values);
    void receive_last_pushes();
    [[nodiscard]] Farewell final_report() const;

    Links links;
    ServerParts parts;
    int server;
    ServerShard shard;
    OrderLine line;  ///< orders not carried out
    std::unique_ptr<ShardWriter> writer;
    std::uint64_t waits = 0;
    std::atomic<bool> begun{false};
    bool stopped = false;
};

void ServerLoop::Impl::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kBegin: begin(decode<BeginOrder>(message.body)); break;
        case MessageKind::kPush: pushed(decode<PushHeader>(message.body).push); break;
        case MessageKind::kFire:
            line.add(OrderLine::Update{.order = decode<FireOrder>(message.body)});
            break;
        case MessageKind::kReference: line.add(decode<ReferenceOrder>(message.body)); break;
        case MessageKind::kDiscard:
            for (const PushId& push : decode<DiscardOrder>(message.body).pushes) {
                line.discard(push);
                shard.staging().discard(push);
            }
            break;
        case MessageKind::kStop: line.add(Empty{}); break;
        default:
            fail<PeerError>({.where = fmt::format("server {}", server),
                             .what = "a message that servers do not take",
                             .got = fmt::format("kind {} from {}", message.kind,
                                                links.map.describe(message.from.rank)),
                             .hint = "the same program on all ranks"});
    }
}

/// Orders are carried out as they came. One that lacks pushes lets the others wait behind it: those
/// after it may count on its version.
void ServerLoop::Impl::advance() {
    while (const std::optional<OrderLine::Order> order = line.take(shard.version())) {
        std::visit([this](const auto& one) { carry_out(one); }, *order);
    }
}

void ServerLoop::Impl::carry_out(const OrderLine::Update& update) {
    if (update.void_of_pushes) {
        shard.skip_to(update.order.version);
    }
    fire(update.order);
    shard.staging().discard_sums(shard.version());
}

void ServerLoop::Impl::begin(const BeginOrder& order) {
    check_invariant(!begun, "a run begins once");
    begun = true;
    const ShardRange& range = shard.range();
    if (order.checkpoint.empty()) {
        shard.initialise(parts.seed, order.version);
    } else {
        check_invariant(parts.hdf5 != nullptr, "this server can read checkpoints");
        const auto wait =
            links.operations.begin("restoring from a checkpoint", 0, {}, WaitLimit::kWarn);
        shard.restore(read_checkpoint_range(order.checkpoint, range.begin, range.end,
                                            range.state > 0, *parts.hdf5));
        if (shard.version() != order.version) {
            fail<FileError>({.where = order.checkpoint,
                             .what = "the shard holds another version than the manifest",
                             .expected = std::to_string(order.version),
                             .got = std::to_string(shard.version())});
        }
    }
}

void ServerLoop::Impl::pushed(PushId push) {
    if (!shard.staging().arrived(push)) {
        return;
    }
    if (!is_node_sum(push)) {
        Staged staged{.push = push, .server = server};
        shard.compare(staged);
        tell_coordinator(MessageKind::kStaged, staged);
    } else if (static_cast<std::int64_t>(push.sequence) <= shard.version()) {
        shard.staging().discard(push);  // made once more, and not needed here
    }
}

/// No order is due by a time: without one a server sleeps without limit, under a name that shows it
/// idle. Ranks that have stopped are noticed elsewhere. Pushes that an order waits for are due.
Message ServerLoop::Impl::next() {
    constexpr Clock::Seconds kLook{60};
    Mailbox& mailbox = links.messenger.mailbox(Port::kServer);
    std::optional<Message> message = mailbox.receive(Clock::Seconds(0));
    if (!message) {
        std::optional<OperationBoard::Wait> wait;
        if (!line.waits()) {
            wait = links.operations.begin(
                "order", ++waits, [] { return std::vector<int>{0}; }, WaitLimit::kNone);
        }
        while (!message) {
            message = mailbox.receive(kLook);
        }
    }
    return *std::move(message);
}

/// 1. Transfers to all ranks that get parameters are announced, nothing is sent yet.
/// 2. The update runs through the shard; what is final leaves while the rest is computed.
/// 3. What was asked about the update.
/// 4. A copy for a checkpoint, before the next update.
void ServerLoop::Impl::fire(const FireOrder& order) {
    check_invariant(begun, "kBegin comes before the first update");
    const FireOutput output = shard.prepare(order);
    const auto transfers = start_sending(order, output);
    const GradientAnswer answer = shard.fire(order, output, [&transfers](std::int64_t floats) {
        for (const std::shared_ptr<OutgoingTransfer>& transfer : transfers) {
            transfer->release(static_cast<std::uint64_t>(floats) * sizeof(float));
        }
    });
    if (order.question.any() && !order.pushes.empty()) {
        tell_coordinator(MessageKind::kSummed,
                         Summed{.version = order.version, .server = server, .answer = answer});
    }
    if (!order.snapshot.checkpoint.empty()) {
        save(order.snapshot.checkpoint);
    }
}

std::vector<std::shared_ptr<OutgoingTransfer>> ServerLoop::Impl::start_sending(
    const FireOrder& order, const FireOutput& output) {
    std::vector<std::shared_ptr<OutgoingTransfer>> transfers;
    for (const ReleaseOrder& release : order.releases) {
        transfers.push_back(start({links.map.rank_of_worker(release.worker), Port::kWorker},
                                  MessageKind::kParameters,
                                  encode(ParametersHeader{.version = order.version,
                                                          .server = server,
                                                          .evaluation = release.evaluation,
                                                          .incarnation = release.incarnation}),
                                  output.find(shard.store().look_ahead_lag(release.lag))));
    }
    if (order.snapshot.gather != 0) {
        transfers.push_back(
            start({0, Port::kCoordinator}, MessageKind::kGathered,
                  encode(GatheredHeader{
                      .gather = order.snapshot.gather, .version = order.version, .part = server}),
                  output.find(0)));
    }
    return transfers;
}

std::shared_ptr<OutgoingTransfer> ServerLoop::Impl::start(Address to, MessageKind kind,
                                                          std::vector<std::byte> header,
                                                          std::shared_ptr<const float> values) {
    check_invariant(values != nullptr, "what is released has been prepared");
    const auto floats = static_cast<std::size_t>(shard.range().floats());
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values.get(), floats));
    return links.messenger.start_transfer(to, Port::kServer, static_cast<std::uint16_t>(kind),
                                          std::move(header), bytes, ChunkOrder::kForward,
                                          std::move(values));
}

void ServerLoop::Impl::save(const std::string& checkpoint) {
    check_invariant(writer != nullptr, "this server can write checkpoints");
    const SteadyClock clock;
    const auto start = clock.now();
    ShardSnapshot snapshot = shard.capture();
    writer->write(checkpoint, std::move(snapshot), (clock.now() - start).count());
}

void ServerLoop::Impl::receive_last_pushes() {
    complete_transfers(
        links, Port::kServer, "last pushes", [this] { return shard.staging().coming_from(); },
        [this](const Message& message) {
            if (static_cast<MessageKind>(message.kind) == MessageKind::kPush) {
                shard.staging().forget(decode<PushHeader>(message.body).push);
            }
        });
}

Farewell ServerLoop::Impl::final_report() const {
    const TrafficCounters traffic = links.messenger.counters();
    return {.cpu_s = process_cpu_seconds(),
            .peak_bytes = process_peak_bytes(),
            .staging_bytes = shard.staging().bytes_most(),
            .snapshot_bytes = shard.snapshot_bytes_most(),
            .bytes_sent = traffic.bytes_sent,
            .bytes_received = traffic.bytes_received,
            .comm_cpu_s = traffic.cpu_seconds};
}

ServerLoop::ServerLoop(Links links, JobParts& job, int server)
    : ServerLoop(links, parts_of(job), server) {
}

ServerLoop::ServerLoop(Links links, const ServerParts& parts, int server)
    : impl_(std::make_unique<Impl>(links, parts, server)) {
}

ServerLoop::~ServerLoop() = default;

std::string ServerLoop::device() const {
    return impl_->shard.store().device();
}

bool ServerLoop::begun() const noexcept {
    return impl_->begun;
}

void ServerLoop::run() {
    while (!impl_->stopped) {
        impl_->handle(impl_->next());
        impl_->advance();
    }
    impl_->receive_last_pushes();
    impl_->writer.reset();
    impl_->tell_coordinator(MessageKind::kFarewell, impl_->final_report());
}

}  // namespace cohort
