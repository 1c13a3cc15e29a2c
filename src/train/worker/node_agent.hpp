#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "optim/weighted_sum.hpp"
#include "tensor/buffer_pool.hpp"
#include "train/protocol/links.hpp"
#include "train/protocol/protocol_node.hpp"
#include "train/worker/node_slots.hpp"
#include "train/worker/servers/worker_parameters.hpp"

namespace cohort {

/// A worker's part in its node's staging besides its own slots: makes the sums that the coordinator
/// orders (protocol_node.hpp), on a thread of its own, because the computing thread is busy. Every
/// worker of the node has one, so that any of them can be the head.
class NodeAgent {
public:
    /// Tells the other workers of the node of this one's memory, and starts. @param links, layout
    /// outlive it  @param worker index  @param descriptor of its slots, see NodeSlots
    NodeAgent(const Links& links, const ShardedLayout& layout, int worker, int descriptor);
    NodeAgent(const NodeAgent&) = delete;
    NodeAgent& operator=(const NodeAgent&) = delete;
    /// Carries out the orders that have come, then ends. What it has begun to send leaves.
    ~NodeAgent();

    /// Throws what has ended its thread, if something has.
    void check() const;

private:
    void run() noexcept;
    void handle(const Message& message);
    void open(const NodeMemoryNote& note);
    void advance();
    [[nodiscard]] std::vector<int> unknown() const;
    void make(const NodeSumOrder& order);
    void make_part(const ShardRange& shard, const std::vector<SumTerm>& terms,
                   const std::shared_ptr<float>& sum, const PushId& push);

    const Links& links_;
    const ShardedLayout& layout_;
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    BufferPool pool_;
    std::map<int, SlotMemory> memory_;  ///< by worker
    std::deque<NodeSumOrder> line_;     ///< the first lacks a worker's memory
    std::optional<OperationBoard::Wait> lacks_;
    bool ended_ = false;
    std::uint64_t waits_ = 0;
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;
    std::thread thread_;  ///< last member: starts when the others exist
};

}  // namespace cohort
