#include "server_capacity.hpp"

#include <algorithm>

#include "cohort/optim/update_cost.hpp"

namespace cohort {

/// With a copy for those who are released.
ServerCapacity::ServerCapacity(int servers, OptimizerKind optimizer)
    : passes_(update_passes(optimizer) + 1), servers_(static_cast<std::size_t>(servers)) {
}

void ServerCapacity::add(int server, const ServerWork& work) {
    constexpr std::int64_t kUpdates = 8;  // at least, between two looks
    constexpr double kWeight = 0.25;
    Server& one = servers_.at(static_cast<std::size_t>(server));
    const std::int64_t updates = work.updates - one.last.updates;
    if (updates < kUpdates) {
        return;
    }
    const double passes =
        passes_ * static_cast<double>(updates) + static_cast<double>(work.pushes - one.last.pushes);
    const double pass_s = (work.busy_s - one.last.busy_s) / passes;
    one.pass_s = one.pass_s == 0 ? pass_s : one.pass_s + kWeight * (pass_s - one.pass_s);
    one.last = work;
}

SharedCapacity ServerCapacity::capacity() const {
    double pass_s = 0;
    for (const Server& one : servers_) {
        pass_s = std::max(pass_s, one.pass_s);
    }
    return {.push_s = 0, .update_s = passes_ * pass_s, .add_s = pass_s};
}

}  // namespace cohort
