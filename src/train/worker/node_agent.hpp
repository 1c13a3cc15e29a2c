#pragma once

#include <cstdint>
#include <memory>

#include "train/protocol/links.hpp"
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
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
