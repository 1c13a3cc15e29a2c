#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "comm/base/doorbell.hpp"
#include "comm/transfer/requests.hpp"

namespace cohort {

using Instant = std::chrono::steady_clock::time_point;

enum class PacketType : std::uint8_t {
    kMessage,     ///< for a mailbox
    kTransfer,    ///< announces a transfer
    kHeartbeat,   ///< nothing to say
    kArrived,     ///< agreement: to rank 0
    kAgreed,      ///< agreement: from rank 0
    kAbort,       ///< the job ends
    kAbortSeen,   ///< answers kAbort: logged and recorded
    kMembership,  ///< from rank 0: the excluded ranks
    kSuspect,     ///< to rank 0: a rank seems to be lost
    kProbe,       ///< from rank 0 to an excluded rank: does it still run?
    kProbeSeen,   ///< answers kProbe
    kSuccession   ///< a SuccessionNote
};

/// What every control message begins with; the body follows.
struct PacketHeader {
    PacketType type = PacketType::kHeartbeat;
    Port from = Port::kWorker;
    Port to = Port::kWorker;
    ChunkOrder order = ChunkOrder::kForward;
    std::uint16_t kind = 0;
    std::uint16_t unused = 0;
    std::uint32_t tag = 0;       ///< transfer: of its chunks
    std::uint32_t sequence = 0;  ///< agreement: which; probe: epoch of the exclusion
    std::uint64_t bytes = 0;     ///< transfer: size
};

struct Packet {
    int source = 0;
    PacketHeader header;
    std::vector<std::byte> body;
};

/// Body of kSuspect.
struct Suspect {
    int rank = 0;
    bool dead = false;
    std::string reason;
    auto fields() { return std::tie(rank, dead, reason); }
};

/// What was moved, counted on the communication thread, read anywhere.
struct Traffic {
    std::atomic<std::uint64_t> bytes_sent{0};
    std::atomic<std::uint64_t> bytes_received{0};
    std::atomic<std::uint64_t> messages_sent{0};
    std::atomic<std::uint64_t> messages_received{0};

    void sent(std::uint64_t bytes, std::uint64_t messages) noexcept {
        bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
        messages_sent.fetch_add(messages, std::memory_order_relaxed);
    }
    void received(std::uint64_t bytes, std::uint64_t messages) noexcept {
        bytes_received.fetch_add(bytes, std::memory_order_relaxed);
        messages_received.fetch_add(messages, std::memory_order_relaxed);
    }
};

/// Control messages between ranks: in order, of any size an MPI message may have. To be used on
/// the communication thread.
class ControlChannel {
public:
    ControlChannel(MPI_Comm comm, int ranks, Doorbells& bells, Traffic& traffic);

    void send(int rank, const PacketHeader& header, std::span<const std::byte> body = {});
    /// Hands what has arrived to `deliver`, in the order of each sender. True when anything moved.
    bool poll(const std::function<void(Packet&&)>& deliver);
    /// Nothing is being sent or received, but for abandoned ones.
    [[nodiscard]] bool quiet() const noexcept;
    /// Nobody waits any more for what is in flight to or from `rank`.
    void abandon(int rank);

    [[nodiscard]] Instant last_sent(int rank) const { return last_sent_[index(rank)]; }
    [[nodiscard]] Instant last_heard(int rank) const { return last_heard_[index(rank)]; }
    /// Something else has come from that rank.
    void heard(int rank) noexcept { last_heard_[index(rank)] = std::chrono::steady_clock::now(); }
    /// This rank has not been running for a while: nobody's silence is to be counted for it.
    void forgive(std::chrono::steady_clock::duration pause, Instant now);

private:
    struct Arriving {
        int source = 0;
        std::vector<std::byte> bytes;
        MPI_Request request = MPI_REQUEST_NULL;
        bool complete = false;
        bool abandoned = false;
    };
    static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
    bool match_one();
    bool deliver_complete(const std::function<void(Packet&&)>& deliver);

    MPI_Comm comm_;
    Doorbells& bells_;
    Traffic& traffic_;
    RequestPool sends_;
    std::deque<std::unique_ptr<Arriving>> arriving_;  // in the order of matching
    std::vector<Instant> last_sent_;
    std::vector<Instant> last_heard_;
};

}  // namespace cohort
