#include "train/worker/node_staging.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "cohort/core/error.hpp"
#include "sched/plan/lease_work.hpp"

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

NodeAgent::NodeAgent(const CommContext& comm, const ShardedLayout& layout, int worker,
                     int descriptor)
    : comm_(comm), layout_(layout), pool_(*device_, layout.floats()) {
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
}

void NodeAgent::check() const {
    if (failed_) {
        std::rethrow_exception(failure_);
    }
}

void NodeAgent::run() noexcept {
    constexpr Clock::Seconds kLook{60};
    try {
        while (!ended_ || !line_.empty()) {
            std::optional<Message> message;
            {
                const auto wait =
                    comm_.operations.begin("sum of the node", ++waits_, {}, WaitLimit::kNone);
                while (!message) {
                    message = comm_.messenger.mailbox(Port::kNode).receive(kLook);
                }
            }
            handle(*message);
            advance();
        }
    } catch (...) {
        failure_ = std::current_exception();
        failed_ = true;
    }
}

void NodeAgent::handle(const Message& message) {
    switch (static_cast<NodeMessage>(message.kind)) {
        case NodeMessage::kMemory: open(decode<NodeMemoryNote>(message.body)); break;
        case NodeMessage::kSum: line_.push_back(decode<NodeSumOrder>(message.body)); break;
        case NodeMessage::kFree: {
            const auto order = decode<NodeFreeOrder>(message.body);
            memory_.at(order.push.worker).set_free(order.slot, order.push, 0);
            break;
        }
        case NodeMessage::kEnd: ended_ = true; break;
        default:
            fail<PeerError>({.where = "node staging",
                             .what = "a message that nobody knows",
                             .got = std::to_string(message.kind),
                             .hint = "the same program on all ranks"});
    }
}

void NodeAgent::open(const NodeMemoryNote& note) {
    const int rank = comm_.map.rank_of_worker(note.worker);
    const RankInfo& info = comm_.map.ranks.at(static_cast<std::size_t>(rank));
    memory_.insert_or_assign(note.worker,
                             SlotMemory::open(info.pid, note.descriptor, layout_.floats()));
}

/// Notes of memory come from other ranks than orders, and may be later.
void NodeAgent::advance() {
    while (!line_.empty() && unknown().empty()) {
        lacks_.reset();
        make(line_.front());
        line_.pop_front();
    }
    if (!line_.empty() && !lacks_) {
        lacks_ = comm_.operations.begin("memory of the node", line_.front().sum.sequence,
                                        [ranks = unknown()] { return ranks; });
    }
}

/// World ranks whose memory the first order needs and that have not told of it.
std::vector<int> NodeAgent::unknown() const {
    std::vector<int> ranks;
    for (const NodeTerm& term : line_.front().terms) {
        if (!memory_.contains(term.push.worker)) {
            ranks.push_back(comm_.map.rank_of_worker(term.push.worker));
        }
    }
    return ranks;
}

void NodeAgent::make(const NodeSumOrder& order) {
    const std::shared_ptr<float> sum = pool_.take();
    std::vector<SumTerm> terms;
    for (const NodeTerm& term : order.terms) {
        terms.push_back({.values = memory_.at(term.push.worker).values(term.slot).data(),
                         .coefficient = static_cast<float>(term.coefficient)});
    }
    for (const ShardRange& shard : shards_of(order.layout, layout_.state())) {
        make_part(shard, terms, sum, {order.sum, order.layout.number});
    }
    for (const NodeTerm& term : order.terms) {
        memory_.at(term.push.worker)
            .set_free(term.slot, term.push, static_cast<std::int64_t>(order.sum.sequence));
    }
}

void NodeAgent::make_part(const ShardRange& shard, const std::vector<SumTerm>& terms,
                          const std::shared_ptr<float>& sum, const PushHeader& push) {
    const std::span<float> part = ShardedLayout::part(sum.get(), shard);
    const std::int64_t begin = part.data() - sum.get();
    const auto transfer =
        comm_.start_transfer({comm_.map.rank_of_server(shard.part), Port::kServer}, Port::kNode,
                             MessageKind::kPush, push, part, ChunkOrder::kForward, sum);
    for (std::int64_t at = 0; at < shard.floats(); at += kLeavingFloats) {
        const std::int64_t n = std::min(kLeavingFloats, shard.floats() - at);
        weighted_sum(terms, begin + at, part.data() + at, n);
        transfer->release(static_cast<std::uint64_t>(at + n) * sizeof(float));
    }
}

}  // namespace cohort
