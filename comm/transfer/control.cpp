#include "comm/transfer/control.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cohort/core/error.hpp"
#include "comm/base/communicators.hpp"

namespace cohort {
namespace {

constexpr int kControlTag = 1;
/// Messages taken in one step before anything else gets its turn.
constexpr int kMatchesPerStep = 64;

}  // namespace

ControlChannel::ControlChannel(MPI_Comm comm, int ranks, Doorbells& bells, Traffic& traffic)
    : comm_(comm),
      bells_(bells),
      traffic_(traffic),
      last_sent_(index(ranks), std::chrono::steady_clock::now()),
      last_heard_(last_sent_) {
}

void ControlChannel::send(int rank, const PacketHeader& header, std::span<const std::byte> body) {
    auto bytes = std::make_shared<std::vector<std::byte>>(sizeof header + body.size());
    std::memcpy(bytes->data(), &header, sizeof header);
    if (!body.empty()) {
        std::memcpy(bytes->data() + sizeof header, body.data(), body.size());
    }
    const int count = mpi_count(bytes->size());
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(bytes->data(), count, MPI_BYTE, rank, kControlTag, comm_, &request));
    sends_.add(request, rank, [bytes] {});  // keeps them until they have left
    last_sent_[index(rank)] = std::chrono::steady_clock::now();
    traffic_.sent(bytes->size(), 1);
    bells_.ring(rank);
}

bool ControlChannel::poll(const std::function<void(Packet&&)>& deliver) {
    bool moved = sends_.poll();
    // A probe that finds nothing lets MPI take in what has come; the next one may find it.
    for (int found = 0, missed = 0; found < kMatchesPerStep && missed < 2;) {
        if (match_one()) {
            ++found;
            moved = true;
        } else {
            ++missed;
        }
    }
    return deliver_complete(deliver) || moved;
}

bool ControlChannel::quiet() const noexcept {
    return sends_.empty() &&
           std::ranges::all_of(arriving_, [](const auto& message) { return message->abandoned; });
}

void ControlChannel::abandon(int rank) {
    sends_.abandon(rank);
    for (const auto& arriving : arriving_) {
        arriving->abandoned = arriving->abandoned || arriving->source == rank;
    }
}

bool ControlChannel::match_one() {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status{};
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, kControlTag, comm_, &found, &message, &status));
    if (found == 0) {
        return false;
    }
    int count = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &count));
    auto arriving = std::make_unique<Arriving>();
    arriving->source = status.MPI_SOURCE;
    arriving->bytes.resize(static_cast<std::size_t>(count));
    check_mpi(MPI_Imrecv(arriving->bytes.data(), count, MPI_BYTE, &message, &arriving->request));
    last_heard_[index(arriving->source)] = std::chrono::steady_clock::now();
    arriving_.push_back(std::move(arriving));
    return true;
}

bool ControlChannel::deliver_complete(const std::function<void(Packet&&)>& deliver) {
    bool moved = false;
    std::vector<bool> waiting(last_heard_.size(), false);  // senders with an incomplete one
    std::deque<std::unique_ptr<Arriving>> left;
    std::vector<Packet> due;
    for (auto& arriving : arriving_) {
        if (!arriving->complete) {
            int done = 0;
            check_mpi(MPI_Test(&arriving->request, &done, MPI_STATUS_IGNORE));
            arriving->complete = done != 0;
            moved = moved || done != 0;
        }
        if (!arriving->complete || waiting[index(arriving->source)]) {
            waiting[index(arriving->source)] = true;
            left.push_back(std::move(arriving));
            continue;
        }
        Packet packet{.source = arriving->source};
        check_invariant(arriving->bytes.size() >= sizeof packet.header, "a whole control message");
        traffic_.received(arriving->bytes.size(), 1);
        std::memcpy(&packet.header, arriving->bytes.data(), sizeof packet.header);
        arriving->bytes.erase(arriving->bytes.begin(),
                              arriving->bytes.begin() + sizeof packet.header);
        packet.body = std::move(arriving->bytes);
        due.push_back(std::move(packet));
    }
    arriving_ = std::move(left);
    for (Packet& packet : due) {
        deliver(std::move(packet));
    }
    return moved;
}

void ControlChannel::forgive(std::chrono::steady_clock::duration pause, Instant now) {
    for (Instant& heard : last_heard_) {
        heard = std::min(heard + pause, now);
    }
}

}  // namespace cohort
