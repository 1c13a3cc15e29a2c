#pragma once

#include <string>

#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "cohort/train/snapshot.hpp"

namespace cohort {

/// Everything that a replica and its optimizer hold, copied to host memory.
[[nodiscard]] ShardSnapshot copy_replica(Replica& replica, Optimizer& optimizer,
                                         std::int64_t version);
/// The other way round. Errors: FileError when the snapshot does not fit, naming `where`.
void restore_replica(Replica& replica, Optimizer& optimizer, const ShardSnapshot& snapshot,
                     const std::string& where);

}  // namespace cohort
