#include "comm/allreduce/own/message_stream.hpp"

#include "comm/base/communicators.hpp"

namespace cohort {

MessageRequest MessageStream::send(const void* data, std::uint64_t bytes, int rank, int tag) {
    // MPI only reads it.
    auto message = std::make_shared<StreamMessage>(StreamMessage{
        .data = const_cast<void*>(data),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        .bytes = bytes,
        .rank = rank,
        .tag = tag_ + tag});
    sends_.push_back(message);
    post_due();
    return message;
}

MessageRequest MessageStream::receive(void* data, std::uint64_t bytes, int rank, int tag) {
    auto message = std::make_shared<StreamMessage>(
        StreamMessage{.data = data, .bytes = bytes, .rank = rank, .tag = tag_ + tag});
    receives_.push_back(message);
    post_due();
    return message;
}

/// Messages of one tag match in order, so they leave in order.
void MessageStream::post_due() {
    Pacer& pacer = comm_.network.pacer;
    while (!sends_.empty() && pacer.may_send(sends_.front()->bytes)) {
        post_send(*sends_.front());
        sends_.pop_front();
    }
    while (!receives_.empty() && pacer.may_receive(receives_.front()->bytes)) {
        post_receive(*receives_.front());
        receives_.pop_front();
    }
}

void MessageStream::post_send(StreamMessage& message) {
    check_mpi(MPI_Isend(message.data, mpi_count(message.bytes), MPI_BYTE, message.rank, message.tag,
                        comm_.network.comms.ring, &message.request));
    message.posted = true;
    comm_.network.traffic.sent(message.bytes, 1);
    comm_.network.bells.ring(message.rank);
}

void MessageStream::post_receive(StreamMessage& message) {
    check_mpi(MPI_Irecv(message.data, mpi_count(message.bytes), MPI_BYTE, message.rank, message.tag,
                        comm_.network.comms.ring, &message.request));
    message.posted = true;
    comm_.network.traffic.received(message.bytes, 1);
}

bool MessageStream::ended(MessageRequest& request) {
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

bool MessageStream::received(MessageRequest& request) {
    if (!request) {
        return true;
    }
    const int sender = request->rank;
    if (!ended(request)) {
        return false;
    }
    comm_.network.control->heard(sender);
    return true;
}

}  // namespace cohort
