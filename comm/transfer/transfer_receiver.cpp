#include "comm/transfer/transfer_receiver.hpp"

#include <vector>

#include "comm/base/communicators.hpp"

namespace cohort {

void TransferReceiver::announced(Packet&& packet) {
    auto transfer = std::make_shared<Incoming>();
    const PacketHeader& header = packet.header;
    transfer->announcement = {.from = {.rank = packet.source, .port = header.from},
                              .kind = header.kind,
                              .body = std::move(packet.body)};
    transfer->source = packet.source;
    transfer->tag = static_cast<int>(header.tag);
    transfer->to = header.to;
    transfer->plan = {
        .size = header.bytes, .chunk_bytes = link_.chunk_bytes, .order = header.order};
    transfer->left = transfer->plan.chunks();
    transfer->memory = link_.ports.accept(header.to, transfer->announcement, header.bytes);
    if (transfer->left == 0) {
        complete(transfer);
        return;
    }
    transfers_.push_back(std::move(transfer));
}

void TransferReceiver::post_chunk(const std::shared_ptr<Incoming>& transfer, std::uint64_t begin,
                                  std::uint64_t bytes) {
    std::shared_ptr<std::vector<std::byte>> scratch;
    if (transfer->memory.data() == nullptr) {
        scratch = std::make_shared<std::vector<std::byte>>(bytes);
    }
    std::byte* target = scratch ? scratch->data() : transfer->memory.data() + begin;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(target, mpi_count(bytes), MPI_BYTE, transfer->source, transfer->tag,
                        link_.comm, &request));
    const auto received = [this, transfer, scratch, bytes] {
        --transfer->in_flight;
        --transfer->left;
        link_.traffic.received(bytes, 1);
        link_.heard(transfer->source);
        link_.bells.ring(transfer->source);  // its send may be complete now
    };
    requests_.add(request, transfer->source, received, transfer->abandoned);
    ++transfer->in_flight;
    ++transfer->next;
}

bool TransferReceiver::post(const std::shared_ptr<Incoming>& transfer) {
    // A sender uses a tag again as soon as its part is done; this end takes one after the other.
    if (!transfer->has_tag) {
        transfer->has_tag = tags_.insert({transfer->source, transfer->tag}).second;
    }
    bool started = false;
    while (transfer->has_tag && transfer->in_flight < kChunksInFlight &&
           transfer->next < transfer->plan.chunks()) {
        const auto [begin, bytes] = transfer->plan.range(transfer->next);
        if (!link_.pacer.may_receive(bytes)) {
            break;
        }
        post_chunk(transfer, begin, bytes);
        started = true;
    }
    return started;
}

void TransferReceiver::complete(const std::shared_ptr<Incoming>& transfer) {
    if (transfer->has_tag) {  // an empty transfer never had the tag; another one may have it
        tags_.erase({transfer->source, transfer->tag});
    }
    link_.ports.mailbox(transfer->to).put(std::move(transfer->announcement));
}

bool TransferReceiver::poll() {
    bool moved = false;
    for (auto it = transfers_.begin(); it != transfers_.end();) {
        if ((*it)->left == 0) {
            complete(*it);
            it = transfers_.erase(it);
            moved = true;
            continue;
        }
        moved = post(*it) || moved;
        ++it;
    }
    return moved;
}

void TransferReceiver::abandon(int rank) {
    for (const auto& transfer : transfers_) {
        transfer->abandoned = transfer->abandoned || transfer->source == rank;
    }
}

}  // namespace cohort
