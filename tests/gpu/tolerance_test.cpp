// The limits of the short types are not guesses: the reference, with its weights, values and
// gradients rounded as the type does, stays within them for nearly every network of the suite and
// is not far beyond for the rest (residual blocks of many ReLUs). No GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/gpu/gpu_cases.hpp"

namespace cohort::test {
namespace {

/// Largest error of a range relative to its limit.
double worst_share(const FlatLayout& layout, const std::vector<double>& got,
                   const std::vector<double>& wanted, const CheckOptions& options) {
    const std::vector<float> floats(got.begin(), got.end());
    double most_scale = 0;
    for (const FlatRange& range : layout.ranges()) {
        most_scale = std::max(most_scale, deviation(range, floats, wanted, true).scale);
    }
    double worst = 0;
    for (const FlatRange& range : layout.ranges()) {
        const Deviation found = deviation(range, floats, wanted, true);
        const double scale = std::max(found.scale, 0.05 * most_scale);
        worst = std::max(worst, scale > 0 ? found.error / scale / options.tolerance : 0);
    }
    return worst;
}

/// Over the case's batches, loss and gradients.
double largest_share(const NetworkCase& network, const CheckOptions& options) {
    const Twin twin = network.make();
    OwnedReplica owned(twin.graph, 1, true);
    randomise(owned.replica, options.seed);
    double worst = 0;
    for (const std::int64_t size : network.sizes) {
        const OwnedBatch batch = random_batch(twin.graph, size, options.seed);
        const auto run = [&](Rounding rounded) {
            return run_reference(twin, owned.replica, batch, options.seed, true, rounded);
        };
        const ReferenceResult exact = run(nullptr);
        const ReferenceResult rough = run(options.roundings.front());
        worst = std::max(
            {worst, worst_share(twin.graph.parameters(), rough.gradients, exact.gradients, options),
             std::abs(rough.loss_sum - exact.loss_sum) / std::max(1.0, exact.loss_sum) /
                 options.tolerance});
    }
    return worst;
}

class Tolerance : public ::testing::TestWithParam<Backend> {};

TEST_P(Tolerance, LeavesRoomForTheRoundingOfTheType) {
    const Backend& backend = GetParam();
    const CheckOptions options = limits(backend);
    std::vector<double> shares;
    for (const auto& list :
         {conv_cases(), map_cases(), feature_cases(), sequence_cases(), structure_cases()}) {
        for (const NetworkCase& network : list) {
            if (backend.precision == Precision::kBf16 || network.every_precision) {
                shares.push_back(largest_share(network, options));
                EXPECT_LT(shares.back(), 4) << network.name;
            }
        }
    }
    std::sort(shares.begin(), shares.end());
    const double most = shares.at(shares.size() * 9 / 10);
    RecordProperty("share_of_the_limit_9_of_10_networks", std::to_string(most));
    EXPECT_LT(most, 0.7) << "too tight";
    EXPECT_GT(most, 0.1) << "so wide that they say nothing";
}

TEST(Roundings, AreEquallyFineAndHaveNothingToDoWithEachOther) {
    const std::vector<Rounding> roundings = roundings_of(Precision::kBf16);
    ASSERT_EQ(roundings.size(), 16U);
    for (const Rounding one : roundings) {
        for (const Rounding other : roundings) {
            double product = 0;
            double squares = 0;
            for (int i = 1; i <= 4000; ++i) {
                const double x = std::exp(std::sin(i * 12.9898) * 3);
                const double error = one(x) / x - 1;
                ASSERT_LE(std::abs(error), std::ldexp(1.0, -8));
                product += error * (other(x) / x - 1);
                squares += error * error;
            }
            EXPECT_LE(std::abs(product), (one == other ? 1.001 : 0.2) * squares);
        }
    }
}

TEST(Roundings, WidenALimitAsFarAsIsNeeded) {
    int made = 0;
    RoughReferences rough(roundings_of(Precision::kF16), [&](Rounding) {
        return ReferenceResult{.loss_sum = static_cast<double>(++made)};
    });
    const auto room = [](const ReferenceResult& result) { return result.loss_sum; };
    EXPECT_EQ(rough.widened(0.5, 0.4, room), 0.5);
    EXPECT_EQ(made, 0);
    EXPECT_EQ(rough.widened(0.5, 3, room), 3);
    EXPECT_EQ(rough.widened(0.5, 2, room), 2);
    EXPECT_EQ(made, 3);
    EXPECT_EQ(rough.widened(0.5, std::nan(""), room), 16);
    EXPECT_EQ(made, 16);
}

INSTANTIATE_TEST_SUITE_P(Types, Tolerance,
                         ::testing::Values(all_backends()[2], all_backends()[3], all_backends()[4]),
                         backend_name);

}  // namespace
}  // namespace cohort::test
