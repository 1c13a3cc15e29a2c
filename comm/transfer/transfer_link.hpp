#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "cohort/comm/messenger.hpp"
#include "comm/base/doorbell.hpp"
#include "comm/transfer/control.hpp"
#include "comm/transfer/pacer.hpp"

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
    std::function<void(int)> heard;  ///< called with the sender of every chunk that is received
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

/// Chunks of a transfer that are in flight at once, at most.
inline constexpr int kChunksInFlight = 4;

}  // namespace cohort
