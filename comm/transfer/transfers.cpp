#include "comm/transfer/transfers.hpp"

#include <algorithm>
#include <cstring>

#include "cohort/core/error.hpp"
#include "comm/base/communicators.hpp"

namespace cohort {

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

Transfers::Transfers(MPI_Comm comm, int own_rank, int tag_limit, std::uint64_t chunk_bytes,
                     Ports& ports, Doorbells& bells, Traffic& traffic, Pacer& pacer,
                     std::function<void(int)> heard)
    : comm_(comm),
      own_rank_(own_rank),
      tag_limit_(tag_limit),
      chunk_bytes_(chunk_bytes),
      ports_(ports),
      bells_(bells),
      traffic_(traffic),
      pacer_(pacer),
      heard_(std::move(heard)) {
}

int Transfers::next_tag(int rank) {
    do {
        last_tag_ = last_tag_ < tag_limit_ ? last_tag_ + 1 : 1;
    } while (sending_.contains({rank, last_tag_}));
    sending_.insert({rank, last_tag_});
    return last_tag_;
}

std::span<std::byte> Transfers::accept(Port port, const Message& announcement,
                                       std::uint64_t bytes) {
    TransferSink* sink = ports_.sink(port).load();
    const std::span<std::byte> memory =
        sink != nullptr ? sink->accept(announcement, bytes) : std::span<std::byte>{};
    check_invariant(memory.data() == nullptr || memory.size() == bytes,
                    "a sink gives memory for all of the transfer or for none");
    return memory;
}

void Transfers::start(std::shared_ptr<Outgoing> transfer) {
    transfer->plan.chunk_bytes = chunk_bytes_;
    transfer->left = transfer->plan.chunks();
    if (transfer->to.rank == own_rank_) {
        const Message announcement{.from = {.rank = own_rank_, .port = transfer->header.from},
                                   .kind = transfer->header.kind,
                                   .body = transfer->body};
        const auto memory = accept(transfer->to.port, announcement, transfer->plan.size);
        local_.push_back({std::move(transfer), memory});
        local_ready_ = true;
        return;
    }
    transfer->header.tag = static_cast<std::uint32_t>(next_tag(transfer->to.rank));
    transfer->header.bytes = transfer->plan.size;
    transfer->header.order = transfer->plan.order;
    outgoing_.push_back(std::move(transfer));
}

void Transfers::announced(Packet&& packet) {
    auto transfer = std::make_shared<Incoming>();
    const PacketHeader& header = packet.header;
    transfer->announcement = {.from = {.rank = packet.source, .port = header.from},
                              .kind = header.kind,
                              .body = std::move(packet.body)};
    transfer->source = packet.source;
    transfer->tag = static_cast<int>(header.tag);
    transfer->to = header.to;
    transfer->plan = {.size = header.bytes, .chunk_bytes = chunk_bytes_, .order = header.order};
    transfer->left = transfer->plan.chunks();
    transfer->memory = accept(header.to, transfer->announcement, header.bytes);
    if (transfer->left == 0) {
        complete(transfer);
        return;
    }
    incoming_.push_back(std::move(transfer));
}

bool Transfers::push(const std::shared_ptr<Outgoing>& transfer) {
    bool started = false;
    while (transfer->in_flight < kInFlight && transfer->next < transfer->plan.chunks() &&
           transfer->plan.released_for(transfer->next) <= transfer->released()) {
        const auto [begin, bytes] = transfer->plan.range(transfer->next);
        if (!pacer_.may_send(bytes)) {
            break;
        }
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Isend(transfer->data.data() + begin, mpi_count(bytes), MPI_BYTE,
                            transfer->to.rank, static_cast<int>(transfer->header.tag), comm_,
                            &request));
        const auto sent = [transfer] {
            --transfer->in_flight;
            --transfer->left;
        };
        requests_.add(request, transfer->to.rank, sent, transfer->left_alone);
        traffic_.sent(bytes, 1);
        ++transfer->in_flight;
        ++transfer->next;
        started = true;
    }
    if (started) {
        bells_.ring(transfer->to.rank);
    }
    return started;
}

bool Transfers::post(const std::shared_ptr<Incoming>& transfer) {
    // A sender uses a tag again as soon as its part is done; this end takes one after the other.
    if (!transfer->has_tag) {
        transfer->has_tag = receiving_.insert({transfer->source, transfer->tag}).second;
    }
    bool started = false;
    while (transfer->has_tag && transfer->in_flight < kInFlight &&
           transfer->next < transfer->plan.chunks()) {
        const auto [begin, bytes] = transfer->plan.range(transfer->next);
        if (!pacer_.may_receive(bytes)) {
            break;
        }
        std::shared_ptr<std::vector<std::byte>> scratch;
        if (transfer->memory.data() == nullptr) {
            scratch = std::make_shared<std::vector<std::byte>>(bytes);
        }
        std::byte* target = scratch ? scratch->data() : transfer->memory.data() + begin;
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Irecv(target, mpi_count(bytes), MPI_BYTE, transfer->source, transfer->tag,
                            comm_, &request));
        const auto received = [this, transfer, scratch, count = bytes] {
            --transfer->in_flight;
            --transfer->left;
            traffic_.received(count, 1);
            heard_(transfer->source);
            bells_.ring(transfer->source);  // its send may be complete now
        };
        requests_.add(request, transfer->source, received, transfer->left_alone);
        ++transfer->in_flight;
        ++transfer->next;
        started = true;
    }
    return started;
}

void Transfers::complete(const std::shared_ptr<Incoming>& transfer) {
    if (transfer->has_tag) {  // an empty one never had it; another one may have
        receiving_.erase({transfer->source, transfer->tag});
    }
    ports_.mailbox(transfer->to).put(std::move(transfer->announcement));
}

bool Transfers::copy(Local& local) {
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

bool Transfers::poll_outgoing() {
    bool moved = false;
    for (auto it = outgoing_.begin(); it != outgoing_.end();) {
        if ((*it)->left == 0) {
            sending_.erase({(*it)->to.rank, static_cast<int>((*it)->header.tag)});
            (*it)->finish();
            it = outgoing_.erase(it);
            moved = true;
            continue;
        }
        moved = push(*it) || moved;
        ++it;
    }
    return moved;
}

bool Transfers::poll_local() {
    bool moved = false;
    for (auto it = local_.begin(); it != local_.end();) {
        moved = copy(*it) || moved;
        Outgoing& transfer = *it->transfer;
        if (transfer.left > 0) {
            ++it;
            continue;
        }
        transfer.finish();
        ports_.mailbox(transfer.to.port)
            .put({.from = {.rank = own_rank_, .port = transfer.header.from},
                  .kind = transfer.header.kind,
                  .body = std::move(transfer.body)});
        it = local_.erase(it);
    }
    local_ready_ = moved;
    return moved;
}

void Transfers::leave_alone(int rank) {
    requests_.leave_alone(rank);
    for (const auto& transfer : outgoing_) {
        transfer->left_alone = transfer->left_alone || transfer->to.rank == rank;
    }
    for (const auto& transfer : incoming_) {
        transfer->left_alone = transfer->left_alone || transfer->source == rank;
    }
}

bool Transfers::sent_all() const noexcept {
    return local_.empty() && std::all_of(outgoing_.begin(), outgoing_.end(),
                                         [](const auto& sent) { return sent->left_alone; });
}

bool Transfers::poll() {
    bool moved = requests_.poll();
    for (auto it = incoming_.begin(); it != incoming_.end();) {
        if ((*it)->left == 0) {
            complete(*it);
            it = incoming_.erase(it);
            moved = true;
            continue;
        }
        moved = post(*it) || moved;
        ++it;
    }
    moved = poll_outgoing() || moved;
    return poll_local() || moved;
}

}  // namespace cohort
