#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/resource_use.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// How a ring sums.
enum class AllReduceAlgorithm : std::uint8_t {
    kAuto,     ///< kNccl where every member has a GPU of its own and it can be set up, else the
               ///< faster of kRing and kMpi, measured at start
    kRing,     ///< own ring between nodes, shared memory inside
    kOrdered,  ///< own, every sum in member order: the same bits however ranks are placed
    kMpi,      ///< MPI_Iallreduce
    kNccl      ///< NCCL, between GPUs: buffers in device memory
};

/// "auto", "ring", "ordered", "mpi", "nccl". Errors: UsageError.
[[nodiscard]] AllReduceAlgorithm parse_all_reduce(std::string_view text);
[[nodiscard]] std::string_view to_text(AllReduceAlgorithm algorithm) noexcept;

/// A ring could not be made because a member was lost. An expected outcome: make another one.
struct RingBroken : PeerError {
    using PeerError::PeerError;
};

struct RingOptions {
    AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;
    std::int64_t bucket_bytes = 4 << 20;
    /// Node of each member, to treat ranks of one host as if they were on several; empty: as they
    /// lie. Members on one node must share a host.
    std::vector<int> nodes;
    /// Epoch of the membership (see Membership) that the members were chosen from: one that was
    /// lost since breaks the ring even if it is a member again. Nothing: that of this moment.
    std::optional<std::uint64_t> epoch = std::nullopt;
    /// World ranks besides the members whose loss breaks the ring too: those without whom nobody
    /// needs its sums.
    std::vector<int> watched = {};
    /// kNccl: where this member's buffer lies, and the stream in whose order its parts become final
    /// (the replica's). Both outlive the exchange; null: kNccl cannot be used, kAuto does not.
    Device* device = nullptr;
    Stream* stream = nullptr;
};

/// What a member knows of its load when it hands in its part of a round.
struct RingLoad {
    double waited_s = -1;    ///< for the end of the round before, once its own part was done; below
                             ///< 0: there was none
    double exchange_s = 0;   ///< of that round, from its first bucket that was ready to the end
    double apply_s = 0;      ///< working off its update
    double telemetry_s = 0;  ///< finding out about the load
    ResourceUse use;
    template <class Io>
    void fields(Io& io) {
        io(waited_s, exchange_s, apply_s, telemetry_s, use);
    }
};

/// What one member says at the end of a round; all members get all of them.
struct RingTail {
    std::int64_t samples = 0;
    double loss_sum = 0;
    std::int64_t correct = 0;
    std::uint64_t finite = 1;  ///< 0 voids the round for everybody
    double input_s = 0;        ///< waiting for the batch
    double compute_s = 0;      ///< own time of the step, without waiting
    double gradient_norm = 0;
    std::uint64_t skip = 0;  ///< for the members: rounds after this one up to that number do not
                             ///< begin; 0: all may
    RingLoad load;
    template <class Io>
    void fields(Io& io) {
        io(samples, loss_sum, correct, finite, input_s, compute_s, gradient_norm, skip, load);
    }
};

struct RingTimes {
    double exchange_s = 0;  ///< from the first bucket that was ready to the end of the round
    double exposed_s = 0;   ///< of it, what wait() waited
};

/// Sums float buffers over a fixed list of ranks, round after round, in buckets that leave while
/// the rest is still being computed. One thread per rank calls it. Idea: members write
/// weighted gradients into memory that the ranks of a node share; each bucket is reduce-scattered
/// and all-gathered by the communication thread (or by the waiting caller, within one node).
/// Cost per member and round: 2 (n-1)/n of the bytes between nodes, n nodes.
class RingExchange {
public:
    /// Collective over `members` (world ranks, the order of sums). @param floats per round, > 0
    /// Errors: UsageError when this rank is no member; DeviceError when memory is short; RingBroken
    /// when a member, or who is watched, is excluded (see Membership) before all have come.
    RingExchange(World& world, std::vector<int> members, std::int64_t floats,
                 const RingOptions& options);
    ~RingExchange();
    RingExchange(const RingExchange&) = delete;
    RingExchange& operator=(const RingExchange&) = delete;

    /// Starts round `round` (the same number on all members, ascending) and returns the buffer to
    /// write this member's contribution to, [floats].
    [[nodiscard]] std::span<float> begin(std::uint64_t round);
    /// [begin, end) of the buffer is final. Buckets leave from the end of the buffer to its start,
    /// each as soon as it and all behind it are final.
    void ready(std::int64_t begin, std::int64_t end);
    /// All of the buffer is final; hands in this member's tail.
    void finish(const RingTail& tail);
    /// Waits for the round's end. Afterwards the buffer holds the sums (undefined when a tail says
    /// it is not finite) until the round after the next begins.
    /// @return the tails of all members in order; nothing when a member, or who is watched, was
    /// excluded from the job before the round was over here: the buffer is undefined, and this
    /// exchange can only be destroyed. Other members may have completed the round.
    [[nodiscard]] std::optional<std::vector<RingTail>> wait();

    [[nodiscard]] RingTimes times() const noexcept;  ///< of the last round
    /// What is used, after kAuto was decided.
    [[nodiscard]] AllReduceAlgorithm algorithm() const noexcept;
    /// The buffer is memory of RingOptions::device: it is written by work queued on
    /// RingOptions::stream before ready(), and read by work queued there after wait().
    [[nodiscard]] bool on_device() const noexcept {
        return algorithm() == AllReduceAlgorithm::kNccl;
    }

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
