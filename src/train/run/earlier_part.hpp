#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cohort/optim/schedule.hpp"

namespace cohort {

/// What metrics.jsonl tells of the parts of a run before the one that goes on from a checkpoint.
struct EarlierPart {
    std::int64_t samples_applied = 0;  ///< as far as it came, by its last lines
    std::optional<Schedule> schedule;  ///< of its last part
    double lr = 0;                     ///< its base rate
};
/// @param checkpoint_bytes  of the file that were there at the checkpoint; what follows is lost
/// work. A line that is torn or is none is passed over.
[[nodiscard]] EarlierPart read_earlier_part(const std::string& metrics,
                                            std::int64_t checkpoint_bytes);

}  // namespace cohort
