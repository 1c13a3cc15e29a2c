#pragma once

#include <cstdint>
#include <vector>

#include "cohort/data/lease.hpp"

namespace cohort {

/// Encodes the state of a lease book as the whole numbers that a checkpoint holds:
/// epoch, position, applied, next id, then (epoch, position, count) per pending slice.
[[nodiscard]] std::vector<std::int64_t> encode_lease_state(const LeaseState& state);
/// The inverse. Errors: FileError for a list that encode_lease_state cannot have made.
[[nodiscard]] LeaseState decode_lease_state(const std::vector<std::int64_t>& numbers);

}  // namespace cohort
