#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "comm/base/doorbell.hpp"
#include "comm/transfer/control.hpp"
#include "comm/transfer/pacer.hpp"
#include "comm/transfer/requests.hpp"

namespace cohort {

/// Where messages and transfers of this rank end: by port.
struct Ports {
    std::array<Mailbox, kPorts> mailboxes;
    std::array<std::atomic<TransferSink*>, kPorts> sinks{};

    [[nodiscard]] Mailbox& mailbox(Port port) { return mailboxes[static_cast<std::size_t>(port)]; }
    [[nodiscard]] std::atomic<TransferSink*>& sink(Port port) {
        return sinks[static_cast<std::size_t>(port)];
    }
    /// Memory for the bytes of an announced transfer, see TransferSink::accept.
    [[nodiscard]] std::span<std::byte> accept(Port port, const Message& announcement,
                                              std::uint64_t bytes);
};

/// What transfers use of this rank's network.
struct TransferLink {
    MPI_Comm comm = MPI_COMM_NULL;  ///< null: transfers within this rank only
    int own_rank = 0;
    int tag_limit = 0;  ///< highest tag
    std::uint64_t chunk_bytes = 1;
    Ports& ports;
    Doorbells& bells;
    Traffic& traffic;
    Pacer& pacer;
    std::function<bool(int)> crosses;  ///< whether a rank is on another host
    std::function<void(int)> heard;    ///< called with the sender of every chunk that is received
};

/// How a transfer is cut.
struct ChunkPlan {
    std::uint64_t size = 0;
    std::uint64_t chunk_bytes = 1;
    ChunkOrder order = ChunkOrder::kForward;

    [[nodiscard]] std::uint64_t chunks() const noexcept;
    /// Sum of the bytes of the chunks 0..chunk: how much must be released for it to leave.
    [[nodiscard]] std::uint64_t released_for(std::uint64_t chunk) const noexcept;
    /// First byte and number of bytes of a chunk.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> range(std::uint64_t chunk) const noexcept;
};

/// How far a transfer is. On the communication thread.
struct ChunkProgress {
    ChunkPlan plan;
    std::uint64_t next = 0;  ///< chunk to start
    std::uint64_t left = 0;  ///< chunks that have not ended
    int in_flight = 0;
    bool abandoned = false;  ///< the other rank was lost meanwhile
};

/// A transfer as its sender sees it.
class Outgoing final : public OutgoingTransfer, public ChunkProgress {
public:
    Address to;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
    PacketHeader header;
    std::vector<std::byte> body;
    std::function<void()> changed;  ///< called after a release, on any thread
    std::span<std::byte> memory;    ///< within this rank: the receiver's; null: refused

    void release(std::uint64_t bytes) override;
    [[nodiscard]] bool done() const override { return done_.load(); }
    [[nodiscard]] std::uint64_t released() const noexcept { return released_.load(); }
    void finish();

private:
    std::atomic<std::uint64_t> released_{0};
    std::atomic<bool> done_{false};
};

/// Moves the bytes of transfers, a few chunks of each at a time, straight from the sender's into
/// the sink's memory. To be used on the communication thread.
///  1. sender: the announcement, with size, order and a tag that no other transfer to that rank
///     has at that time
///  2. receiver: asks the sink for memory, posts the first chunks
///  3. sender: sends chunks as they are released; both keep kChunksInFlight chunks going. To
///     Port::kNode one transfer leaves after the other, so that pieces can be passed on
///  4. receiver: after the last chunk the announcement goes to the mailbox
class Transfers {
public:
    explicit Transfers(TransferLink link) : link_(std::move(link)) {}
    Transfers(const Transfers&) = delete;
    Transfers& operator=(const Transfers&) = delete;
    ~Transfers() = default;

    /// Gives `transfer` its tag and its place. For another rank the announcement (transfer.header)
    /// is then ready to be sent.
    void start(std::shared_ptr<Outgoing> transfer);
    /// Another rank announces a transfer.
    void announced(Packet&& packet);
    /// True when anything moved.
    bool poll();
    /// Nobody waits any more for chunks to or from `rank`; they may still arrive.
    void abandon(int rank);
    /// Chunks are in flight, or expected, but for abandoned ones.
    [[nodiscard]] bool moving() const noexcept { return !requests_.empty() || local_moving_; }
    /// Every transfer that was started here has left, but for abandoned ones.
    [[nodiscard]] bool sent_all() const noexcept;

private:
    /// A transfer from another rank.
    struct Incoming : ChunkProgress {
        Message announcement;
        int source = 0;
        int tag = 0;
        Port to = Port::kWorker;
        std::span<std::byte> memory;  ///< null: refused
        bool has_tag = false;
    };
    template <class Transfer>
    using List = std::list<std::shared_ptr<Transfer>>;
    using Tags = std::set<std::pair<int, int>>;  ///< rank, tag

    bool send_all();
    bool send(const std::shared_ptr<Outgoing>& transfer);
    bool receive(const std::shared_ptr<Incoming>& transfer);
    void post_chunk(const std::shared_ptr<Incoming>& transfer, std::uint64_t begin,
                    std::uint64_t bytes);
    void complete(Incoming& transfer);
    [[nodiscard]] static bool copy(Outgoing& transfer);
    [[nodiscard]] Message announcement(const Outgoing& transfer) const;

    TransferLink link_;
    RequestPool requests_;
    int last_tag_ = 0;
    Tags tags_sent_;      ///< in use
    Tags tags_received_;  ///< in use
    List<Outgoing> sent_;
    List<Incoming> received_;
    List<Outgoing> local_;  ///< within this rank
    bool local_moving_ = false;
};

}  // namespace cohort
