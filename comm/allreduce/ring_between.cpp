#include "comm/allreduce/ring_between.hpp"

#include <algorithm>

#include "comm/base/communicators.hpp"

namespace cohort {

NodeGroups NodeGroups::of(const RingSetting& setting) {
    NodeGroups groups;
    std::vector<int> known;
    for (std::size_t member = 0; member < setting.nodes.size(); ++member) {
        const auto found = std::find(known.begin(), known.end(), setting.nodes[member]);
        const auto index = static_cast<std::size_t>(found - known.begin());
        if (found == known.end()) {
            known.push_back(setting.nodes[member]);
            groups.members.emplace_back();
        }
        groups.members[index].push_back(static_cast<int>(member));
        if (static_cast<int>(member) == setting.self) {
            groups.own = static_cast<int>(index);
        }
    }
    return groups;
}

RingRequest RingMessages::send(const void* data, std::uint64_t bytes, int rank, int tag) {
    // MPI only reads it.
    auto message = std::make_shared<RingOperation>(RingOperation{
        .data = const_cast<void*>(data),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        .bytes = bytes,
        .rank = rank,
        .tag = tag_ + tag});
    sends_.push_back(message);
    post_due();
    return message;
}

RingRequest RingMessages::receive(void* data, std::uint64_t bytes, int rank, int tag) {
    auto message = std::make_shared<RingOperation>(
        RingOperation{.data = data, .bytes = bytes, .rank = rank, .tag = tag_ + tag});
    receives_.push_back(message);
    post_due();
    return message;
}

/// Messages of one tag match in order, so they leave in order.
void RingMessages::post_due() {
    Pacer& pacer = thread_.pacer();
    while (!sends_.empty() && pacer.may_send(sends_.front()->bytes)) {
        post_send(*sends_.front());
        sends_.pop_front();
    }
    while (!receives_.empty() && pacer.may_receive(receives_.front()->bytes)) {
        post_receive(*receives_.front());
        receives_.pop_front();
    }
}

void RingMessages::post_send(RingOperation& message) {
    check_mpi(MPI_Isend(message.data, mpi_count(message.bytes), MPI_BYTE, message.rank, message.tag,
                        thread_.communicators().ring, &message.request));
    message.posted = true;
    thread_.count_sent(message.bytes, 1);
    thread_.wake(message.rank);
}

void RingMessages::post_receive(RingOperation& message) {
    check_mpi(MPI_Irecv(message.data, mpi_count(message.bytes), MPI_BYTE, message.rank, message.tag,
                        thread_.communicators().ring, &message.request));
    message.posted = true;
    thread_.count_received(message.bytes, 1);
}

bool RingMessages::ended(RingRequest& request) {
    if (!request) {
        return true;
    }
    post_due();
    int done = 0;
    if (request->posted) {
        check_mpi(MPI_Test(&request->request, &done, MPI_STATUS_IGNORE));
    }
    if (done != 0) {
        request.reset();
    }
    return done != 0;
}

bool RingMessages::received(RingRequest& request) {
    if (!request) {
        return true;
    }
    const int sender = request->rank;
    if (!ended(request)) {
        return false;
    }
    thread_.heard(sender);
    return true;
}

}  // namespace cohort
