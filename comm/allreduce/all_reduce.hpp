#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/core/error.hpp"
#include "cohort/core/wire.hpp"
#include "cohort/core/words.hpp"
#include "cohort/tensor/device.hpp"

namespace cohort {

/// How floats are summed over ranks.
enum class AllReduceAlgorithm : std::uint8_t {
    kAuto,     ///< kNccl where every member has a GPU of its own and NCCL can be set up, else the
               ///< faster of kRing and kMpi, measured at the start
    kRing,     ///< own ring between nodes, shared memory within a node
    kOrdered,  ///< own, every sum in member order: the same bits however ranks are placed
    kMpi,      ///< MPI_Iallreduce
    kNccl      ///< NCCL, between GPUs: buffers in device memory
};

template <>
inline constexpr auto kWords<AllReduceAlgorithm> =
    std::to_array<std::string_view>({"auto", "ring", "ordered", "mpi", "nccl"});
/// Errors: UsageError naming the choices.
[[nodiscard]] AllReduceAlgorithm parse_all_reduce(std::string_view text);

/// An all-reduce could not be set up because a member was lost. An expected outcome: set up another
/// one over the remaining ranks.
struct RingBroken : PeerError {
    using PeerError::PeerError;
};

/// Whose loss breaks an all-reduce besides that of its members, and where this member's floats lie.
struct AllReduceScope {
    /// World ranks: when one of them is lost, no member needs the sums.
    std::vector<int> watched;
    /// Epoch of the membership (see Membership) in which the members were chosen: a rank that was
    /// lost since then breaks the all-reduce even if it is a member again. Nothing: the current
    /// one.
    std::optional<std::uint64_t> epoch = std::nullopt;
    /// kNccl: the device of this member's buffer, and the stream in whose order its parts become
    /// final (the replica's). Both outlive the all-reduce. Null: kNccl cannot be used, kAuto does
    /// without it.
    Device* device = nullptr;
    Stream* stream = nullptr;
};

struct AllReduceOptions {
    AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;
    std::int64_t bucket_bytes = 4 << 20;
    /// Node of each member, to treat ranks of one host as if they were on several; empty: the real
    /// placement. Members on one node must share a host.
    std::vector<int> nodes;
    AllReduceScope scope = {};
    /// kBf16: what goes between nodes is rounded, sums are f32; kAuto is kRing then, others refuse.
    Wire wire = Wire::kF32;
};

/// What a member sends to all others along with its floats in every round. Only the caller knows
/// what the bytes mean.
using SummaryBytes = std::array<std::byte, 192>;

template <class Summary>
[[nodiscard]] SummaryBytes pack_summary(const Summary& summary) {
    static_assert(std::is_trivially_copyable_v<Summary> && sizeof(Summary) <= sizeof(SummaryBytes));
    SummaryBytes bytes{};
    std::memcpy(bytes.data(), &summary, sizeof summary);
    return bytes;
}

template <class Summary>
[[nodiscard]] Summary unpack_summary(const SummaryBytes& bytes) {
    static_assert(std::is_trivially_copyable_v<Summary> && sizeof(Summary) <= sizeof(SummaryBytes));
    Summary summary;
    std::memcpy(&summary, bytes.data(), sizeof summary);
    return summary;
}

/// What AllReduce::wait() returned, as the type that was packed.
template <class Summary>
[[nodiscard]] std::optional<std::vector<Summary>> unpack_summaries(
    const std::optional<std::vector<SummaryBytes>>& packed) {
    if (!packed) {
        return std::nullopt;
    }
    std::vector<Summary> summaries;
    for (const SummaryBytes& bytes : *packed) {
        summaries.push_back(unpack_summary<Summary>(bytes));
    }
    return summaries;
}

/// What becomes of the rest that Wire::kBf16 rounded away in a round.
enum class RoundRest : std::uint8_t {
    kCarried,   ///< it is added in the next round
    kReturned,  ///< the round's sums are not used: what it had added is added again
    kForgotten  ///< the next round sums something else
};

struct AllReduceTimes {
    double exchange_s = 0;  ///< from the first bucket that was ready to the end of the round
    double exposed_s = 0;   ///< the part of exchange_s that the caller spent in wait()
};

/// Sums float buffers over a fixed list of ranks, round after round, in buckets that leave while
/// the rest is still being computed. The interface of all back ends (and of test doubles). One
/// thread per rank calls it.
class AllReduce {
public:
    AllReduce() = default;
    AllReduce(const AllReduce&) = delete;
    AllReduce& operator=(const AllReduce&) = delete;
    virtual ~AllReduce() = default;

    /// Starts round `round` (the same number on all members, ascending) and returns the buffer to
    /// write this member's contribution to, [floats].
    [[nodiscard]] virtual std::span<float> begin(std::uint64_t round) = 0;
    /// [begin, end) of the buffer is final. Buckets leave from the end of the buffer to its start,
    /// each as soon as it and all buckets behind it are final.
    virtual void ready(std::int64_t begin, std::int64_t end) = 0;
    /// All of the buffer is final; submits this member's summary.
    virtual void finish(const SummaryBytes& summary) = 0;
    /// Waits for the round's end. Afterwards the buffer holds the sums until the round after the
    /// next begins.
    /// @return the summaries of all members in order; nothing when a member, or a watched rank, was
    /// excluded from the job before the round was over on this rank: the buffer is undefined, and
    /// this object can only be destroyed. Other members may have completed the round.
    [[nodiscard]] virtual std::optional<std::vector<SummaryBytes>> wait() = 0;

    /// What becomes of the last round's rest, before the next one begins; the same on all members.
    /// Without a call it is carried.
    virtual void set_rest(RoundRest /*rest*/) {}

    /// Of the last round.
    [[nodiscard]] virtual AllReduceTimes times() const noexcept { return {}; }
    /// The algorithm in use, after kAuto was decided.
    [[nodiscard]] virtual AllReduceAlgorithm algorithm() const noexcept {
        return AllReduceAlgorithm::kRing;
    }
    /// The buffer is memory of AllReduceScope::device: work queued on AllReduceScope::stream before
    /// ready() writes it, and work queued there after wait() reads it.
    [[nodiscard]] bool on_device() const noexcept {
        return algorithm() == AllReduceAlgorithm::kNccl;
    }
};

/// Collective over `members` (world ranks, in the order of sums). @param floats per round, > 0
/// Errors: UsageError when this rank is no member; DeviceError when memory is short; RingBroken
/// when a member, or a watched rank, is excluded (see Membership) before all members have come.
/// Cost per member and round: 2 (n-1)/n of the bytes between nodes, n nodes.
[[nodiscard]] std::unique_ptr<AllReduce> make_all_reduce(World& world, std::vector<int> members,
                                                         std::int64_t floats,
                                                         const AllReduceOptions& options);

/// Makes an all-reduce as make_all_reduce() does, or in tests one that needs no ranks.
using AllReduceFactory = std::function<std::unique_ptr<AllReduce>(
    const std::vector<int>& members, std::int64_t floats, const AllReduceScope& scope)>;

/// All-reduces of `world`, which must outlive them; `options` but for their scope.
[[nodiscard]] AllReduceFactory all_reduce_factory(World& world, const AllReduceOptions& options);

/// Of one member: its own contribution is the sum.
[[nodiscard]] std::unique_ptr<AllReduce> make_solo_all_reduce(std::int64_t floats);

}  // namespace cohort
