// Networks drawn at random: whatever the builder takes must agree with the reference. What random
// shapes of graph find is planning of memory and order: values with many consumers, views of
// views, joins of values made far apart.
#include <gtest/gtest.h>

#include "support/layers/reference_check.hpp"
#include "support/layers/reference_random.hpp"

namespace cohort::test {
namespace {

class RandomNetworks : public ::testing::TestWithParam<int> {};

TEST_P(RandomNetworks, MatchTheReference) {
    for (int i = 0; i < 10; ++i) {
        const auto seed = static_cast<std::uint64_t>(10 * GetParam() + i);
        const Twin twin = random_network(seed);
        SCOPED_TRACE("network " + std::to_string(seed) + "\n" + describe(twin.graph));
        expect_matches(twin, {7, 12},
                       {.threads = 1 + i % 3,
                        .deterministic = i % 2 == 0,
                        .tolerance = 2 * kWinogradTolerance,
                        .seed = seed});
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNetworks, ::testing::Range(0, 6));

}  // namespace
}  // namespace cohort::test
