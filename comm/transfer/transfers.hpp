#pragma once

#include <memory>

#include "comm/transfer/transfer_receiver.hpp"
#include "comm/transfer/transfer_sender.hpp"

namespace cohort {

/// Moves the bytes of transfers, a few chunks of each at a time, straight from the sender's into
/// the sink's memory. To be used on the communication thread.
///  1. sender: the announcement, with size, order and a tag that no other transfer to that rank
///     has at that time
///  2. receiver: asks the sink for memory, posts the first chunks
///  3. sender: sends chunks as they are released; both keep kChunksInFlight chunks going
///  4. receiver: after the last chunk the announcement goes to the mailbox
class Transfers {
public:
    explicit Transfers(TransferLink link) : link_(std::move(link)) {}
    Transfers(const Transfers&) = delete;
    Transfers& operator=(const Transfers&) = delete;
    ~Transfers() = default;

    /// Gives `transfer` its tag and its place. For another rank the announcement (transfer.header)
    /// is then ready to be sent.
    void start(std::shared_ptr<Outgoing> transfer) {
        transfer->plan.chunk_bytes = link_.chunk_bytes;
        transfer->left = transfer->plan.chunks();
        if (transfer->to.rank == link_.own_rank) {
            local_.start(std::move(transfer));
        } else {
            sender_.start(std::move(transfer));
        }
    }
    void announced(Packet&& packet) { receiver_.announced(std::move(packet)); }
    /// True when anything moved.
    bool poll() {
        bool moved = requests_.poll();
        moved = receiver_.poll() || moved;
        moved = sender_.poll() || moved;
        return local_.poll() || moved;
    }
    /// Nobody waits any more for chunks to or from `rank`; they may still arrive.
    void abandon(int rank) {
        requests_.abandon(rank);
        sender_.abandon(rank);
        receiver_.abandon(rank);
    }
    /// Chunks are in flight, or expected, but for abandoned ones.
    [[nodiscard]] bool moving() const noexcept { return !requests_.empty() || local_.moving(); }
    /// Every transfer that was started here has left, but for abandoned ones.
    [[nodiscard]] bool sent_all() const noexcept { return local_.empty() && sender_.sent_all(); }

private:
    TransferLink link_;
    RequestPool requests_;
    TransferSender sender_{link_, requests_};
    TransferReceiver receiver_{link_, requests_};
    LocalTransfers local_{link_};
};

}  // namespace cohort
