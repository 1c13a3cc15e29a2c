#include "train/server/server_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/system/launch_env.hpp"
#include "core/system/process_usage.hpp"
#include "train/protocol/complete_transfers.hpp"
#include "train/protocol/protocol_node.hpp"

namespace cohort {
namespace {

/// More threads than this find no more memory bandwidth.
constexpr int kMostThreads = 8;

int thread_count(int asked) {
    return std::min(asked > 0 ? asked : read_launch_env().cores, kMostThreads);
}

ServerParts parts_of(JobContext& job, const RankMap& map) {
    return {.graph = job.graph,
            .optimizer = job.optimizer,
            .seed = job.options.seed,
            .threads = job.options.threads,
            .device = job.options.server_device,
            .hdf5 = &job.hdf5,
            .shares = initial_shares(job.options.shards, map),
            .wire = job.options.wire};
}

/// A piece of a shard's parameters for workers that pass it on.
struct PassedOn {
    int rank = 0;
    PassOnHeader header;
    std::int64_t begin = 0;  ///< its first float in the shard
    std::int64_t floats = 0;
};

/// What a server sends the first stops, piece by piece.
std::vector<PassedOn> pieces_of(const FireOrder& order, const ShardRange& range) {
    std::vector<PassedOn> pieces;
    for (std::size_t stop = 0; stop < order.stops.size(); ++stop) {
        if (order.stops[stop].from >= 0) {
            continue;
        }
        const std::vector<ParametersStop> behind = stops_from(order.stops, stop);
        for (std::int32_t piece = 0; piece < order.pieces; ++piece) {
            const std::int64_t begin = range.parameters() * piece / order.pieces;
            const std::int64_t end = range.parameters() * (piece + 1) / order.pieces;
            const ParametersHeader header{.version = order.update.version,
                                          .server = range.part,
                                          .begin = range.begin + begin,
                                          .end = range.begin + end,
                                          .way = ParametersWay::kPassedOn,
                                          .piece = piece,
                                          .pieces = order.pieces};
            const std::int64_t state = piece + 1 == order.pieces ? range.state : 0;
            pieces.push_back({.rank = order.stops[stop].rank,
                              .header = {header, behind},
                              .begin = begin,
                              .floats = end - begin + state});
        }
    }
    return pieces;
}

std::vector<ShardRange> shards_at_start(const ServerParts& parts, int servers) {
    return parts.shares.empty() ? cut_shards(parts.graph, servers)
                                : cut_shards(parts.graph, parts.shares);
}

}  // namespace

ServerLoop::ServerLoop(CommContext comm, JobContext& job, int server)
    : ServerLoop(comm, parts_of(job, comm.map), server) {
}

ServerLoop::ServerLoop(CommContext comm, const ServerParts& parts, int server)
    : comm_(comm),
      parts_(parts),
      server_(server),
      layout_(layout_of(0, shards_at_start(parts, comm.map.servers))),
      shard_(parts.graph,
             shards_at_start(parts, comm.map.servers).at(static_cast<std::size_t>(server)),
             parts.optimizer, thread_count(parts.threads),
             make_shard_device(parts.device, comm.map, server), parts.wire),
      line_(comm_, shard_.staging()) {
    if (parts.hdf5 != nullptr) {
        writer_.emplace(
            *parts.hdf5, comm_.operations,
            [this](const SavedPart& saved) { tell_coordinator(MessageKind::kSaved, saved); },
            mirror_sender(comm_));
    }
    comm_.messenger.set_sink(Port::kServer, &sink_);
}

ServerLoop::~ServerLoop() {
    comm_.messenger.set_sink(Port::kServer, nullptr);
}

void ServerLoop::run() {
    while (!stopped_) {
        handle(next());
        advance();
    }
    receive_last_pushes();
    writer_.reset();
    tell_coordinator(MessageKind::kFarewell, final_report());
}

void ServerLoop::handle(const Message& message) {
    switch (static_cast<MessageKind>(message.kind)) {
        case MessageKind::kBegin: begin(decode<BeginOrder>(message.body)); break;
        case MessageKind::kPush: pushed(decode<PushHeader>(message.body).push); break;
        case MessageKind::kFire:
            line_.add(OrderLine::Update{.order = decode<FireOrder>(message.body)});
            break;
        case MessageKind::kReshard: line_.add(decode<ShardLayout>(message.body)); break;
        case MessageKind::kShardPart: sink_.arrived(decode<ShardPartHeader>(message.body)); break;
        case MessageKind::kReference: line_.add(decode<ReferenceOrder>(message.body)); break;
        case MessageKind::kDiscard:
            for (const PushId& push : decode<DiscardOrder>(message.body).pushes) {
                line_.discard(push);
                shard_.staging().discard(push);
            }
            break;
        case MessageKind::kStop: line_.add(Empty{}); break;
        default:
            fail<PeerError>({.where = fmt::format("server {}", server_),
                             .what = "a message that servers do not take",
                             .got = fmt::format("kind {} from {}", message.kind,
                                                comm_.map.describe(message.from.rank)),
                             .hint = "the same program on all ranks"});
    }
}

/// Orders are carried out as they came. One that lacks pushes lets the others wait behind it: those
/// after it may count on its version.
void ServerLoop::advance() {
    end_move();
    while (!exchange_.active()) {
        const std::optional<OrderLine::Order> order = line_.take(shard_.version());
        if (!order) {
            return;
        }
        std::visit([this](const auto& one) { carry_out(one); }, *order);
        end_move();
    }
}

void ServerLoop::carry_out(const ShardLayout& order) {
    exchange_.begin(layout_, order, shard_.capture());
}

/// Once all of the new shard is here. Orders that follow have waited.
void ServerLoop::end_move() {
    if (const std::optional<ShardSnapshot> mine = exchange_.take()) {
        layout_ = exchange_.layout();
        const auto shards = shards_of(layout_, parts_.graph.state().total());
        shard_.resize(shards.at(static_cast<std::size_t>(server_)), *mine, layout_.number);
        tell_coordinator(MessageKind::kResharded,
                         ReshardedNote{.layout = layout_.number, .server = server_});
    }
}

void ServerLoop::carry_out(const OrderLine::Update& update) {
    if (update.void_of_pushes) {
        shard_.skip_to(update.order.update.version);
    }
    fire(update.order);
    shard_.staging().discard_sums(shard_.version());
}

void ServerLoop::begin(const BeginOrder& order) {
    check_invariant(!begun_, "a run begins once");
    begun_ = true;
    const ShardRange& range = shard_.range();
    if (order.checkpoint.empty()) {
        shard_.initialise(parts_.seed, order.version);
    } else {
        check_invariant(parts_.hdf5 != nullptr, "this server can read checkpoints");
        const auto wait =
            comm_.operations.begin("restoring from a checkpoint", 0, {}, WaitLimit::kWarn);
        shard_.restore(read_checkpoint_range(order.checkpoint, range.begin, range.end,
                                             range.state > 0, *parts_.hdf5));
        if (shard_.version() != order.version) {
            fail<FileError>({.where = order.checkpoint,
                             .what = "the shard holds another version than the manifest",
                             .expected = std::to_string(order.version),
                             .got = std::to_string(shard_.version())});
        }
    }
}

void ServerLoop::pushed(PushId push) {
    if (!shard_.staging().arrived(push)) {
        return;
    }
    if (comm_.membership != nullptr) {
        shard_.staging().busy().note_epoch(comm_.membership->epoch());
    }
    if (!is_node_sum(push)) {
        PushReceived staged{
            .push = push, .server = server_, .busy_s = shard_.staging().busy().seconds()};
        shard_.compare(staged);
        tell_coordinator(MessageKind::kPushReceived, staged);
    } else if (static_cast<std::int64_t>(push.sequence) <= shard_.version()) {
        shard_.staging().discard(push);  // made once more, and not needed here
    }
}

/// No order is due by a time: without one a server sleeps without limit, under a name that shows it
/// idle. Ranks that have stopped are noticed elsewhere. Pushes that an order waits for are due.
Message ServerLoop::next() {
    constexpr Clock::Seconds kLook{60};
    Mailbox& mailbox = comm_.messenger.mailbox(Port::kServer);
    std::optional<Message> message = mailbox.receive(Clock::Seconds(0));
    if (!message) {
        std::optional<OperationBoard::Wait> wait;
        if (!line_.waits() && !exchange_.active()) {
            wait = comm_.operations.begin(
                "order", ++waits_, [] { return std::vector<int>{0}; }, WaitLimit::kNone);
        }
        while (!message) {
            message = mailbox.receive(kLook);
        }
    }
    return *std::move(message);
}

/// 1. Transfers to all ranks that get parameters are announced, nothing is sent yet.
/// 2. The update runs through the shard; what is final leaves while the rest is computed.
/// 3. The norm of its gradient is told, if it was asked for.
/// 4. A copy for a checkpoint, before the next update.
void ServerLoop::fire(const FireOrder& order) {
    check_invariant(begun_, "kBegin comes before the first update");
    const FireOutput output = shard_.prepare(order);
    const auto updating = shard_.staging().busy().until_released(nullptr);
    const auto leaving = start_sending(order, output);
    const double squares = shard_.fire(order, output, [&leaving](std::int64_t floats) {
        for (const Leaving& one : leaving) {
            const std::int64_t final = std::max(floats, one.begin);
            one.transfer->release(one.form.of(final) - one.form.of(one.begin));
        }
    });
    if (order.update.ask_norm) {
        tell_coordinator(
            MessageKind::kGradientStats,
            GradientStatsReply{
                .version = order.update.version, .server = server_, .squares = squares});
    }
    if (!order.snapshot.checkpoint.empty()) {
        save(order.snapshot.checkpoint);
    }
}

template <class Kind, class Header>
ServerLoop::Leaving ServerLoop::start(Address to, Kind kind, const Header& header, Wire wire,
                                      std::shared_ptr<const float> copy, std::int64_t begin,
                                      std::int64_t floats) {
    check_invariant(copy != nullptr, "what is released has been prepared");
    const PulledBytes form{.wire = wire, .parameters = shard_.range().parameters()};
    const std::uint64_t before = form.of(begin);
    const auto part =
        shard_.as_sent(copy.get(), wire).subspan(before, form.of(begin + floats) - before);
    return {comm_.start_transfer(to, Port::kServer, kind, header, part, ChunkOrder::kForward,
                                 shard_.staging().busy().until_released(std::move(copy))),
            begin, form};
}

std::vector<ServerLoop::Leaving> ServerLoop::start_sending(const FireOrder& order,
                                                           const FireOutput& output) {
    const ShardRange& range = shard_.range();
    std::vector<Leaving> leaving;
    for (const ReleaseOrder& release : order.releases) {
        const bool again = release.again >= 0;
        const ParametersHeader header{
            .version = again ? release.again : order.update.version,
            .server = server_,
            .evaluation = release.evaluation,
            .incarnation = release.incarnation,
            .begin = range.begin,
            .end = range.end,
            .way = again ? ParametersWay::kAgain : ParametersWay::kStraight,
            .outcomes = release.outcomes};
        leaving.push_back(start({comm_.map.rank_of_worker(release.worker), Port::kWorker},
                                MessageKind::kParameters, header, parts_.wire,
                                output.find(release.lag), 0, range.floats()));
    }
    for (const PassedOn& piece : pieces_of(order, range)) {
        leaving.push_back(start({piece.rank, Port::kNode}, NodeMessage::kPassOn, piece.header,
                                parts_.wire, output.find(piece.header.stops.front().lag),
                                piece.begin, piece.floats));
    }
    if (order.snapshot.gather != 0) {
        leaving.push_back(start(
            {0, Port::kCoordinator}, MessageKind::kGathered,
            GatheredHeader{
                .gather = order.snapshot.gather, .version = order.update.version, .part = server_},
            Wire::kF32, output.find(0), 0, range.floats()));
    }
    return leaving;
}

void ServerLoop::save(const std::string& checkpoint) {
    check_invariant(writer_.has_value(), "this server can write checkpoints");
    const SteadyClock clock;
    const auto start = clock.now();
    ShardSnapshot snapshot = shard_.capture();
    writer_->write(checkpoint, std::move(snapshot), (clock.now() - start).count());
}

void ServerLoop::receive_last_pushes() {
    complete_transfers(
        comm_, Port::kServer, "last pushes", [this] { return shard_.staging().coming(); },
        [this](const Message& message) {
            if (static_cast<MessageKind>(message.kind) == MessageKind::kPush) {
                shard_.staging().forget(decode<PushHeader>(message.body).push);
            }
        });
}

Farewell ServerLoop::final_report() const {
    const TrafficCounters traffic = comm_.messenger.counters();
    return {.cpu_s = process_cpu_seconds(),
            .peak_bytes = process_peak_bytes(),
            .staging_bytes = shard_.staging().bytes_most(),
            .snapshot_bytes = shard_.snapshot_bytes_most(),
            .bytes_sent = traffic.bytes_sent,
            .bytes_received = traffic.bytes_received,
            .comm_cpu_s = traffic.cpu_seconds};
}

}  // namespace cohort
