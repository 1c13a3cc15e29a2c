// Convolution against the double-precision reference: loss, gradients (the input's through a
// convolution in front) and logits, over odd shapes, groups, dilation, batches and threads.
#include <gtest/gtest.h>

#include "cohort/core/rng.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

struct ConvCase {
    std::int64_t channels;  ///< going in
    std::int64_t height;
    std::int64_t width;
    ConvOptions options;
};

std::ostream& operator<<(std::ostream& out, const ConvCase& c) {
    return out << c.channels << "x" << c.height << "x" << c.width << " to " << c.options.channels
               << " kernel " << c.options.kernel << " stride " << c.options.stride << " padding "
               << c.options.padding << " dilation " << c.options.dilation << " groups "
               << c.options.groups;
}

bool may_be_winograd(const ConvOptions& o) {
    return o.kernel == 3 && o.stride == 1 && o.dilation == 1 && o.groups == 1;
}

class Conv : public ::testing::TestWithParam<ConvCase> {};

CheckOptions check_options(const ConvCase& c, int threads) {
    return {.threads = threads,
            .tolerance = may_be_winograd(c.options) ? kWinogradTolerance : kDirectTolerance};
}

TEST_P(Conv, MatchesReferenceBetweenLayers) {
    const ConvCase& c = GetParam();
    TwinBuilder net(Shape{2, c.height, c.width});
    Value x = net.conv(net.input(), {.channels = c.channels, .kernel = 1});
    x = net.conv(x, c.options);
    const Twin twin = net.finish_linear(x);
    expect_matches(twin, {1, 5}, check_options(c, 1));
    expect_matches(twin, {7, 2}, check_options(c, 2));
}

TEST_P(Conv, MatchesReferenceOnPlainInputWithRelu) {
    const ConvCase& c = GetParam();
    TwinBuilder net(Shape{c.channels, c.height, c.width});
    ConvOptions options = c.options;
    options.bias = false;
    const Twin twin = net.finish_linear(net.relu(net.conv(net.input(), options)));
    expect_matches(twin, {2}, check_options(c, 1));
    expect_matches(twin, {5, 1}, check_options(c, 3));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Conv,
    ::testing::Values(ConvCase{1, 5, 7, {.channels = 1}},
                      ConvCase{3, 9, 7, {.channels = 8, .padding = 1}},
                      ConvCase{8, 6, 5, {.channels = 3, .kernel = 1}},
                      ConvCase{16, 5, 5, {.channels = 16, .kernel = 1, .stride = 2}},
                      ConvCase{17, 7, 5, {.channels = 20, .padding = 1}},
                      ConvCase{20, 5, 6, {.channels = 33, .stride = 2, .padding = 1}},
                      ConvCase{33, 5, 5, {.channels = 17, .kernel = 5, .padding = 2}},
                      ConvCase{3, 11, 13, {.channels = 16, .kernel = 7, .stride = 2, .padding = 3}},
                      ConvCase{16, 8, 9, {.channels = 17, .stride = 3}},
                      ConvCase{33, 8, 7, {.channels = 33, .padding = 1}},
                      ConvCase{3, 3, 3, {.channels = 20, .kernel = 3}},
                      ConvCase{8, 4, 4, {.channels = 8, .kernel = 2, .stride = 2}},
                      ConvCase{5, 4, 6, {.channels = 9, .kernel = 4, .padding = 3}}));

INSTANTIATE_TEST_SUITE_P(
    Groups, Conv,
    ::testing::Values(ConvCase{8, 5, 7, {.channels = 8, .padding = 1, .groups = 8}},
                      ConvCase{17, 6, 5, {.channels = 17, .stride = 2, .padding = 1, .groups = 17}},
                      ConvCase{16, 5, 5, {.channels = 16, .padding = 1, .groups = 16}},
                      ConvCase{20, 5, 5, {.channels = 40, .padding = 1, .groups = 20}},
                      ConvCase{20, 6, 7, {.channels = 12, .padding = 1, .groups = 4}},
                      ConvCase{32, 5, 5, {.channels = 32, .padding = 1, .groups = 2}},
                      ConvCase{33, 5, 4, {.channels = 6, .kernel = 1, .groups = 3}}));

INSTANTIATE_TEST_SUITE_P(
    Dilation, Conv,
    ::testing::Values(ConvCase{3, 9, 8, {.channels = 8, .padding = 2, .dilation = 2}},
                      ConvCase{17, 9, 11, {.channels = 16, .stride = 2, .dilation = 3}},
                      ConvCase{16, 7, 7, {.channels = 20, .kernel = 2, .dilation = 2}},
                      ConvCase{
                          8, 8, 9, {.channels = 8, .padding = 2, .dilation = 2, .groups = 8}}));

// Weights so large that the team shares the work of reordering and summing them; three members
// get unequal parts.
INSTANTIATE_TEST_SUITE_P(
    LargeWeights, Conv,
    ::testing::Values(ConvCase{128, 3, 4, {.channels = 64, .padding = 1}},
                      ConvCase{128, 4, 5, {.channels = 80, .stride = 2, .padding = 1}},
                      ConvCase{130, 3, 3, {.channels = 70, .padding = 1}},
                      ConvCase{256, 3, 2, {.channels = 272, .kernel = 1}}));

// Two convolutions of one shape that differ in nothing but padding, or in the order of their
// input, must not share a choice of algorithm that fits only one of them.
TEST(ConvChoice, IsNotSharedBetweenDifferentPaddings) {
    for (const bool deterministic : {true, false}) {
        TwinBuilder net(Shape{32, 8, 8});
        const Value x = net.conv(net.input(), {.channels = 32, .kernel = 1});
        const Value same = net.conv(x, {.channels = 32, .padding = 1});
        const Value wide = net.conv(x, {.channels = 32, .padding = 2});
        const Value none = net.conv(x, {.channels = 32});
        const Value plain = net.conv(net.input(), {.channels = 32, .padding = 1});
        const Value sum = net.add(same, plain);
        const Twin twin = net.finish_linear(net.concat({net.pool(sum, PoolKind::kGlobalAverage),
                                                        net.pool(wide, PoolKind::kGlobalAverage),
                                                        net.pool(none, PoolKind::kGlobalAverage)}));
        expect_matches(twin, {3},
                       {.deterministic = deterministic, .tolerance = kWinogradTolerance});
    }
}

// The accuracy limit that conv_primitives.hpp states: 1e-4 of the largest output. The fixed rule
// of deterministic mode takes Winograd for this shape wherever oneDNN has it.
TEST(ConvAccuracy, WinogradStaysWithinTenThousandth) {
    TwinBuilder net(Shape{64, 16, 16});
    const Value x = net.conv(net.input(), {.channels = 64, .kernel = 1});
    const Twin twin = net.finish(net.flatten(net.conv(x, {.channels = 64, .padding = 1})));
    OwnedReplica owned(twin.graph, 1, true);
    randomise(owned.replica, 2);
    const OwnedBatch batch = random_batch(twin.graph, 2, 2);
    const ReferenceResult wanted = run_reference(twin, owned.replica, batch, 0, false);
    std::vector<float> got(wanted.logits.size());
    owned.replica.infer(batch.view(), got);
    double error = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        error = std::max(error, std::abs(static_cast<double>(got[i]) - wanted.logits[i]));
    }
    EXPECT_LE(error, 1e-4 * largest(wanted.logits));
    RecordProperty("relative_error", std::to_string(error / largest(wanted.logits)));
}

}  // namespace
}  // namespace cohort::test
