#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "comm/world/progress_loop.hpp"

namespace cohort {

/// A message that is in flight or waits for its turn; null: there is none, or it has ended.
struct StreamMessage {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    int rank = 0;
    int tag = 0;
    bool posted = false;
    MPI_Request request = MPI_REQUEST_NULL;
};
using MessageRequest = std::shared_ptr<StreamMessage>;

/// Point-to-point messages of one all-reduce: floats or bytes, counted, checked and paced. On the
/// communication thread.
class MessageStream {
public:
    /// @param tag  first of the kTags that belong to this all-reduce
    MessageStream(CollectiveContext& comm, int tag) : comm_(comm), tag_(tag) {}
    static constexpr int kTags = 16;
    static constexpr int kSummaryTag = kTags - 1;

    [[nodiscard]] MessageRequest send(const void* data, std::uint64_t bytes, int rank, int tag);
    [[nodiscard]] MessageRequest receive(void* data, std::uint64_t bytes, int rank, int tag);
    /// True when the message has ended; a null request has.
    [[nodiscard]] bool ended(MessageRequest& request);
    /// The same of a receive; a received message tells that its sender is alive.
    [[nodiscard]] bool received(MessageRequest& request);

private:
    void post_due();
    void post_send(StreamMessage& message);
    void post_receive(StreamMessage& message);

    CollectiveContext& comm_;
    int tag_;
    std::deque<MessageRequest> sends_;     ///< that wait for their turn, in order
    std::deque<MessageRequest> receives_;  ///< the same
};

}  // namespace cohort
