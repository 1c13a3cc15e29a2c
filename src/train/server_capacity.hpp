#pragma once

#include <vector>

#include "cohort/optim/optimizer.hpp"
#include "cohort/sched/timing.hpp"
#include "protocol.hpp"

namespace cohort {

/// How fast servers are, from what they have done. An update goes over the parameters several times
/// and once more for each push, so the time of all passes divided by their number is that of one.
/// The slowest server counts, as it did lately. Pure.
class ServerCapacity {
public:
    ServerCapacity(int servers, OptimizerKind optimizer);

    /// @param work  since the server began
    void add(int server, const ServerWork& work);
    /// All 0 while nothing is known; push_s stays 0: what the network could carry is not seen.
    [[nodiscard]] SharedCapacity capacity() const;

private:
    struct Server {
        ServerWork last;
        double pass_s = 0;  ///< 0: not known
    };
    double passes_;  ///< of an update, without its pushes
    std::vector<Server> servers_;
};

}  // namespace cohort
