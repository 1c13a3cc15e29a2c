#include "comm/allreduce/own/shared_round.hpp"

#include <algorithm>

#include "comm/allreduce/own/message_stream.hpp"
#include "comm/allreduce/set_up.hpp"

namespace cohort {
namespace {

NodeShape shape_of(const AllReduceSetting& setting, const NodeGroups& groups, bool ordered) {
    const std::vector<int>& local = groups.local();
    NodeShape shape;
    shape.members = static_cast<int>(setting.members.size());
    shape.local = local;
    shape.self = static_cast<int>(std::ranges::find(local, setting.self) - local.begin());
    shape.buckets = setting.buckets;
    if (groups.count() > 1) {
        shape.sum = ordered ? NodeSum::kNone : NodeSum::kFirst;
    }
    return shape;
}

}  // namespace

NodeGroups::NodeGroups(const AllReduceSetting& setting) {
    std::vector<int> known;
    for (std::size_t member = 0; member < setting.nodes.size(); ++member) {
        const auto found = std::ranges::find(known, setting.nodes[member]);
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

SharedRound::SharedRound(const AllReduceSetting& all, bool ordered)
    : setting(all),
      groups(all),
      node(set_up(shape_of(all, groups, ordered)), shape_of(all, groups, ordered)) {
}

// 1. The first member of each node creates the node's memory. 2. All members learn of it, and of
// failures. 3. The others open it, and every member reserves its own part. 4. All members learn of
// failures. 5. The descriptor through which it was opened is closed.
std::byte* SharedRound::set_up(const NodeShape& shape) {
    const NodeLayout layout(shape);
    SetUpRecord own = first_record(setting);
    const auto try_step = [&](const auto& step) {
        try {
            step();
        } catch (const DeviceError& error) {
            own.set_error(error.what());
        }
        return gather_checked(setting, own);
    };
    const auto records = try_step([&] {
        if (shape.self == 0) {
            memory = NodeMemory::create(layout.bytes);
            own.descriptor = memory.descriptor();
        }
    });
    tag = take_collective(setting, records) * MessageStream::kTags;
    const int leader = groups.local()[0];
    try_step([&] {
        if (shape.self != 0) {
            const auto rank = static_cast<std::size_t>(setting.rank_of(leader));
            memory = NodeMemory::open(setting.comm.network.map().ranks[rank].pid,
                                      records[static_cast<std::size_t>(leader)].descriptor,
                                      layout.bytes);
        } else {
            memory.reserve(0, layout.buffers);
        }
        memory.reserve(layout.member_offset(shape.self), layout.member_bytes());
    });
    memory.close_descriptor();
    return memory.data();
}

bool SharedRound::arrive_until(std::int64_t buckets) {
    const bool last = node.buckets().arrive(ordinal.load(), arrived.load(), buckets);
    arrived.store(buckets);
    return last;
}

void SharedRound::wake() const {
    setting.comm.network.bells.ring_own();
}

void SharedRound::wake_neighbours() const {
    for (const int member : groups.local()) {
        if (member != setting.self) {
            setting.comm.network.bells.ring(setting.rank_of(member));
        }
    }
}

void SharedRound::wake_leader() const {
    setting.comm.network.bells.ring(setting.rank_of(groups.local()[0]));
}

}  // namespace cohort
