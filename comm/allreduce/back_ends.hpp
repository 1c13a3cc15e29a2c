#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "comm/allreduce/buckets.hpp"
#include "comm/world/progress_loop.hpp"

namespace cohort {

class DeviceSumsLibrary;

/// What an all-reduce is made from, the same on all members but for `self`.
struct AllReduceSetting {
    CollectiveContext& comm;
    std::vector<int> members;  ///< world ranks
    std::vector<int> watched;  ///< world ranks whose loss breaks it too
    std::vector<int> nodes;    ///< of the members
    int self = 0;              ///< member index of this rank
    Buckets buckets;
    Wire wire = Wire::kF32;
    AllReduceAlgorithm asked = AllReduceAlgorithm::kAuto;  ///< in the options
    std::uint64_t epoch = 0;  ///< of the membership in which the members were chosen

    [[nodiscard]] int rank_of(int member) const {
        return members[static_cast<std::size_t>(member)];
    }
    /// World ranks of the members without this one.
    [[nodiscard]] std::vector<int> others() const;
    /// A member, or a watched rank, that is excluded, or was excluded after `epoch`.
    [[nodiscard]] std::optional<int> lost_member() const;
    /// Throws RingBroken with the name of the lost member.
    [[noreturn]] void fail_broken() const;
    /// Throws PeerError: `member` is in round `got`, this one in round `expected`.
    [[noreturn]] void fail_rounds_differ(std::size_t member, std::uint64_t expected,
                                         std::uint64_t got) const;

    /// Bytes and messages that a member sends, and receives, for a bucket in a ring of all members.
    [[nodiscard]] std::uint64_t traffic_of(const FloatRange& bucket) const;
    /// Counts them where a library moves the bucket and does not tell what it moves.
    void count_traffic(const FloatRange& bucket) const;
};

/// kRing and kOrdered. Collective over the members. Errors: DeviceError, RingBroken.
[[nodiscard]] std::unique_ptr<AllReduce> make_shared_all_reduce(const AllReduceSetting& setting,
                                                                AllReduceAlgorithm algorithm);
/// kMpi. Collective over the members. Errors: RingBroken.
[[nodiscard]] std::unique_ptr<AllReduce> make_mpi_all_reduce(const AllReduceSetting& setting);

/// kNccl. Collective over the members. Errors: UsageError when two members have the same GPU (NCCL
/// refuses that), DeviceError without NCCL or when its set-up takes too long, RingBroken.
[[nodiscard]] std::unique_ptr<AllReduce> make_nccl_all_reduce(const AllReduceSetting& setting,
                                                              Device& device, Stream& stream);
/// The same with another library in NCCL's place.
[[nodiscard]] std::unique_ptr<AllReduce> make_device_all_reduce(const AllReduceSetting& setting,
                                                                Device& device, Stream& stream,
                                                                DeviceSumsLibrary& library);
/// Where NCCL would find a member. A member without a place cannot take part: it is on no GPU, or
/// `error` says why.
struct NcclPlace {
    std::string place;
    std::string error;
};
[[nodiscard]] NcclPlace nccl_place(const Device* device, const Stream* stream);

/// kAuto. Members that all have a GPU of their own take kNccl. Else rounds of one bucket are run
/// with kRing and kMpi; the times of the slowest member decide, so that all members choose alike.
/// Where a member knows the answer from an all-reduce of at least as many members before, it is
/// taken without measuring. Collective over the members. The first member logs the choice, the
/// times, and why not kNccl where there are GPUs.
/// @param place  of this member
/// Errors: RingBroken; UsageError when members ask for different algorithms.
[[nodiscard]] AllReduceAlgorithm choose_all_reduce(const AllReduceSetting& setting,
                                                   const NcclPlace& place);

/// kAuto, chosen and made. Where kNccl is chosen and cannot be set up on some member, all of them
/// go back to kRing or kMpi, and never try it again: the first member warns once and says why.
/// Collective over the members.
/// @param place      of this member
/// @param make_nccl  its DeviceErrors come to all members
/// Errors: DeviceError, RingBroken.
[[nodiscard]] std::unique_ptr<AllReduce> make_automatic_all_reduce(
    const AllReduceSetting& setting, const NcclPlace& place,
    const std::function<std::unique_ptr<AllReduce>()>& make_nccl);

}  // namespace cohort
