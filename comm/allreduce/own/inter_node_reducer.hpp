#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/allreduce/back_ends.hpp"
#include "comm/allreduce/own/node_reducer.hpp"

namespace cohort {

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
    /// No request is in flight.
    [[nodiscard]] virtual bool quiet() const = 0;
};

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

/// kRing: the first members of the nodes form a ring. See leader_ring.cpp.
/// @param tag  first of MessageStream::kTags that belong to this all-reduce
[[nodiscard]] std::unique_ptr<InterNodeReducer> make_leader_ring(const AllReduceSetting& setting,
                                                                 const NodeGroups& groups,
                                                                 NodeReducer& node, int tag);
/// kOrdered: every member owns a segment. See ordered_pairs.cpp.
[[nodiscard]] std::unique_ptr<InterNodeReducer> make_ordered_pairs(const AllReduceSetting& setting,
                                                                   const NodeGroups& groups,
                                                                   NodeReducer& node, int tag);
/// The first members of the nodes tell each other the summaries of their nodes. See
/// inter_node_summaries.cpp.
[[nodiscard]] std::unique_ptr<InterNodeReducer> make_inter_node_summaries(
    const AllReduceSetting& setting, const NodeGroups& groups, NodeReducer& node, int tag);

}  // namespace cohort
