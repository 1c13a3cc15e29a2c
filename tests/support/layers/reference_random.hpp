#pragma once

#include <cstdint>

#include "support/layers/reference_network.hpp"

namespace cohort::test {

/// A network drawn at random; values have many consumers, views are of views, joins are of values
/// made far apart. The same for the same seed.
[[nodiscard]] Twin random_network(std::uint64_t seed);

}  // namespace cohort::test
