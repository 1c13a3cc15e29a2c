#pragma once

#include <memory>

#include "comm/allreduce/all_reduce.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// A worker of parameter servers. `context` outlives it.
/// @param rounds makes the exchanges of groups; may be empty when there are none
[[nodiscard]] std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context,
                                                                    AllReduceFactory rounds);

}  // namespace cohort
