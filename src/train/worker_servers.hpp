#pragma once

#include <memory>

#include "worker_context.hpp"

namespace cohort {

/// A worker of parameter servers. `context` outlives it.
[[nodiscard]] std::unique_ptr<WorkerExecutor> make_servers_executor(WorkerContext& context);

}  // namespace cohort
