#include "train/worker/node_slots.hpp"

#include <new>
#include <utility>

#include "sched/plan/lease_work.hpp"

namespace cohort {
namespace {

constexpr std::size_t kHeader = 4096;  // bytes before the first slot: which slots may be used again

std::size_t slot_bytes(std::int64_t floats) {
    constexpr std::size_t kLine = 64;
    return (static_cast<std::size_t>(floats) * sizeof(float) + kLine - 1) / kLine * kLine;
}

std::size_t total_bytes(std::int64_t floats) {
    return kHeader + SlotMemory::kSlots * slot_bytes(floats);
}

/// Tells a slot's pushes apart; sequences restart with each incarnation.
std::uint32_t key_of(const PushId& push) {
    return static_cast<std::uint32_t>(push.sequence) ^ (push.incarnation << 24U);
}

std::uint64_t packed(const PushId& push, std::int64_t version) {
    return std::uint64_t{key_of(push)} << 32U | static_cast<std::uint32_t>(version);
}

}  // namespace

std::vector<bool> staging_nodes(const RankMap& map, NodeStaging choice, bool deterministic) {
    std::vector<NodeRanks> nodes(static_cast<std::size_t>(map.nodes()));
    for (const RankInfo& one : map.ranks) {
        NodeRanks& node = nodes.at(static_cast<std::size_t>(one.node));
        ++(one.rank < map.servers ? node.servers : node.workers);
    }
    return staging_nodes(nodes, map.servers > 0 ? choice : NodeStaging::kOff, deterministic);
}

SlotMemory::SlotMemory(NodeMemory memory, std::int64_t floats)
    : memory_(std::move(memory)), floats_(floats) {
}

SlotMemory SlotMemory::create(std::int64_t floats) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    SlotMemory made(NodeMemory::create(total_bytes(floats)), floats);
    made.memory_.reserve(0, total_bytes(floats));
    for (int slot = 0; slot < kSlots; ++slot) {
        new (&made.state(slot)) std::atomic<std::uint64_t>(0);
    }
    return made;
}

SlotMemory SlotMemory::open(std::int64_t pid, int descriptor, std::int64_t floats) {
    return {NodeMemory::open(pid, descriptor, total_bytes(floats)), floats};
}

std::span<float> SlotMemory::values(int slot) const noexcept {
    std::byte* at = memory_.data() + kHeader + static_cast<std::size_t>(slot) * slot_bytes(floats_);
    return {reinterpret_cast<float*>(at), static_cast<std::size_t>(floats_)};
}

std::atomic<std::uint64_t>& SlotMemory::state(int slot) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data())[slot];
}

void SlotMemory::set_free(int slot, const PushId& push, std::int64_t version) const noexcept {
    state(slot).store(packed(push, version), std::memory_order_release);
}

bool SlotMemory::is_free(int slot, const PushId& push, std::int64_t version) const noexcept {
    const std::uint64_t now = state(slot).load(std::memory_order_acquire);
    const auto left = static_cast<std::int32_t>(static_cast<std::uint32_t>(version) -
                                                static_cast<std::uint32_t>(now));
    return now >> 32U == key_of(push) && left >= 0;
}

std::optional<int> NodeSlots::find_free(std::int64_t version) const noexcept {
    for (int slot = 0; slot < SlotMemory::kSlots; ++slot) {
        const auto& used = used_[static_cast<std::size_t>(slot)];
        if (!used || memory_.is_free(slot, *used, version)) {
            return slot;
        }
    }
    return std::nullopt;
}

}  // namespace cohort
