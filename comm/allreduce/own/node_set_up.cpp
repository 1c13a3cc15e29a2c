#include "comm/allreduce/own/node_set_up.hpp"

#include <algorithm>

#include "comm/allreduce/own/message_stream.hpp"
#include "comm/allreduce/set_up.hpp"

namespace cohort {

NodeGroups::NodeGroups(const AllReduceSetting& setting) {
    std::vector<int> known;
    for (std::size_t member = 0; member < setting.nodes.size(); ++member) {
        const auto found = std::find(known.begin(), known.end(), setting.nodes[member]);
        const auto index = static_cast<std::size_t>(found - known.begin());
        if (found == known.end()) {
            known.push_back(setting.nodes[member]);
            members.emplace_back();
        }
        members[index].push_back(static_cast<int>(member));
        if (static_cast<int>(member) == setting.self) {
            own = static_cast<int>(index);
        }
    }
}

namespace {

void take_memory(const AllReduceSetting& setting, const NodeShape& shape, int descriptor,
                 NodeMemory& memory, SetUpRecord& own) {
    const NodeLayout layout(shape);
    try {
        if (shape.self != 0) {
            const auto leader = static_cast<std::size_t>(setting.rank_of(shape.local[0]));
            memory = NodeMemory::open(setting.comm.network.map().ranks[leader].pid, descriptor,
                                      layout.bytes);
        } else {
            memory.reserve(0, layout.buffers);
        }
        memory.reserve(layout.member_offset(shape.self), layout.member_bytes());
    } catch (const DeviceError& error) {
        own.set_error(error.what());
    }
}

}  // namespace

// 1. The first member of each node creates the node's memory. 2. All members learn of it, and of
// failures. 3. The others open it, and every member reserves its own part. 4. All members learn of
// failures. 5. The descriptor through which it was opened is closed.
NodeSetUp set_up_node(const AllReduceSetting& setting, const NodeGroups& groups,
                      const NodeShape& shape) {
    SetUpRecord own = first_record(setting);
    NodeSetUp made;
    try {
        if (shape.self == 0) {
            made.memory = NodeMemory::create(NodeLayout(shape).bytes);
            own.descriptor = made.memory.descriptor();
        }
    } catch (const DeviceError& error) {
        own.set_error(error.what());
    }
    const auto records = gather_checked(setting, own);
    made.tag = take_collective(setting, records) * MessageStream::kTags;
    take_memory(setting, shape, records[static_cast<std::size_t>(groups.local()[0])].descriptor,
                made.memory, own);
    gather_checked(setting, own);
    made.memory.close_descriptor();
    return made;
}

}  // namespace cohort
