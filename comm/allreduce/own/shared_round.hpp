#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/allreduce/back_ends.hpp"
#include "comm/allreduce/own/node_reducer.hpp"
#include "comm/transfer/node_memory.hpp"

namespace cohort {

/// Members by node, nodes in the order of their first member.
struct NodeGroups {
    explicit NodeGroups(const AllReduceSetting& setting);
    std::vector<std::vector<int>> members;  ///< member indices, ascending
    int own = 0;                            ///< index of this rank's node
    [[nodiscard]] int count() const noexcept { return static_cast<int>(members.size()); }
    [[nodiscard]] const std::vector<int>& on(int node) const {
        return members[static_cast<std::size_t>(node)];
    }
    /// Of this rank's node.
    [[nodiscard]] const std::vector<int>& local() const { return on(own); }
};

/// The current round of a member, as its caller and its communication thread share it.
struct SharedRound {
    /// Collective over the members. Errors: DeviceError, RingBroken.
    SharedRound(const AllReduceSetting& all, bool ordered);

    /// This member's buckets up to `buckets` are final. True: the node has a complete one now.
    bool arrive_until(std::int64_t buckets);
    void wake() const;
    void wake_neighbours() const;
    /// Of the node.
    void wake_leader() const;

    const AllReduceSetting setting;
    const NodeGroups groups;
    NodeMemory memory;
    int tag = 0;  ///< the first of MessageStream::kTags that belong to this all-reduce
    NodeReducer node;
    std::atomic<std::uint64_t> ordinal{0};
    std::atomic<std::int64_t> arrived{0};     ///< buckets
    std::atomic<std::int64_t> wanted{0};      ///< paced: buckets that are to arrive
    std::atomic<bool> paced{false};           ///< the communication thread lets buckets arrive
    std::atomic<bool> broken{false};          ///< a member was lost
    std::atomic<bool> driving{false};         ///< the caller works on blocks
    std::atomic<std::uint64_t> submitted{0};  ///< last round with a summary of this member

private:
    /// Makes the memory and sets the tag.
    [[nodiscard]] std::byte* set_up(const NodeShape& shape);
};

/// What a rank does between nodes. On the communication thread, but for the constructor.
class InterNodeReducer {
public:
    InterNodeReducer() = default;
    InterNodeReducer(const InterNodeReducer&) = delete;
    InterNodeReducer& operator=(const InterNodeReducer&) = delete;
    virtual ~InterNodeReducer() = default;

    /// One step of a round. @param arrived  buckets that this member has finished
    /// True: something moved.
    virtual bool advance(std::uint64_t ordinal, std::int64_t arrived) = 0;
    /// See AllReduce. From any thread.
    virtual void set_rest(RoundRest /*rest*/) {}
    /// No request is in flight.
    [[nodiscard]] virtual bool quiet() const = 0;
};

/// kRing: the first members of the nodes form a ring. See leader_ring.cpp.
[[nodiscard]] std::unique_ptr<InterNodeReducer> make_leader_ring(SharedRound& round);
/// kOrdered: every member owns a segment. See ordered_pairs.cpp.
[[nodiscard]] std::unique_ptr<InterNodeReducer> make_ordered_pairs(SharedRound& round);
/// The first members of the nodes tell each other the summaries of their nodes. See
/// inter_node_summaries.cpp.
[[nodiscard]] std::unique_ptr<InterNodeReducer> make_inter_node_summaries(SharedRound& round);

}  // namespace cohort
