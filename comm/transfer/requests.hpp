#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace cohort {

/// MPI requests that are in flight, each with what to do at its end.
class RequestPool {
public:
    /// @param abandoned  the peer is lost: the request may stay incomplete, no rank waits for it
    void add(MPI_Request request, int peer, std::function<void()> at_end, bool abandoned = false);
    /// Calls the ends of what has completed; they may add requests. True when there was any.
    bool poll();
    /// Nobody waits for the requests of `peer` any more.
    void abandon(int peer);
    /// Nothing is in flight but abandoned ones.
    [[nodiscard]] bool empty() const noexcept { return requests_.size() == abandoned_; }

private:
    struct Entry {
        int peer = 0;
        bool abandoned = false;
        std::function<void()> at_end;
    };
    std::vector<MPI_Request> requests_;
    std::vector<Entry> entries_;
    std::size_t abandoned_ = 0;
    std::vector<int> completed_;
    std::vector<MPI_Status> statuses_;
};

}  // namespace cohort
