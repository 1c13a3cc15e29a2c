#pragma once

#include <memory>

#include "worker_context.hpp"
#include "worker_rounds.hpp"

namespace cohort {

/// A worker of parameter servers. `context` outlives it.
/// @param rounds makes the exchanges of groups; may be empty when there are none
[[nodiscard]] std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context,
                                                                    RoundExchangeFactory rounds);

}  // namespace cohort
