#include "comm/transfer/transfer_sender.hpp"

#include <algorithm>
#include <cstring>

#include "cohort/core/error.hpp"
#include "comm/base/communicators.hpp"

namespace cohort {

std::span<std::byte> Ports::accept(Port port, const Message& announcement, std::uint64_t bytes) {
    TransferSink* receiver = sink(port).load();
    const std::span<std::byte> memory =
        receiver != nullptr ? receiver->accept(announcement, bytes) : std::span<std::byte>{};
    check_invariant(memory.data() == nullptr || memory.size() == bytes,
                    "a sink gives memory for all of the transfer or for none");
    return memory;
}

std::uint64_t ChunkPlan::chunks() const noexcept {
    return size / chunk_bytes + (size % chunk_bytes != 0 ? 1 : 0);
}

std::uint64_t ChunkPlan::released_for(std::uint64_t chunk) const noexcept {
    return std::min(size, (chunk + 1) * chunk_bytes);
}

std::pair<std::uint64_t, std::uint64_t> ChunkPlan::range(std::uint64_t chunk) const noexcept {
    const std::uint64_t before = chunk * chunk_bytes;
    const std::uint64_t after = released_for(chunk);
    return {order == ChunkOrder::kForward ? before : size - after, after - before};
}

void Outgoing::release(std::uint64_t bytes) {
    std::uint64_t known = released_.load();
    while (known < bytes && !released_.compare_exchange_weak(known, bytes)) {
    }
    if (known < bytes) {
        changed();
    }
}

void Outgoing::finish() {
    owner.reset();
    done_.store(true);
}

int TransferSender::next_tag(int rank) {
    do {
        last_tag_ = last_tag_ < link_.tag_limit ? last_tag_ + 1 : 1;
    } while (!tags_.insert({rank, last_tag_}).second);
    return last_tag_;
}

void TransferSender::start(std::shared_ptr<Outgoing> transfer) {
    transfer->header.tag = static_cast<std::uint32_t>(next_tag(transfer->to.rank));
    transfer->header.bytes = transfer->plan.size;
    transfer->header.order = transfer->plan.order;
    transfers_.push_back(std::move(transfer));
}

bool TransferSender::push(const std::shared_ptr<Outgoing>& transfer) {
    bool started = false;
    while (transfer->in_flight < kChunksInFlight && transfer->next < transfer->plan.chunks() &&
           transfer->plan.released_for(transfer->next) <= transfer->released()) {
        const auto [begin, bytes] = transfer->plan.range(transfer->next);
        if (!link_.pacer.may_send(bytes)) {
            break;
        }
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Isend(transfer->data.data() + begin, mpi_count(bytes), MPI_BYTE,
                            transfer->to.rank, static_cast<int>(transfer->header.tag), link_.comm,
                            &request));
        const auto sent = [transfer] {
            --transfer->in_flight;
            --transfer->left;
        };
        requests_.add(request, transfer->to.rank, sent, transfer->abandoned);
        link_.traffic.sent(bytes, 1);
        ++transfer->in_flight;
        ++transfer->next;
        started = true;
    }
    if (started) {
        link_.bells.ring(transfer->to.rank);
    }
    return started;
}

bool TransferSender::poll() {
    bool moved = false;
    for (auto it = transfers_.begin(); it != transfers_.end();) {
        if ((*it)->left == 0) {
            tags_.erase({(*it)->to.rank, static_cast<int>((*it)->header.tag)});
            (*it)->finish();
            it = transfers_.erase(it);
            moved = true;
            continue;
        }
        moved = push(*it) || moved;
        ++it;
    }
    return moved;
}

void TransferSender::abandon(int rank) {
    for (const auto& transfer : transfers_) {
        transfer->abandoned = transfer->abandoned || transfer->to.rank == rank;
    }
}

bool TransferSender::sent_all() const noexcept {
    return std::all_of(transfers_.begin(), transfers_.end(),
                       [](const auto& transfer) { return transfer->abandoned; });
}

Message LocalTransfers::announcement(const Outgoing& transfer) const {
    return {.from = {.rank = link_.own_rank, .port = transfer.header.from},
            .kind = transfer.header.kind,
            .body = transfer.body};
}

void LocalTransfers::start(std::shared_ptr<Outgoing> transfer) {
    const auto memory =
        link_.ports.accept(transfer->to.port, announcement(*transfer), transfer->plan.size);
    transfers_.push_back({std::move(transfer), memory});
    moving_ = true;
}

bool LocalTransfers::copy(Local& local) {
    Outgoing& transfer = *local.transfer;
    if (transfer.left > 0) {
        if (transfer.plan.released_for(transfer.next) > transfer.released()) {
            return false;
        }
        const auto [begin, bytes] = transfer.plan.range(transfer.next);
        if (local.memory.data() != nullptr) {
            std::memcpy(local.memory.data() + begin, transfer.data.data() + begin, bytes);
        }
        ++transfer.next;
        --transfer.left;
    }
    return true;
}

bool LocalTransfers::poll() {
    bool moved = false;
    for (auto it = transfers_.begin(); it != transfers_.end();) {
        moved = copy(*it) || moved;
        Outgoing& transfer = *it->transfer;
        if (transfer.left > 0) {
            ++it;
            continue;
        }
        transfer.finish();
        link_.ports.mailbox(transfer.to.port).put(announcement(transfer));
        it = transfers_.erase(it);
    }
    moving_ = moved;
    return moved;
}

}  // namespace cohort
