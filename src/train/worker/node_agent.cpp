// One read of each gradient from shared memory per sum, one write, one transfer per server.
#include "train/worker/node_agent.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/core/error.hpp"
#include "optim/weighted_sum.hpp"
#include "tensor/buffer_pool.hpp"
#include "train/protocol/protocol_node.hpp"
#include "train/worker/node_slots.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kLeavingFloats = std::int64_t{64} * 1024;  // floats that leave at once

}  // namespace

struct NodeAgent::Impl {
    Impl(const Links& to, const ShardedLayout& with, int worker, int descriptor)
        : links(to), layout(with), pool(*device, with.floats()) {
        const int rank = links.map.rank_of_worker(worker);
        const int node = links.map.ranks[static_cast<std::size_t>(rank)].node;
        for (const int other : links.map.on_node(node)) {
            if (other >= links.map.servers) {
                send({other, Port::kNode}, NodeMessage::kMemory,
                     NodeMemoryNote{.worker = worker, .descriptor = descriptor});
            }
        }
        thread = std::thread([this] { run(); });
    }

    template <class Body>
    void send(Address to, NodeMessage kind, const Body& body) {
        links.messenger.send(to, Port::kNode, static_cast<std::uint16_t>(kind), encode(body));
    }

    void run() noexcept;
    void handle(const Message& message);
    void open(const NodeMemoryNote& note);
    void advance();
    [[nodiscard]] std::vector<int> unknown() const;
    void make(const NodeSumOrder& order);
    void make_part(const ShardRange& shard, const std::vector<SumTerm>& terms,
                   const std::shared_ptr<float>& sum, const PushId& push);

    const Links& links;
    const ShardedLayout& layout;
    std::unique_ptr<Device> device = make_cpu_device(1);
    BufferPool pool;
    std::map<int, SlotMemory> memory;  ///< by worker
    std::deque<NodeSumOrder> line;     ///< the first lacks a worker's memory
    std::optional<OperationBoard::Wait> lacks;
    bool ended = false;
    std::uint64_t waits = 0;
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    std::thread thread;  // last member: starts when the others exist
};

void NodeAgent::Impl::run() noexcept {
    constexpr Clock::Seconds kLook{60};
    try {
        while (!ended || !line.empty()) {
            std::optional<Message> message;
            {
                const auto wait =
                    links.operations.begin("sum of the node", ++waits, {}, WaitLimit::kNone);
                while (!message) {
                    message = links.messenger.mailbox(Port::kNode).receive(kLook);
                }
            }
            handle(*message);
            advance();
        }
    } catch (...) {
        failure = std::current_exception();
        failed = true;
    }
}

void NodeAgent::Impl::handle(const Message& message) {
    switch (static_cast<NodeMessage>(message.kind)) {
        case NodeMessage::kMemory: open(decode<NodeMemoryNote>(message.body)); break;
        case NodeMessage::kSum: line.push_back(decode<NodeSumOrder>(message.body)); break;
        case NodeMessage::kFree: {
            const auto order = decode<NodeFreeOrder>(message.body);
            memory.at(order.push.worker).set_free(order.slot, order.push, 0);
            break;
        }
        case NodeMessage::kEnd: ended = true; break;
        default:
            fail<PeerError>({.where = "node staging",
                             .what = "a message that nobody knows",
                             .got = std::to_string(message.kind),
                             .hint = "the same program on all ranks"});
    }
}

void NodeAgent::Impl::open(const NodeMemoryNote& note) {
    const int rank = links.map.rank_of_worker(note.worker);
    const RankInfo& info = links.map.ranks.at(static_cast<std::size_t>(rank));
    memory.insert_or_assign(note.worker,
                            SlotMemory::open(info.pid, note.descriptor, layout.floats()));
}

/// Notes of memory come from other ranks than orders, and may be later.
void NodeAgent::Impl::advance() {
    while (!line.empty() && unknown().empty()) {
        lacks.reset();
        make(line.front());
        line.pop_front();
    }
    if (!line.empty() && !lacks) {
        lacks = links.operations.begin("memory of the node", line.front().sum.sequence,
                                       [ranks = unknown()] { return ranks; });
    }
}

/// World ranks whose memory the first order needs and that have not told of it.
std::vector<int> NodeAgent::Impl::unknown() const {
    std::vector<int> ranks;
    for (const NodeTerm& term : line.front().terms) {
        if (!memory.contains(term.push.worker)) {
            ranks.push_back(links.map.rank_of_worker(term.push.worker));
        }
    }
    return ranks;
}

void NodeAgent::Impl::make(const NodeSumOrder& order) {
    const std::shared_ptr<float> sum = pool.take();
    std::vector<SumTerm> terms;
    for (const NodeTerm& term : order.terms) {
        terms.push_back({.values = memory.at(term.push.worker).values(term.slot).data(),
                         .coefficient = static_cast<float>(term.coefficient)});
    }
    for (const ShardRange& shard : layout.shards()) {
        make_part(shard, terms, sum, order.sum);
    }
    for (const NodeTerm& term : order.terms) {
        memory.at(term.push.worker)
            .set_free(term.slot, term.push, static_cast<std::int64_t>(order.sum.sequence));
    }
}

void NodeAgent::Impl::make_part(const ShardRange& shard, const std::vector<SumTerm>& terms,
                                const std::shared_ptr<float>& sum, const PushId& push) {
    const std::span<float> part = layout.part(sum.get(), shard);
    const std::int64_t begin = part.data() - sum.get();
    const auto transfer = links.messenger.start_transfer(
        {links.map.rank_of_server(shard.part), Port::kServer}, Port::kNode,
        static_cast<std::uint16_t>(MessageKind::kPush), encode(PushHeader{push}),
        std::as_bytes(part), ChunkOrder::kForward, sum);
    for (std::int64_t at = 0; at < shard.floats(); at += kLeavingFloats) {
        const std::int64_t n = std::min(kLeavingFloats, shard.floats() - at);
        weighted_sum(terms, begin + at, part.data() + at, n);
        transfer->release(static_cast<std::uint64_t>(at + n) * sizeof(float));
    }
}

NodeAgent::NodeAgent(const Links& links, const ShardedLayout& layout, int worker, int descriptor)
    : impl_(std::make_unique<Impl>(links, layout, worker, descriptor)) {
}

NodeAgent::~NodeAgent() {
    impl_->send({impl_->links.messenger.rank(), Port::kNode}, NodeMessage::kEnd, Empty{});
    impl_->thread.join();
}

void NodeAgent::check() const {
    if (impl_->failed) {
        std::rethrow_exception(impl_->failure);
    }
}

}  // namespace cohort
