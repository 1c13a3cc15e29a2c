#pragma once

#include <memory>

#include "comm/allreduce/all_reduce.hpp"
#include "train/worker/worker_context.hpp"

namespace cohort {

/// A member of a ring. `context` outlives it. @param rounds may be empty when the ring has one
/// member: its gradient is the sum, nothing is exchanged or copied.
[[nodiscard]] std::unique_ptr<WorkerExecutor> make_ring_executor(WorkerContext& context,
                                                                 AllReduceFactory rounds);

}  // namespace cohort
