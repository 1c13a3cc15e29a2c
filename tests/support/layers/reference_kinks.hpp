#pragma once

#include "support/layers/reference_check.hpp"

namespace cohort::test {

/// What clear_kinks found and did.
struct KinkClearance {
    std::size_t kinks = 0;
    std::size_t close = 0;  ///< those that rounding might have carried over, at first
    int steps = 0;
    double reach = 0;    ///< largest of all layers
    bool clear = false;  ///< none is close any more
};

/// Changes parameters and samples until rounding does not carry any element over a kink: what a
/// ReLU or a maximum does is then the same in every good computation, and all that a short type
/// changes is small and smooth.
///
/// Rounding may carry an element as far as six times what the reference's own roundings move the
/// elements of that layer by (root mean square). An element that is closer is pulled away from its
/// kink by steps down the sum of the squares of what is missing, of the length that would end it if
/// it were linear (Polyak 1987). Some ten steps do, since a few in a hundred elements are close and
/// there are many times as many parameters. Exact zeros stay: dropout and earlier ReLUs make them,
/// and no rounding moves them.
///
/// Nothing but the double-precision reference decides, so every machine gets the same numbers.
KinkClearance clear_kinks(const Twin& twin, Replica& replica, OwnedBatch& batch, std::uint64_t seed,
                          const std::vector<Rounding>& roundings);

}  // namespace cohort::test
