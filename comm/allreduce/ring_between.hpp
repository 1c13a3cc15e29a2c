#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/allreduce/ring_engine.hpp"
#include "comm/allreduce/ring_node.hpp"

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

/// A message that is under way or waits for its turn; null: none, or it has ended.
struct RingOperation {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    int rank = 0;
    int tag = 0;
    bool posted = false;
    MPI_Request request = MPI_REQUEST_NULL;
};
using RingRequest = std::shared_ptr<RingOperation>;

/// Point-to-point messages of one exchange: floats or bytes, counted, checked and paced.
class RingMessages {
public:
    /// @param tag  first of kTags of this exchange
    RingMessages(CommThread& thread, int tag) : thread_(thread), tag_(tag) {}
    static constexpr int kTags = 16;
    static constexpr int kTailTag = kTags - 1;

    [[nodiscard]] RingRequest send(const void* data, std::uint64_t bytes, int rank, int tag);
    [[nodiscard]] RingRequest receive(void* data, std::uint64_t bytes, int rank, int tag);
    /// True when it has ended; a null request has.
    [[nodiscard]] bool ended(RingRequest& request);
    /// The same of a receive; it tells that the sender is alive.
    [[nodiscard]] bool received(RingRequest& request);

private:
    void post_due();
    void post_send(RingOperation& message);
    void post_receive(RingOperation& message);

    CommThread& thread_;
    int tag_;
    std::deque<RingRequest> sends_;     ///< that wait for their turn, in order
    std::deque<RingRequest> receives_;  ///< the same
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
