#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/sched/job_options.hpp"
#include "comm/transfer/node_memory.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Nodes of a job whose workers stage pushes in shared memory, see sched/plan/lease_work.hpp;
/// none with rings.
[[nodiscard]] std::vector<bool> staging_nodes(const RankMap& map, NodeStaging choice,
                                              bool deterministic);

/// Memory for pushes of one worker that all ranks of its host can read.
class SlotMemory {
public:
    static constexpr int kSlots = 2;

    /// @param floats in a push. Errors: DeviceError when memory is short.
    [[nodiscard]] static SlotMemory create(std::int64_t floats);
    /// That of another process, or this one's. Errors: DeviceError.
    [[nodiscard]] static SlotMemory open(std::int64_t pid, int descriptor, std::int64_t floats);

    [[nodiscard]] int descriptor() const noexcept { return memory_.descriptor(); }
    [[nodiscard]] std::span<float> values(int slot) const noexcept;
    /// The slot, which holds `push`, may be used again by an owner with parameters of `version`.
    void set_free(int slot, const PushId& push, std::int64_t version) const noexcept;
    [[nodiscard]] bool is_free(int slot, const PushId& push, std::int64_t version) const noexcept;

private:
    SlotMemory(NodeMemory memory, std::int64_t floats);
    [[nodiscard]] std::atomic<std::uint64_t>& state(int slot) const noexcept;

    NodeMemory memory_;
    std::int64_t floats_ = 0;
};

/// The owner's side of a worker's slots.
class NodeSlots {
public:
    explicit NodeSlots(std::int64_t floats) : memory_(SlotMemory::create(floats)) {}

    [[nodiscard]] int descriptor() const noexcept { return memory_.descriptor(); }
    /// A slot that is not read any more; nothing when there is none.
    /// @param version of the parameters that the worker has from all servers
    [[nodiscard]] std::optional<int> find_free(std::int64_t version) const noexcept;
    [[nodiscard]] std::span<float> values(int slot) const noexcept { return memory_.values(slot); }
    /// `push` is written there from now on.
    void use(int slot, const PushId& push) noexcept {
        used_[static_cast<std::size_t>(slot)] = push;
    }
    /// The push came to nothing before anybody heard of it.
    void give_back(int slot) noexcept { used_[static_cast<std::size_t>(slot)].reset(); }

private:
    SlotMemory memory_;
    std::array<std::optional<PushId>, SlotMemory::kSlots> used_;
};

}  // namespace cohort
