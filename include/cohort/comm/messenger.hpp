#pragma once

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"

namespace cohort {

/// The parts of a rank that get messages.
enum class Port : std::uint8_t { kCoordinator, kServer, kWorker, kNode, kMirror };
inline constexpr std::size_t kPorts = 5;

struct Address {
    int rank = 0;  ///< in the world
    Port port = Port::kWorker;
    friend auto operator<=>(const Address&, const Address&) = default;
};

/// A control message, or the announcement of a transfer. What kind and body mean belongs to the
/// two ends (see ByteWriter).
struct Message {
    Address from;
    std::uint16_t kind = 0;
    std::vector<std::byte> body;
};

/// The job has lost a rank that it cannot go on without, and the ranks that are left may go on as
/// another World: see World::survive.
struct WorldLost : PeerError {
    explicit WorldLost(const std::string& message) : PeerError(message) {}
};

/// Where messages for one port of this rank arrive, in the order in which each sender sent them; a
/// transfer's announcement arrives when all of its bytes are there. Thread safe.
class Mailbox {
public:
    /// The next message; sleeps until there is one, at most `limit`. To be called inside an
    /// OperationBoard::Wait when another rank has to send it. Errors: WorldLost after close().
    [[nodiscard]] std::optional<Message> receive(Clock::Seconds limit);
    void put(Message message);
    /// Nothing is received any more. @param reason  a sentence
    void close(const std::string& reason);

private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::optional<std::string> closed_;  ///< why
    std::deque<Message> messages_;
};

/// Receives the bytes of transfers to one port. Called on the communication thread: must be quick
/// and must not block.
class TransferSink {
public:
    TransferSink() = default;
    TransferSink(const TransferSink&) = delete;
    TransferSink& operator=(const TransferSink&) = delete;
    virtual ~TransferSink() = default;
    /// Memory for the bytes of an announced transfer; must stay valid until the announcement is in
    /// the mailbox. A null span refuses: the bytes are received and thrown away, and the
    /// announcement still goes to the mailbox.
    virtual std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) = 0;
};

/// In which order the chunks of a transfer leave.
enum class ChunkOrder : std::uint8_t {
    kForward,  ///< from the first byte on
    kBackward  ///< from the last byte on, as backward passes finish gradients
};

/// A transfer to another port. Destroying the handle does not stop the transfer. Thread safe.
class OutgoingTransfer {
public:
    virtual ~OutgoingTransfer() = default;
    /// The next `bytes` in chunk order are final and may leave (counted from the start of the
    /// transfer; never less than before). Once the sum reaches the size, all may leave.
    virtual void release(std::uint64_t bytes) = 0;
    /// All bytes have left: the memory may be written again.
    [[nodiscard]] virtual bool done() const = 0;
};

/// What this rank has moved since the start.
struct TrafficCounters {
    std::uint64_t bytes_sent = 0;      ///< to other ranks
    std::uint64_t bytes_received = 0;  ///< from other ranks
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_received = 0;
    double cpu_seconds = 0;  ///< of the communication thread
};

/// Messages and transfers between ports of ranks, the own rank included. All calls are thread safe
/// and none waits for the network.
class Messenger {
public:
    Messenger() = default;
    Messenger(const Messenger&) = delete;
    Messenger& operator=(const Messenger&) = delete;
    virtual ~Messenger() = default;

    [[nodiscard]] virtual int rank() const noexcept = 0;
    virtual void send(Address to, Port from, std::uint16_t kind, std::vector<std::byte> body) = 0;

    /// Announces and sends `data` in chunks. Order with respect to messages: the announcement is
    /// in line with the messages sent before, it arrives complete when the last chunk does.
    /// @param owner keeps `data` alive until the transfer is done; may be null when the caller
    ///              waits for done()
    /// Nothing leaves before it is released, see OutgoingTransfer::release.
    [[nodiscard]] virtual std::shared_ptr<OutgoingTransfer> start_transfer(
        Address to, Port from, std::uint16_t kind, std::vector<std::byte> body,
        std::span<const std::byte> data, ChunkOrder order, std::shared_ptr<const void> owner) = 0;

    [[nodiscard]] virtual Mailbox& mailbox(Port port) = 0;
    /// `sink` must outlive the messenger's use; null: transfers to this port are thrown away.
    /// To be set before anybody can send to the port.
    virtual void set_sink(Port port, TransferSink* sink) = 0;

    [[nodiscard]] virtual TrafficCounters counters() const = 0;

    /// To study slow networks: what this rank sends in transfers and rings, and what it receives,
    /// is no faster than that in each direction, whatever way it takes; a ring's buckets within one
    /// host become ready no faster than they would travel. Control messages are not held up.
    /// Nothing happens where there is no network.
    /// @param bytes_per_second  0: no limit. May change at any time.
    virtual void set_pace([[maybe_unused]] double bytes_per_second) {}
};

}  // namespace cohort
