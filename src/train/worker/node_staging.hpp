#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cohort/comm/rank_map.hpp"
#include "cohort/sched/job_options.hpp"
#include "cohort/train/options.hpp"
#include "comm/transfer/node_memory.hpp"
#include "core/tensor/buffer_pool.hpp"
#include "layers/optim/weighted_sum.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/protocol_node.hpp"
#include "train/worker/parameter_relay.hpp"
#include "train/worker/piece_inbox.hpp"
#include "train/worker/servers/worker_parameters.hpp"

namespace cohort {

/// Nodes of a job whose workers stage pushes in shared memory, see sched/plan/lease_work.hpp;
/// none with rings.
[[nodiscard]] std::vector<bool> staging_nodes(const RankMap& map, NodeStaging choice,
                                              bool deterministic);

/// Nodes whose workers have slots: those that stage, and with a push tree all.
[[nodiscard]] std::vector<bool> slot_nodes(const RankMap& map, const TrainOptions& options);
/// Pieces of sums between nodes, the same on all ranks: sums of groups travel whole.
[[nodiscard]] int tree_pieces(const TrainOptions& options, std::int64_t floats);

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

/// Rounds a node's sums when they leave (Wire::kBf16): what is rounded away is added to the next
/// sum of the same kind. A sum that is made again after a loss is rounded by itself.
class SumRounding {
public:
    SumRounding(Wire wire, std::int64_t floats) : wire_(wire), floats_(floats) {}

    [[nodiscard]] Wire wire() const noexcept { return wire_; }
    /// Floats of memory for a sum and, behind it, what leaves of it.
    [[nodiscard]] std::int64_t memory() const noexcept {
        return floats_ + (wire_ == Wire::kBf16 ? (floats_ + 1) / 2 : 0);
    }
    /// n floats of a sum, from `at` on, are made.
    void round(const NodeSumOrder& order, float* sum, std::int64_t at, std::int64_t n);
    /// Floats [begin, end) of a sum as they leave.
    [[nodiscard]] std::span<const std::byte> leaving(const float* sum, std::int64_t begin,
                                                     std::int64_t end) const;

private:
    Wire wire_;
    std::int64_t floats_;  ///< of a sum
    std::vector<float> rest_;
    Work rest_of_ = Work::kGradient;
};

/// Makes the sums that the coordinator orders (protocol_node.hpp), in the order of versions. Cost
/// of a sum: one read of each gradient from shared memory and of each sum from another node, one
/// write, one transfer per server, or one per piece to another node. A sum for another node leaves
/// piece by piece as its inputs come; one for the servers begins to leave when all its inputs are
/// there, so that none ever stays half sent. One thread; the inbox is for the communication thread
/// too.
class NodeSums {
public:
    /// @param comm, layout  outlive it  @param pieces  of sums between nodes
    NodeSums(const CommContext& comm, const ShardedLayout& layout, int pieces, Wire wire);

    [[nodiscard]] PieceInbox& inbox() noexcept { return inbox_; }
    [[nodiscard]] bool idle() const noexcept { return line_.empty(); }
    /// Slots of a worker of the node.
    void open(const NodeMemoryNote& note);
    void add(NodeSumOrder order);
    void drop(const NodeDropOrder& order);
    void set_free(const NodeFreeOrder& order);
    /// Makes what can be made. Notes of memory and pieces come from other ranks than orders, and
    /// may be later: what the first order lacks is a wait of the operation board.
    void advance();

private:
    [[nodiscard]] std::vector<int> missing() const;
    void make_piece();
    void make_part(int piece, const std::function<void(std::int64_t end)>& made);
    void send_to_servers(const NodeSumOrder& order);
    void free_slots(const NodeSumOrder& order) const;
    void finish();

    const CommContext& comm_;
    const ShardedLayout& layout_;
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    SumRounding rounding_;
    BufferPool pool_;
    PieceInbox inbox_;
    std::map<int, SlotMemory> memory_;  ///< by worker
    std::deque<NodeSumOrder> line_;     ///< the first lacks a worker's memory, or pieces
    std::shared_ptr<float> sum_;        ///< of the first, once it is begun
    int made_ = 0;                      ///< pieces of it
    std::optional<OperationBoard::Wait> lacks_;
};

/// A worker's part in its node's staging besides its own slots: makes sums and passes parameters
/// on, on a thread of its own, because the computing thread is busy. Every worker of the node has
/// one, so that any of them can be the head.
class NodeAgent {
public:
    /// Tells the other workers of the node of this one's memory, and starts. @param comm, layout
    /// outlive it  @param worker index  @param descriptor of its slots, see NodeSlots
    /// @param pieces  of sums between nodes, the same on all ranks
    NodeAgent(const CommContext& comm, const ShardedLayout& layout, int worker, int descriptor,
              int pieces = 1, Wire wire = Wire::kF32);
    NodeAgent(const NodeAgent&) = delete;
    NodeAgent& operator=(const NodeAgent&) = delete;
    /// Carries out the orders that have come, then ends. What it has begun to send leaves.
    ~NodeAgent();

    /// Throws what has ended its thread, if something has.
    void check() const;

private:
    /// Of sums' and parameters' pieces.
    struct Sink final : TransferSink {
        Sink(const CommContext& comm, PieceInbox& sums_of_others);
        std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
        [[nodiscard]] std::vector<int> coming() const;

        std::unique_ptr<Device> device = make_cpu_device(1);
        PieceInbox& sums;
        ParameterRelay parameters;
    };
    void run() noexcept;
    void handle(const Message& message);
    void finish();

    const CommContext& comm_;
    NodeSums sums_;
    Sink sink_;
    bool ended_ = false;
    std::uint64_t waits_ = 0;
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;
    std::thread thread_;  ///< last member: starts when the others exist
};

}  // namespace cohort
