// The limits of the short types are not guesses: the reference, with its weights, values and
// gradients rounded as the type does, on grids that the limits have not seen, stays within them for
// every network of the suite; and one that rounds wrongly or normalises by something else does not.
// No GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "support/gpu/gpu_cases.hpp"
#include "support/layers/reference_kinks.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

/// What a test of a network compares with.
struct Prepared {
    Twin twin;
    OwnedReplica owned;
    OwnedBatch batch;
    const CheckOptions& options;
    ReferenceResult exact;

    Prepared(Twin made, std::int64_t size, const CheckOptions& wanted)
        : twin(std::move(made)), owned(twin.graph, 1, true), options(wanted) {
        randomise(owned.replica, options.seed);
        batch = random_batch(twin.graph, size, options.seed);
        EXPECT_TRUE(clear_kinks(twin, owned.replica, batch, options.seed, options.roundings).clear);
        exact = run(twin, nullptr);
    }
    [[nodiscard]] ReferenceResult run(const Twin& by, Rounding rounding) {
        return run_reference(by, owned.replica, batch, options.seed, true, rounding);
    }
    /// Largest error of a gradient relative to its limit.
    [[nodiscard]] double share(const ReferenceResult& result) {
        RoughReferences rough(options.roundings,
                              [&](Rounding rounding) { return run(twin, rounding); });
        const std::vector<float> got(result.gradients.begin(), result.gradients.end());
        double worst = 0;
        for (const CheckedRange& checked :
             check_layout(twin.graph.parameters(), got, exact.gradients, rough,
                          &ReferenceResult::gradients, options)) {
            worst = std::max(worst, checked.limit > 0 ? checked.found.error / checked.limit : 0);
        }
        return worst;
    }
};

/// Between two of the grids that the limits are made of.
Rounding fresh_rounding(Precision precision) {
    return precision == Precision::kBf16 ? rounded_between<8> : rounded_between<11>;
}

class Tolerance : public ::testing::TestWithParam<Backend> {};

TEST_P(Tolerance, LeavesRoomForTheRoundingOfTheType) {
    const Backend& backend = GetParam();
    const CheckOptions options = limits(backend);
    std::vector<double> shares;
    for (const auto& list :
         {conv_cases(), map_cases(), feature_cases(), sequence_cases(), structure_cases()}) {
        for (const NetworkCase& network : list) {
            if (network.every_precision) {
                Prepared one(network.make(), network.sizes.back(), options);
                shares.push_back(one.share(one.run(one.twin, fresh_rounding(backend.precision))));
                EXPECT_LT(shares.back(), 1) << network.name;
            }
        }
    }
    std::sort(shares.begin(), shares.end());
    const double middle = shares.at(shares.size() / 2);
    RecordProperty("share_of_the_limit_middle_network", std::to_string(middle));
    if (!backend.cuda) {
        EXPECT_GT(middle, 0.2) << "so wide that they say nothing";
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Tolerance,
                         ::testing::Values(all_backends()[2], all_backends()[3], all_backends()[4],
                                           all_backends()[5]),
                         backend_name);

const std::vector<const char*> kWithNorms{"projection_block", "identity_block", "chain_of_blocks",
                                          "relu_before_sum"};

TEST(Limits, SeeARoundingThatForgetsItsHalfUnit) {
    const CheckOptions options = limits(all_backends()[5]);
    for (const char* name : kWithNorms) {
        Prepared one(structure(name).make(), 6, options);
        EXPECT_GT(one.share(one.run(one.twin, truncated_to_bits<8>)), 1) << name;
    }
}

/// conv, norm, ReLU and a head.
Twin normalised(float epsilon) {
    TwinBuilder net(Shape{3, 6, 5});
    const Value x = net.conv(net.input(), {.channels = 16, .padding = 1});
    return net.finish_linear(net.relu(net.batch_norm(x, {epsilon})));
}

TEST(Limits, SeeAVarianceThatIsTwoPercentLarger) {
    const CheckOptions options = limits(all_backends()[5]);
    Prepared one(normalised(1e-5F), 6, options);
    const Rounding rounding = fresh_rounding(Precision::kBf16);
    EXPECT_LT(one.share(one.run(one.twin, rounding)), 1);
    // Variances of this network's norms are about 2.
    EXPECT_GT(one.share(one.run(normalised(0.05F), rounding)), 1);
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
        return ReferenceResult{.loss_sum = ++made % 2 == 0 ? 3.0 : 5.0};
    });
    const auto off = [](const ReferenceResult& result) { return result.loss_sum; };
    EXPECT_EQ(rough.widened(0.5, 0.4, off), 0.5);
    EXPECT_EQ(made, 0);
    EXPECT_EQ(rough.widened(0.5, 3, off), 1.5 * (4.0 + 4 * 1.0));
    EXPECT_EQ(rough.widened(0.5, std::nan(""), off), 12);
    EXPECT_EQ(rough.widened(20, 21, off), 20);
    EXPECT_EQ(made, 16);
    RoughReferences none;
    EXPECT_EQ(none.widened(0.5, 3, off), 0.5);
}

}  // namespace
}  // namespace cohort::test
