#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

namespace cohort {

/// MPI requests that are under way, each with what to do at its end.
class RequestPool {
public:
    void add(MPI_Request request, std::function<void()> at_end);
    /// Calls the ends of what has completed; they may add requests. True when there was any.
    bool poll();
    [[nodiscard]] bool empty() const noexcept { return requests_.empty(); }

private:
    std::vector<MPI_Request> requests_;
    std::vector<std::function<void()>> ends_;
    std::vector<int> completed_;
    std::vector<MPI_Status> statuses_;
};

}  // namespace cohort
