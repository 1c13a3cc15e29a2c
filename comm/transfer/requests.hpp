#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace cohort {

/// MPI requests that are under way, each with what to do at its end.
class RequestPool {
public:
    /// @param left_alone  the peer is lost: it may end or not, nobody waits for it
    void add(MPI_Request request, int peer, std::function<void()> at_end, bool left_alone = false);
    /// Calls the ends of what has completed; they may add requests. True when there was any.
    bool poll();
    /// Nobody waits for the requests of `peer` any more.
    void leave_alone(int peer);
    /// Nothing is under way but what is left alone.
    [[nodiscard]] bool empty() const noexcept { return requests_.size() == left_alone_; }

private:
    struct Entry {
        int peer = 0;
        bool left_alone = false;
        std::function<void()> at_end;
    };
    std::vector<MPI_Request> requests_;
    std::vector<Entry> entries_;
    std::size_t left_alone_ = 0;
    std::vector<int> completed_;
    std::vector<MPI_Status> statuses_;
};

}  // namespace cohort
