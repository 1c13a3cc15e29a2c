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

/// A transfer as its sender sees it.
class Outgoing final : public OutgoingTransfer {
public:
    Address to;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
    ChunkPlan plan;
    PacketHeader header;
    std::vector<std::byte> body;
    std::function<void()> changed;  ///< called after a release, on any thread

    void release(std::uint64_t bytes) override;
    [[nodiscard]] bool done() const override { return done_.load(); }
    [[nodiscard]] std::uint64_t released() const noexcept { return released_.load(); }
    void finish();

    std::uint64_t next = 0;   ///< chunk to start, communication thread only
    std::uint64_t left = 0;   ///< chunks not yet sent, communication thread only
    int in_flight = 0;        ///< communication thread only
    bool left_alone = false;  ///< its receiver was lost meanwhile, communication thread only

private:
    std::atomic<std::uint64_t> released_{0};
    std::atomic<bool> done_{false};
};

/// Where messages and transfers of this rank end: by port.
struct Ports {
    std::array<Mailbox, kPorts> mailboxes;
    std::array<std::atomic<TransferSink*>, kPorts> sinks{};

    [[nodiscard]] Mailbox& mailbox(Port port) { return mailboxes[static_cast<std::size_t>(port)]; }
    [[nodiscard]] std::atomic<TransferSink*>& sink(Port port) {
        return sinks[static_cast<std::size_t>(port)];
    }
};

/// Moves the bytes of transfers, a few chunks of each at a time, straight from the sender's into
/// the sink's memory. To be used on the communication thread.
///  1. sender: the announcement, with size, order and a tag that no other transfer to that rank
///     has at that time
///  2. receiver: asks the sink for memory, posts the first chunks
///  3. sender: sends chunks as they are released; both keep kInFlight chunks going
///  4. receiver: after the last chunk the announcement goes to the mailbox
class Transfers {
public:
    static constexpr int kInFlight = 4;

    /// @param comm MPI_COMM_NULL: transfers within this rank only
    /// @param tag_limit highest tag
    /// @param heard called with the sender of every chunk that has come
    Transfers(MPI_Comm comm, int own_rank, int tag_limit, std::uint64_t chunk_bytes, Ports& ports,
              Doorbells& bells, Traffic& traffic, Pacer& pacer, std::function<void(int)> heard);

    /// Gives `transfer` its tag and its place. For another rank the announcement (transfer.header)
    /// is then ready to be sent.
    void start(std::shared_ptr<Outgoing> transfer);
    void announced(Packet&& packet);
    /// True when anything moved.
    bool poll();
    /// Nobody waits any more for what is under way to or from `rank`; it may still end.
    void leave_alone(int rank);
    /// Chunks are on their way, or expected, but for those left alone.
    [[nodiscard]] bool moving() const noexcept { return !requests_.empty() || local_ready_; }
    /// Every transfer that was started here has left, but for those left alone.
    [[nodiscard]] bool sent_all() const noexcept;

private:
    struct Incoming {
        Message announcement;
        int source = 0;
        int tag = 0;
        Port to = Port::kWorker;
        ChunkPlan plan;
        std::span<std::byte> memory;  // null: refused
        std::uint64_t next = 0;       // chunk to post
        std::uint64_t left = 0;       // chunks not yet here
        int in_flight = 0;
        bool has_tag = false;
        bool left_alone = false;
    };
    struct Local {
        std::shared_ptr<Outgoing> transfer;
        std::span<std::byte> memory;
    };
    [[nodiscard]] int next_tag(int rank);
    std::span<std::byte> accept(Port port, const Message& announcement, std::uint64_t bytes);
    bool push(const std::shared_ptr<Outgoing>& transfer);
    bool post(const std::shared_ptr<Incoming>& transfer);
    void complete(const std::shared_ptr<Incoming>& transfer);
    bool copy(Local& local);
    bool poll_outgoing();
    bool poll_local();

    MPI_Comm comm_;
    int own_rank_;
    int tag_limit_;
    std::uint64_t chunk_bytes_;
    Ports& ports_;
    Doorbells& bells_;
    Traffic& traffic_;
    Pacer& pacer_;
    std::function<void(int)> heard_;
    RequestPool requests_;
    int last_tag_ = 0;
    bool local_ready_ = false;
    std::set<std::pair<int, int>> sending_;    // rank, tag
    std::set<std::pair<int, int>> receiving_;  // rank, tag
    std::list<std::shared_ptr<Outgoing>> outgoing_;
    std::list<std::shared_ptr<Incoming>> incoming_;
    std::list<Local> local_;
};

}  // namespace cohort
