#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/model/replica.hpp"
#include "cohort/optim/optimizer.hpp"
#include "train/run/snapshot.hpp"

namespace cohort {

/// Everything that a replica and its optimizer hold, copied to host memory.
[[nodiscard]] ShardSnapshot copy_replica(Replica& replica, Optimizer& optimizer,
                                         std::int64_t version);
/// The other way round. Errors: FileError when the snapshot does not fit, naming `where`.
void restore_replica(Replica& replica, Optimizer& optimizer, const ShardSnapshot& snapshot,
                     const std::string& where);

/// The same as one buffer of floats, for another rank: parameters, state and, if `full`, the
/// optimizer's slots in their order.
struct PackedState {
    std::shared_ptr<float[]> values;
    std::size_t floats = 0;
    std::vector<double> scalars;  ///< of the optimizer in their order, if `full`
    [[nodiscard]] std::span<float> all() const noexcept { return {values.get(), floats}; }
};
[[nodiscard]] PackedState pack_state(Replica& replica, Optimizer& optimizer, bool full);
/// Errors: PeerError when the floats do not fit.
void unpack_state(Replica& replica, Optimizer& optimizer, std::span<const float> floats,
                  const std::vector<double>& scalars, bool full);
/// Turns packed parameters into those of after `lag` more reference batches (DANA, Hakimi 2019);
/// sgd only, others stay as they are.
void look_ahead_packed(Replica& replica, Optimizer& optimizer, const PackedState& packed, double lr,
                       double lag);

}  // namespace cohort
