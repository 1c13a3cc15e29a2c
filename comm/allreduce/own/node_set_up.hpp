#pragma once

#include "comm/allreduce/own/inter_node_reducer.hpp"
#include "comm/transfer/node_memory.hpp"

namespace cohort {

/// The memory that the members of a node share, and what tells one all-reduce from another.
struct NodeSetUp {
    NodeMemory memory;
    int tag = 0;  ///< the first of MessageStream::kTags
};

/// Collective over the members. Errors: DeviceError, RingBroken.
[[nodiscard]] NodeSetUp set_up_node(const AllReduceSetting& setting, const NodeGroups& groups,
                                    const NodeShape& shape);

}  // namespace cohort
