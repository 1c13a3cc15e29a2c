#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "cohort/comm/world.hpp"
#include "comm/allreduce/all_reduce.hpp"

namespace cohort {

/// Collectives over all ranks that a launcher started, for frameworks with loops of their own
/// (torch.distributed). One thread at a time calls them, in the same order on all ranks. A lost
/// rank, but for rank 0, whose loss ends the processes of all others, is a PeerError that names it.
///
/// Sums go through the ring (in one host: shared memory), see AllReduce. All else is an exchange of
/// bytes by the messenger's transfers.
class Collectives final : public TransferSink {
public:
    using Bytes = std::vector<std::byte>;
    struct Outgoing {
        int to = 0;  ///< rank, not this one
        std::span<const std::byte> bytes;
    };

    /// Starts MPI where a launcher started ranks. Collective. @param limit_s  a wait for another
    /// rank that takes longer ends the processes of all ranks, with a line that names it
    /// Errors: UsageError, PeerError.
    explicit Collectives(double limit_s);
    Collectives(const Collectives&) = delete;
    Collectives& operator=(const Collectives&) = delete;
    /// Only after finish(), and where may_be_destroyed().
    ~Collectives() override = default;

    [[nodiscard]] const RankMap& map() const noexcept { return world_->map(); }
    [[nodiscard]] int rank() const noexcept { return world_->rank(); }

    /// Every value becomes the sum over the ranks. Errors: PeerError; UsageError when the ranks sum
    /// different numbers of values in buffers of one size (they grow by an eighth). In others the
    /// ranks wait for each other until the limit; at its half each logs what it sums.
    /// Cost per rank: 2 (n-1)/n of the bytes between nodes, n nodes; at most 1/8 more are summed.
    void sum(std::span<float> values);
    /// Sends bytes to some ranks and waits for those of others; a step that has nothing to send or
    /// to receive counts, too.
    /// @param name  of the collective, the same on both ends  @param from  ranks, not this one
    /// @return what they sent, in the order of `from`. Errors: PeerError; UsageError when another
    /// rank is in another collective.
    [[nodiscard]] std::vector<Bytes> exchange(const std::string& name,
                                              const std::vector<Outgoing>& outgoing,
                                              const std::vector<int>& from);

    /// Whether a rank was lost.
    [[nodiscard]] bool lost_any() const;
    /// Waits for all ranks that live and ends MPI. Collective.
    void finish();
    /// After finish(): false where MPI may still write into this object's memory.
    [[nodiscard]] bool may_be_destroyed() const noexcept { return !world_; }
    /// Ends the processes of all ranks because of this one, with this exit code.
    [[noreturn]] void abort(int code, const std::string& reason);

private:
    /// Sender and number of its collective.
    using Key = std::pair<int, std::uint64_t>;

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    void sum_piece(std::span<float> values);
    [[nodiscard]] std::vector<int> all_ranks() const;
    void check_members(const std::string& name) const;
    [[nodiscard]] Bytes take(const std::string& name, int from);

    std::unique_ptr<World> world_;
    std::map<std::int64_t, std::unique_ptr<AllReduce>> sums_;  ///< by number of floats
    std::uint64_t count_ = 0;                                  ///< of collectives begun
    std::uint64_t rounds_ = 0;                                 ///< of sums begun
    std::mutex mutex_;
    std::map<Key, Bytes> incoming_;   ///< being received, or received; under the mutex
    std::map<Key, Message> arrived_;  ///< whose bytes are complete
};

}  // namespace cohort
