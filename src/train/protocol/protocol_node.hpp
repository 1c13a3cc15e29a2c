#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "train/protocol/protocol.hpp"

// Node staging: gradients of workers of one host are sent to the servers as one sum. Steps:
//  1. worker -> workers of its host   kMemory       once: its slots, in memory that they share
//  2. worker -> coordinator           kPushReport   with the slot that holds the payload
//  3. coordinator -> servers          kFire         names the node's sum in place of its parts
//     coordinator -> node's head      kSum          make that sum (the head: its lowest worker
//     rank)
//  4. head -> servers                 kPush         transfer: the sum
// With a push tree (sched/plan/push_tree.hpp) some heads send their sums to another node's head,
// in pieces (kPiece), and that head adds them to its own; the coordinator's orders say which. When
// a head of a sum is lost, all sums below the same head of the servers are ordered again, with the
// next incarnation, on the way that is left; orders that have not been carried out to their end are
// dropped for the new ones, or without new ones (kDrop).
// Parameters come down the tree without orders: every piece that a server sends a head (kPassOn)
// says who gets it from there. When a head is lost, servers send to the workers behind it.
// A worker reuses a slot when it has parameters of the version that contains the slot's gradient,
// or when the push is refused (kFree): then no server needs the sum any more. So when a head is
// lost, another worker of the host replaces it and computes the same sums again.
namespace cohort {

enum class NodeMessage : std::uint16_t {
    kMemory = static_cast<std::uint16_t>(MessageKind::kNodeFirst),
    kSum,
    kFree,
    kPiece,  ///< transfer from another node: a piece of its sum
    kDrop,
    kPassOn,  ///< transfer from a server or another node: a piece of parameters
    kEnd      ///< from the rank itself: no more orders follow
};

/// A worker's slots: memory that its host's ranks open by its process and descriptor.
struct NodeMemoryNote {
    std::int32_t worker = 0;
    std::int32_t descriptor = -1;
    auto fields() { return std::tie(worker, descriptor); }
};

struct NodeTerm {
    PushId push;
    std::int32_t slot = 0;
    double coefficient = 0;
    auto fields() { return std::tie(push, slot, coefficient); }
};

/// A sum that another rank sends.
struct NodeInput {
    PushId sum;
    std::int32_t rank = 0;
    auto fields() { return std::tie(sum, rank); }
};

/// Order to sum these terms, then the inputs, and to send the sum as `sum`.
struct NodeSumOrder {
    PushId sum;
    std::vector<NodeTerm> terms;  ///< in the order in which they are summed
    ShardLayout layout = {};      ///< that the sum is cut by for the servers
    std::vector<NodeInput> inputs = {};
    std::int32_t to = -1;  ///< rank of another node; -1: all servers
    PushId top = {};       ///< the sum that this one becomes part of on the servers, or is
    Work work = Work::kGradient;
    auto fields() { return std::tie(sum, terms, layout, inputs, to, top, work); }
};

/// A sum is not to be made, nor what becomes part of it.
struct NodeDropOrder {
    PushId top = {};
    bool all = false;  ///< no sum that was ordered so far: the rank comes back, others make them
    auto fields() { return std::tie(top, all); }
};

/// Header of a transfer between nodes: floats [n i / C, n (i + 1) / C) of a sum of n floats in
/// ShardedLayout, for piece i of C.
struct NodePieceHeader {
    PushId sum;
    std::int32_t piece = 0;
    auto fields() { return std::tie(sum, piece); }
};

/// Header of a piece of parameters. The first stop is the receiver; the others are behind it.
struct PassOnHeader {
    ParametersHeader parameters;  ///< for no worker yet
    std::vector<ParametersStop> stops;
    auto fields() { return std::tie(parameters, stops); }
};

/// A stop and all that get parameters from it, as a list of its own.
[[nodiscard]] inline std::vector<ParametersStop> stops_from(
    const std::vector<ParametersStop>& stops, std::size_t first) {
    std::vector<ParametersStop> some;
    std::vector<std::int32_t> place(stops.size(), -1);  // in the new list
    for (std::size_t at = first; at < stops.size(); ++at) {
        const std::int32_t from = stops[at].from;
        const std::int32_t above = from < 0 ? -1 : place[static_cast<std::size_t>(from)];
        if (at == first || above >= 0) {
            place[at] = static_cast<std::int32_t>(some.size());
            some.push_back(stops[at]);
            some.back().from = above;
        }
    }
    return some;
}

/// The rank's own push in this slot is not used.
struct NodeFreeOrder {
    PushId push;
    std::int32_t slot = 0;
    auto fields() { return std::tie(push, slot); }
};

/// The sum of a node's pushes for one update is a push itself: its "worker" is -1 - node, its
/// sequence the version after the update. When the rank that computes the sum is lost, another rank
/// of the node computes it again, with the same bits, under the next incarnation; servers use the
/// sum that is complete first.
[[nodiscard]] inline PushId node_sum(int node, std::int64_t version,
                                     std::uint32_t incarnation = 0) noexcept {
    return {.worker = -1 - node,
            .incarnation = incarnation,
            .sequence = static_cast<std::uint64_t>(version)};
}
[[nodiscard]] inline bool is_node_sum(const PushId& push) noexcept {
    return push.worker < 0;
}
[[nodiscard]] inline int node_of_sum(const PushId& push) noexcept {
    return -1 - push.worker;
}
/// A push of a worker, or a node's sum whatever its incarnation.
[[nodiscard]] inline bool same_push(const PushId& a, const PushId& b) noexcept {
    return is_node_sum(a) ? a.worker == b.worker && a.sequence == b.sequence : a == b;
}

}  // namespace cohort
