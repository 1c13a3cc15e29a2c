#include "comm/transfer/transfers.hpp"

#include <algorithm>
#include <cstring>

#include "cohort/core/error.hpp"
#include "comm/base/communicators.hpp"

namespace cohort {
namespace {

/// Chunks of a transfer that are in flight at once, at most.
constexpr int kChunksInFlight = 4;

/// A step of every transfer; `end` takes those of which nothing is left. True when anything moved.
template <class List, class Step, class End>
bool advance(List& transfers, const Step& step, const End& end) {
    bool moved = false;
    for (auto at = transfers.begin(); at != transfers.end();) {
        moved = step(*at) || moved;
        if ((*at)->left > 0) {
            ++at;
            continue;
        }
        end(**at);
        at = transfers.erase(at);
        moved = true;
    }
    return moved;
}

}  // namespace

std::optional<Message> Mailbox::receive(Clock::Seconds limit) {
    std::unique_lock lock(mutex_);
    const bool came =
        arrived_.wait_for(lock, limit, [this] { return !messages_.empty() || closed_; });
    if (closed_) {
        throw WorldLost(*closed_);
    }
    if (!came) {
        return std::nullopt;
    }
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
}

void Mailbox::put(Message message) {
    {
        const std::lock_guard lock(mutex_);
        messages_.push_back(std::move(message));
    }
    arrived_.notify_one();
}

void Mailbox::close(const std::string& reason) {
    {
        const std::lock_guard lock(mutex_);
        closed_ = closed_ ? closed_ : reason;
    }
    arrived_.notify_all();
}

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

void Transfers::start(std::shared_ptr<Outgoing> transfer) {
    transfer->plan.chunk_bytes = link_.chunk_bytes;
    transfer->left = transfer->plan.chunks();
    if (transfer->to.rank == link_.own_rank) {
        transfer->memory =
            link_.ports.accept(transfer->to.port, announcement(*transfer), transfer->plan.size);
        local_.push_back(std::move(transfer));
        local_moving_ = true;
        return;
    }
    do {
        last_tag_ = last_tag_ < link_.tag_limit ? last_tag_ + 1 : 1;
    } while (!tags_sent_.insert({transfer->to.rank, last_tag_}).second);
    transfer->header.tag = static_cast<std::uint32_t>(last_tag_);
    transfer->header.bytes = transfer->plan.size;
    transfer->header.order = transfer->plan.order;
    sent_.push_back(std::move(transfer));
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
    transfer->plan = {
        .size = header.bytes, .chunk_bytes = link_.chunk_bytes, .order = header.order};
    transfer->left = transfer->plan.chunks();
    transfer->memory = link_.ports.accept(header.to, transfer->announcement, header.bytes);
    if (transfer->left == 0) {
        complete(*transfer);
        return;
    }
    received_.push_back(std::move(transfer));
}

bool Transfers::send(const std::shared_ptr<Outgoing>& transfer) {
    bool started = false;
    while (transfer->in_flight < kChunksInFlight && transfer->next < transfer->plan.chunks() &&
           transfer->plan.released_for(transfer->next) <= transfer->released()) {
        const auto [begin, bytes] = transfer->plan.range(transfer->next);
        if (!link_.pacer.may_send(bytes, link_.crosses(transfer->to.rank))) {
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

bool Transfers::send_all() {
    std::set<int> leaving;  // ranks to whose Port::kNode an earlier transfer has not left
    return advance(
        sent_,
        [&](const auto& transfer) {
            const bool in_turn = transfer->to.port == Port::kNode;
            if (in_turn && leaving.contains(transfer->to.rank)) {
                return false;
            }
            const bool moved = send(transfer);
            if (in_turn && transfer->next < transfer->plan.chunks()) {
                leaving.insert(transfer->to.rank);
            }
            return moved;
        },
        [this](Outgoing& transfer) {
            tags_sent_.erase({transfer.to.rank, static_cast<int>(transfer.header.tag)});
            transfer.finish();
        });
}

void Transfers::post_chunk(const std::shared_ptr<Incoming>& transfer, std::uint64_t begin,
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

bool Transfers::receive(const std::shared_ptr<Incoming>& transfer) {
    // A sender uses a tag again as soon as its part is done; this end takes one after the other.
    if (!transfer->has_tag) {
        transfer->has_tag = tags_received_.insert({transfer->source, transfer->tag}).second;
    }
    bool started = false;
    while (transfer->has_tag && transfer->in_flight < kChunksInFlight &&
           transfer->next < transfer->plan.chunks()) {
        const auto [begin, bytes] = transfer->plan.range(transfer->next);
        if (!link_.pacer.may_receive(bytes, link_.crosses(transfer->source))) {
            break;
        }
        post_chunk(transfer, begin, bytes);
        started = true;
    }
    return started;
}

void Transfers::complete(Incoming& transfer) {
    if (transfer.has_tag) {  // an empty transfer never had the tag; another one may have it
        tags_received_.erase({transfer.source, transfer.tag});
    }
    link_.ports.mailbox(transfer.to).put(std::move(transfer.announcement));
}

Message Transfers::announcement(const Outgoing& transfer) const {
    return {.from = {.rank = link_.own_rank, .port = transfer.header.from},
            .kind = transfer.header.kind,
            .body = transfer.body};
}

bool Transfers::copy(Outgoing& transfer) {
    if (transfer.left == 0 || transfer.plan.released_for(transfer.next) > transfer.released()) {
        return false;
    }
    const auto [begin, bytes] = transfer.plan.range(transfer.next);
    if (transfer.memory.data() != nullptr) {
        std::memcpy(transfer.memory.data() + begin, transfer.data.data() + begin, bytes);
    }
    ++transfer.next;
    --transfer.left;
    return true;
}

bool Transfers::poll() {
    bool moved = requests_.poll();
    moved = advance(
                received_, [this](const auto& transfer) { return receive(transfer); },
                [this](Incoming& transfer) { complete(transfer); }) ||
            moved;
    moved = send_all() || moved;
    local_moving_ = advance(
        local_, [](const auto& transfer) { return copy(*transfer); },
        [this](Outgoing& transfer) {
            transfer.finish();
            link_.ports.mailbox(transfer.to.port).put(announcement(transfer));
        });
    return local_moving_ || moved;
}

void Transfers::abandon(int rank) {
    requests_.abandon(rank);
    for (const auto& transfer : sent_) {
        transfer->abandoned = transfer->abandoned || transfer->to.rank == rank;
    }
    for (const auto& transfer : received_) {
        transfer->abandoned = transfer->abandoned || transfer->source == rank;
    }
}

bool Transfers::sent_all() const noexcept {
    return local_.empty() &&
           std::ranges::all_of(sent_, [](const auto& transfer) { return transfer->abandoned; });
}

}  // namespace cohort
