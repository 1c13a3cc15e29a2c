#include "train/worker/node_staging.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"
#include "sched/plan/lease_work.hpp"
#include "sched/plan/push_tree.hpp"
#include "train/protocol/complete_transfers.hpp"

namespace cohort {
namespace {

constexpr std::size_t kHeader = 4096;  // bytes before the first slot: which slots may be used again

std::size_t slot_bytes(std::int64_t floats) {
    constexpr std::size_t kLine = 64;
    return (static_cast<std::size_t>(floats) * sizeof(float) + kLine - 1) / kLine * kLine;
}

std::size_t total_bytes(std::int64_t floats) {
    return kHeader + SlotMemory::kSlots * slot_bytes(floats);
}

/// Tells a slot's pushes apart; sequences restart with each incarnation.
std::uint32_t key_of(const PushId& push) {
    return static_cast<std::uint32_t>(push.sequence) ^ (push.incarnation << 24U);
}

std::uint64_t packed(const PushId& push, std::int64_t version) {
    return std::uint64_t{key_of(push)} << 32U | static_cast<std::uint32_t>(version);
}

constexpr std::int64_t kLeavingFloats = std::int64_t{64} * 1024;  // floats that leave at once

}  // namespace

std::vector<bool> staging_nodes(const RankMap& map, NodeStaging choice, bool deterministic) {
    std::vector<NodeRanks> nodes(static_cast<std::size_t>(map.nodes()));
    for (const RankInfo& one : map.ranks) {
        NodeRanks& node = nodes.at(static_cast<std::size_t>(one.node));
        ++(one.rank < map.servers ? node.servers : node.workers);
    }
    return staging_nodes(nodes, map.servers > 0 ? choice : NodeStaging::kOff, deterministic);
}

std::vector<bool> slot_nodes(const RankMap& map, const TrainOptions& options) {
    if (map.servers > 0 && parse_push_tree(options.push_tree).on()) {
        return std::vector<bool>(static_cast<std::size_t>(map.nodes()), true);
    }
    return staging_nodes(map, options.node_staging, options.deterministic);
}

int tree_pieces(const TrainOptions& options, std::int64_t floats) {
    const bool automatic = parse_push_tree(options.push_tree).kind == PushTreeChoice::Kind::kAuto;
    return automatic ? most_pieces(static_cast<double>(floats) *
                                   static_cast<double>(wire_bytes(options.wire)))
                     : 1;
}

SlotMemory::SlotMemory(NodeMemory memory, std::int64_t floats)
    : memory_(std::move(memory)), floats_(floats) {
}

SlotMemory SlotMemory::create(std::int64_t floats) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    SlotMemory made(NodeMemory::create(total_bytes(floats)), floats);
    made.memory_.reserve(0, total_bytes(floats));
    for (int slot = 0; slot < kSlots; ++slot) {
        new (&made.state(slot)) std::atomic<std::uint64_t>(0);
    }
    return made;
}

SlotMemory SlotMemory::open(std::int64_t pid, int descriptor, std::int64_t floats) {
    return {NodeMemory::open(pid, descriptor, total_bytes(floats)), floats};
}

std::span<float> SlotMemory::values(int slot) const noexcept {
    std::byte* at = memory_.data() + kHeader + static_cast<std::size_t>(slot) * slot_bytes(floats_);
    return {reinterpret_cast<float*>(at), static_cast<std::size_t>(floats_)};
}

std::atomic<std::uint64_t>& SlotMemory::state(int slot) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data())[slot];
}

void SlotMemory::set_free(int slot, const PushId& push, std::int64_t version) const noexcept {
    state(slot).store(packed(push, version), std::memory_order_release);
}

bool SlotMemory::is_free(int slot, const PushId& push, std::int64_t version) const noexcept {
    const std::uint64_t now = state(slot).load(std::memory_order_acquire);
    const auto left = static_cast<std::int32_t>(static_cast<std::uint32_t>(version) -
                                                static_cast<std::uint32_t>(now));
    return now >> 32U == key_of(push) && left >= 0;
}

std::optional<int> NodeSlots::find_free(std::int64_t version) const noexcept {
    for (int slot = 0; slot < SlotMemory::kSlots; ++slot) {
        const auto& used = used_[static_cast<std::size_t>(slot)];
        if (!used || memory_.is_free(slot, *used, version)) {
            return slot;
        }
    }
    return std::nullopt;
}

NodeAgent::Sink::Sink(const CommContext& comm, PieceInbox& sums_of_others)
    : sums(sums_of_others), parameters(comm, *device) {
}

std::span<std::byte> NodeAgent::Sink::accept(const Message& announcement, std::uint64_t bytes) {
    const bool down = static_cast<NodeMessage>(announcement.kind) == NodeMessage::kPassOn;
    return down ? parameters.accept(announcement, bytes) : sums.accept(announcement, bytes);
}

std::vector<int> NodeAgent::Sink::coming() const {
    std::vector<int> ranks = sums.coming();
    const std::vector<int> more = parameters.coming();
    ranks.insert(ranks.end(), more.begin(), more.end());
    return ranks;
}

NodeAgent::NodeAgent(const CommContext& comm, const ShardedLayout& layout, int worker,
                     int descriptor, int pieces, Wire wire)
    : comm_(comm), sums_(comm, layout, pieces, wire), sink_(comm, sums_.inbox()) {
    comm.messenger.set_sink(Port::kNode, &sink_);
    const int rank = comm.map.rank_of_worker(worker);
    const int node = comm.map.ranks[static_cast<std::size_t>(rank)].node;
    for (const int other : comm.map.on_node(node)) {
        if (other >= comm.map.servers) {
            comm.send({other, Port::kNode}, Port::kNode, NodeMessage::kMemory,
                      NodeMemoryNote{.worker = worker, .descriptor = descriptor});
        }
    }
    thread_ = std::thread([this] { run(); });
}

NodeAgent::~NodeAgent() {
    comm_.send({comm_.messenger.rank(), Port::kNode}, Port::kNode, NodeMessage::kEnd, Empty{});
    thread_.join();
    comm_.messenger.set_sink(Port::kNode, nullptr);
}

void NodeAgent::check() const {
    if (failed_) {
        std::rethrow_exception(failure_);
    }
}

void NodeAgent::run() noexcept {
    constexpr Clock::Seconds kLook{60};
    try {
        while (!ended_ || !sums_.idle()) {
            std::optional<Message> message;
            {
                const auto wait =
                    comm_.operations.begin("sum of the node", ++waits_, {}, WaitLimit::kNone);
                while (!message) {
                    message = comm_.messenger.mailbox(Port::kNode).receive(kLook);
                }
            }
            handle(*message);
            sums_.advance();
        }
        finish();
    } catch (...) {
        failure_ = std::current_exception();
        failed_ = true;
    }
}

void NodeAgent::finish() {
    complete_transfers(
        comm_, Port::kNode, "last sums and parameters of other nodes",
        [this] { return sink_.coming(); },
        [this](const Message& last) {
            const auto kind = static_cast<NodeMessage>(last.kind);
            if (kind == NodeMessage::kPiece) {
                sums_.inbox().forget(decode<NodePieceHeader>(last.body));
            } else if (kind == NodeMessage::kPassOn) {
                sink_.parameters.forget(decode<PassOnHeader>(last.body));
            }
        });
}

void NodeAgent::handle(const Message& message) {
    switch (static_cast<NodeMessage>(message.kind)) {
        case NodeMessage::kMemory: sums_.open(decode<NodeMemoryNote>(message.body)); break;
        case NodeMessage::kSum: sums_.add(decode<NodeSumOrder>(message.body)); break;
        case NodeMessage::kPiece:
            sums_.inbox().arrived(decode<NodePieceHeader>(message.body));
            break;
        case NodeMessage::kPassOn:
            sink_.parameters.arrived(decode<PassOnHeader>(message.body));
            break;
        case NodeMessage::kDrop: sums_.drop(decode<NodeDropOrder>(message.body)); break;
        case NodeMessage::kFree: sums_.set_free(decode<NodeFreeOrder>(message.body)); break;
        case NodeMessage::kEnd: ended_ = true; break;
        default:
            fail<PeerError>({.where = "node staging",
                             .what = "a message that nobody knows",
                             .got = std::to_string(message.kind),
                             .hint = "the same program on all ranks"});
    }
}

void SumRounding::round(const NodeSumOrder& order, float* sum, std::int64_t at, std::int64_t n) {
    if (wire_ == Wire::kF32) {
        return;
    }
    const std::span<const float> values(sum + at, static_cast<std::size_t>(n));
    auto* const to = reinterpret_cast<std::uint16_t*>(sum + floats_) + at;
    if (order.sum.incarnation > 0) {
        narrow_to_bf16(values, to);
        return;
    }
    if (rest_.empty() || std::exchange(rest_of_, order.work) != order.work) {
        rest_.assign(static_cast<std::size_t>(floats_), 0.0F);
    }
    narrow_with_rest(values, rest_.data() + at, rest_.data() + at, to);
}

std::span<const std::byte> SumRounding::leaving(const float* sum, std::int64_t begin,
                                                std::int64_t end) const {
    const auto* const all =
        reinterpret_cast<const std::byte*>(wire_ == Wire::kBf16 ? sum + floats_ : sum);
    const auto each = static_cast<std::int64_t>(wire_bytes(wire_));
    return {all + begin * each, static_cast<std::size_t>((end - begin) * each)};
}

NodeSums::NodeSums(const CommContext& comm, const ShardedLayout& layout, int pieces, Wire wire)
    : comm_(comm),
      layout_(layout),
      rounding_(wire, layout.floats()),
      pool_(*device_, rounding_.memory()),
      inbox_(*device_, layout.floats(), pieces, wire) {
}

void NodeSums::set_free(const NodeFreeOrder& order) {
    memory_.at(order.push.worker).set_free(order.slot, order.push, 0);
}

void NodeSums::open(const NodeMemoryNote& note) {
    const int rank = comm_.map.rank_of_worker(note.worker);
    const RankInfo& info = comm_.map.ranks.at(static_cast<std::size_t>(rank));
    memory_.insert_or_assign(note.worker,
                             SlotMemory::open(info.pid, note.descriptor, layout_.floats()));
}

/// Sums are made in the order of versions: other nodes wait for those of older updates first.
void NodeSums::add(NodeSumOrder order) {
    if (order.top.incarnation > 0) {
        PushId before = order.top;
        --before.incarnation;
        drop({.top = before});
    }
    const auto later = std::ranges::find_if(line_, [&](const NodeSumOrder& other) {
        const bool begun = sum_ != nullptr && &other == &line_.front();
        return other.sum.sequence > order.sum.sequence && !begun;
    });
    line_.insert(later, std::move(order));
}

/// Forgets orders for this incarnation of a sum on the servers, and older ones.
void NodeSums::drop(const NodeDropOrder& order) {
    for (auto at = line_.begin(); at != line_.end();) {
        const bool named =
            same_push(at->top, order.top) && at->top.incarnation <= order.top.incarnation;
        if (!named && !order.all) {
            ++at;
            continue;
        }
        for (const NodeInput& input : at->inputs) {
            inbox_.discard(input.sum);
        }
        if (order.all) {  // nobody else may have made it, and servers do not need it
            free_slots(*at);
        }
        if (at == line_.begin()) {
            sum_ = nullptr;
            lacks_.reset();
        }
        at = line_.erase(at);
    }
}

void NodeSums::advance() {
    while (!line_.empty()) {
        std::vector<int> ranks = missing();
        if (!ranks.empty()) {
            if (!lacks_) {
                lacks_ =
                    comm_.operations.begin("sums and memory of nodes", line_.front().sum.sequence,
                                           [ranks = std::move(ranks)] { return ranks; });
            }
            return;
        }
        lacks_.reset();
        make_piece();
    }
}

/// World ranks whose memory the first order needs and that have not told of it, or that have not
/// sent the next piece; the whole of it when it goes to the servers.
std::vector<int> NodeSums::missing() const {
    const NodeSumOrder& order = line_.front();
    std::vector<int> ranks;
    for (const NodeTerm& term : order.terms) {
        if (!memory_.contains(term.push.worker)) {
            ranks.push_back(comm_.map.rank_of_worker(term.push.worker));
        }
    }
    const int next = sum_ == nullptr ? 0 : made_;
    const int end = order.to < 0 ? inbox_.pieces() : next + 1;
    for (const NodeInput& input : order.inputs) {
        for (int piece = next; piece < end; ++piece) {
            if (!inbox_.is_here(input.sum, piece)) {
                ranks.push_back(input.rank);
                break;
            }
        }
    }
    return ranks;
}

void NodeSums::make_piece() {
    const NodeSumOrder& order = line_.front();
    if (sum_ == nullptr) {
        sum_ = pool_.take();
        made_ = 0;
    }
    if (order.to < 0) {
        send_to_servers(order);
    } else {
        const std::int64_t begin = inbox_.begin_of(made_);
        make_part(made_, [](std::int64_t /*end*/) {});
        const auto piece = rounding_.leaving(sum_.get(), begin, inbox_.begin_of(made_ + 1));
        comm_
            .start_transfer({order.to, Port::kNode}, Port::kNode, NodeMessage::kPiece,
                            NodePieceHeader{order.sum, made_}, piece, ChunkOrder::kForward, sum_)
            ->release(piece.size());
        ++made_;
    }
    if (made_ == inbox_.pieces()) {
        finish();
    }
}

/// Sums a piece of the first order, block by block. @param made  called with the floats of the sum
/// that are made so far
void NodeSums::make_part(int piece, const std::function<void(std::int64_t end)>& made) {
    const NodeSumOrder& order = line_.front();
    const std::int64_t begin = inbox_.begin_of(piece);
    const std::int64_t end = inbox_.begin_of(piece + 1);
    std::vector<SumTerm> terms;
    for (const NodeTerm& term : order.terms) {
        terms.push_back({.values = memory_.at(term.push.worker).values(term.slot).data() + begin,
                         .coefficient = static_cast<float>(term.coefficient)});
    }
    std::vector<std::shared_ptr<const float>> inputs;
    for (const NodeInput& input : order.inputs) {
        inputs.push_back(inbox_.take(input.sum, piece));
        terms.push_back({.values = inputs.back().get(), .coefficient = 1});
    }
    for (std::int64_t at = begin; at < end; at += kLeavingFloats) {
        const std::int64_t n = std::min(kLeavingFloats, end - at);
        weighted_sum(terms, at - begin, sum_.get() + at, n);
        rounding_.round(order, sum_.get(), at, n);
        made(at + n);
    }
}

/// One transfer per server, which leaves while the sum is made.
void NodeSums::send_to_servers(const NodeSumOrder& order) {
    const std::vector<ShardRange> shards = shards_of(order.layout, layout_.state());
    std::vector<std::shared_ptr<OutgoingTransfer>> transfers;
    for (const ShardRange& shard : shards) {
        transfers.push_back(comm_.start_transfer(
            {comm_.map.rank_of_server(shard.part), Port::kServer}, Port::kNode, MessageKind::kPush,
            PushHeader{order.sum, order.layout.number},
            rounding_.leaving(sum_.get(), shard.begin, shard.begin + shard.floats()),
            ChunkOrder::kForward, sum_));
    }
    for (; made_ < inbox_.pieces(); ++made_) {
        make_part(made_, [&](std::int64_t end) {
            for (std::size_t i = 0; i < transfers.size(); ++i) {
                const ShardRange& shard = shards[i];
                const std::int64_t done = std::min(end - shard.begin, shard.floats());
                if (done > 0) {
                    transfers[i]->release(static_cast<std::uint64_t>(done) *
                                          wire_bytes(rounding_.wire()));
                }
            }
        });
    }
}

/// Slots may be used again by owners with parameters that contain the sum.
void NodeSums::free_slots(const NodeSumOrder& order) const {
    for (const NodeTerm& term : order.terms) {
        if (const auto memory = memory_.find(term.push.worker); memory != memory_.end()) {
            memory->second.set_free(term.slot, term.push,
                                    static_cast<std::int64_t>(order.sum.sequence));
        }
    }
}

/// All pieces of the first order are made. What comes late of old updates is thrown away.
void NodeSums::finish() {
    constexpr std::int64_t kKept = 64;  // versions that may be ordered again
    const NodeSumOrder& order = line_.front();
    free_slots(order);
    inbox_.discard_sums(static_cast<std::int64_t>(order.sum.sequence) - kKept);
    line_.pop_front();
    sum_ = nullptr;
}

}  // namespace cohort
