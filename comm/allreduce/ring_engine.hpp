#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/allreduce/ring_buckets.hpp"
#include "comm/allreduce/ring_exchange.hpp"
#include "comm/world/comm_thread.hpp"

namespace cohort {

class DeviceSumsLibrary;

/// How the buckets of a round become sums. The caller's thread calls these in the order of
/// RingExchange; ordinals of rounds count 1, 2, ...
class RingEngine {
public:
    RingEngine() = default;
    RingEngine(const RingEngine&) = delete;
    RingEngine& operator=(const RingEngine&) = delete;
    virtual ~RingEngine() = default;

    /// @return this member's buffer for the round
    [[nodiscard]] virtual float* begin(std::uint64_t ordinal, std::uint64_t round) = 0;
    /// The first `buckets` of this member are final; more than in the call before.
    virtual void arrive(std::int64_t buckets) = 0;
    /// This member's tail; all buckets are final.
    virtual void hand_in(const RingTail& tail) = 0;
    /// Blocks until the round is over. @return the tails of all members; nothing when a member was
    /// lost before
    [[nodiscard]] virtual std::optional<std::vector<RingTail>> wait() = 0;
};

/// What an engine is made from, the same on all members but for `self`.
struct RingSetting {
    CommThread& thread;
    std::vector<int> members;  ///< world ranks
    std::vector<int> watched;  ///< world ranks whose loss breaks it too
    std::vector<int> nodes;    ///< of the members
    int self = 0;              ///< member index of this rank
    Buckets buckets;
    AllReduceAlgorithm asked = AllReduceAlgorithm::kAuto;  ///< by the options
    std::uint64_t epoch = 0;  ///< of the membership that the members were chosen from

    /// A member, or one that is watched, that is excluded, or was so after `epoch`.
    [[nodiscard]] std::optional<int> lost_member() const {
        const std::optional<int> lost = thread.members().lost_since(members, epoch);
        return lost ? lost : thread.members().lost_since(watched, epoch);
    }
    /// Throws RingBroken, with that member's name.
    [[noreturn]] void fail_broken() const;
};

/// Bytes that a member sends, and receives, for a bucket in a ring of all members.
[[nodiscard]] inline std::uint64_t traffic_of(const RingSetting& setting,
                                              const FloatRange& bucket) {
    const auto members = static_cast<std::uint64_t>(setting.members.size());
    return 2 * (members - 1) * static_cast<std::uint64_t>(bucket.size()) * sizeof(float) / members;
}

/// One member: its contribution is the sum.
[[nodiscard]] std::unique_ptr<RingEngine> make_solo_engine(const Buckets& buckets);
/// kRing and kOrdered. Collective over the members. Errors: DeviceError, RingBroken.
[[nodiscard]] std::unique_ptr<RingEngine> make_shared_engine(const RingSetting& setting,
                                                             AllReduceAlgorithm algorithm);
/// kMpi. Collective over the members. Errors: RingBroken.
[[nodiscard]] std::unique_ptr<RingEngine> make_mpi_engine(const RingSetting& setting);

/// kNccl. Collective over the members. Errors: UsageError when two members have the same GPU (NCCL
/// refuses that), DeviceError without NCCL or when its set-up takes too long, RingBroken.
[[nodiscard]] std::unique_ptr<RingEngine> make_nccl_engine(const RingSetting& setting,
                                                           Device& device, Stream& stream);
/// The same with another library in NCCL's place.
[[nodiscard]] std::unique_ptr<RingEngine> make_device_sums_engine(const RingSetting& setting,
                                                                  Device& device, Stream& stream,
                                                                  DeviceSumsLibrary& library);
/// Where NCCL would find a member. Without a place it cannot take part: it is on no GPU, or `error`
/// says why.
struct NcclPlace {
    std::string place;
    std::string error;
};
[[nodiscard]] NcclPlace nccl_place(const Device* device, const Stream* stream);

/// kAuto. Members that all have a GPU of their own take kNccl. Else rounds of one bucket are run
/// with kRing and kMpi; the times of the slowest member decide, so that all members choose alike.
/// Collective over the members. The first member logs the times, and why not kNccl where there are
/// GPUs.
/// @param place  of this member
/// Errors: RingBroken.
[[nodiscard]] AllReduceAlgorithm choose_all_reduce(const RingSetting& setting,
                                                   const NcclPlace& place);

struct ChosenEngine {
    AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
    std::unique_ptr<RingEngine> engine;
};
/// kAuto, chosen and made. Where kNccl is chosen and cannot be set up on some member, all of them
/// go back to kRing or kMpi, and never try it again: the first member warns once and says why.
/// Collective over the members.
/// @param place      of this member
/// @param make_nccl  its DeviceErrors come to all members
/// Errors: DeviceError, RingBroken.
[[nodiscard]] ChosenEngine make_automatic_engine(
    const RingSetting& setting, const NcclPlace& place,
    const std::function<std::unique_ptr<RingEngine>()>& make_nccl);

}  // namespace cohort
