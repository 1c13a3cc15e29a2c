#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ring_engine.hpp"
#include "ring_node.hpp"

namespace cohort {

/// What a rank does with buckets between nodes. On the communication thread, but for the
/// constructor.
class BetweenNodes {
public:
    BetweenNodes() = default;
    BetweenNodes(const BetweenNodes&) = delete;
    BetweenNodes& operator=(const BetweenNodes&) = delete;
    virtual ~BetweenNodes() = default;

    /// One step of a round. @param arrived  buckets that this member has finished
    /// True: something moved.
    virtual bool advance(std::uint64_t ordinal, std::int64_t arrived) = 0;
    /// No request is under way.
    [[nodiscard]] virtual bool quiet() const = 0;
};

/// Members by node, nodes in the order of their first member.
struct NodeGroups {
    std::vector<std::vector<int>> members;  ///< member indices, ascending
    int own = 0;                            ///< index of this rank's node
    [[nodiscard]] static NodeGroups of(const RingSetting& setting);
    [[nodiscard]] int count() const noexcept { return static_cast<int>(members.size()); }
};

/// Point-to-point messages of one exchange: floats or bytes, counted and checked.
class RingMessages {
public:
    /// @param tag  first of kTags of this exchange
    RingMessages(CommThread& thread, int tag) : thread_(thread), tag_(tag) {}
    static constexpr int kTags = 16;
    static constexpr int kTailTag = kTags - 1;

    [[nodiscard]] MPI_Request send(const void* data, std::uint64_t bytes, int rank, int tag);
    [[nodiscard]] MPI_Request receive(void* data, std::uint64_t bytes, int rank, int tag);
    /// True when it has ended; a null request has.
    [[nodiscard]] static bool ended(MPI_Request& request);
    /// The same of a receive; it tells that the sender is alive.
    [[nodiscard]] bool received(MPI_Request& request);

private:
    CommThread& thread_;
    int tag_;
};

/// kRing: the first members of the nodes form a ring. See ring_leaders.cpp.
[[nodiscard]] std::unique_ptr<BetweenNodes> make_leader_ring(const RingSetting& setting,
                                                             const NodeGroups& groups,
                                                             NodePart& node, int tag);
/// kOrdered: every member owns a segment. See ring_pairs.cpp.
[[nodiscard]] std::unique_ptr<BetweenNodes> make_ordered_pairs(const RingSetting& setting,
                                                               const NodeGroups& groups,
                                                               NodePart& node, int tag);
/// The first members of the nodes tell each other the tails of theirs. See ring_tails.cpp.
[[nodiscard]] std::unique_ptr<BetweenNodes> make_node_tails(const RingSetting& setting,
                                                            const NodeGroups& groups,
                                                            NodePart& node, int tag);

}  // namespace cohort
