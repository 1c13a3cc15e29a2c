// Windows of convolutions and poolings: their numbers, what is refused, and poolings with gaps,
// which GPUs refuse; gpu/layers_test.cpp compares all others with the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Window, OneNumberIsThatOfBothAxesAndAllSides) {
    EXPECT_EQ(PerAxis(3), PerAxis(3, 3));
    EXPECT_EQ(Padding(1), Padding(1, 1, 1, 1));
    EXPECT_EQ(to_string(PerAxis(3)), "3");
    EXPECT_EQ(to_string(PerAxis(1, 7)), "1x7");
    EXPECT_EQ(to_string(Padding(2)), "2");
    EXPECT_EQ(to_string(Padding(0, 3, 0, 3)), "0,3,0,3");
}

TEST(Window, OutputsAreThePlacesWhereItFits) {
    for (const std::int64_t kernel : {1, 2, 4}) {
        for (const std::int64_t stride : {1, 2, 3}) {
            for (const std::int64_t dilation : {1, 2}) {
                for (const std::int64_t before : {0, 1, 3}) {
                    for (std::int64_t extent = 1; extent < 9; ++extent) {
                        const WindowAxis axis{kernel, stride, dilation, before, 2};
                        std::int64_t count = 0;
                        for (std::int64_t start = -before;
                             start + dilation * (kernel - 1) < extent + 2; start += stride) {
                            ++count;
                        }
                        EXPECT_EQ(axis.outputs(extent), count);
                    }
                }
            }
        }
    }
}

TEST(Window, ShapesFollowFromEachAxis) {
    GraphBuilder net("net", Shape{3, 9, 12});
    const Value x = net.conv(net.input(), {.channels = 4,
                                           .kernel = {1, 7},
                                           .stride = {2, 1},
                                           .padding = {0, 3, 1, 2},
                                           .dilation = {1, 2}});
    EXPECT_EQ(net.shape(x), (Shape{4, 5, 5}));
    EXPECT_EQ(net.shape(net.max_pool(x, {.kernel = {3, 1}, .stride = {1, 4}})), (Shape{4, 3, 2}));
}

TEST(Window, CountsTheOperationsOfARectangle) {
    const auto layer = make_conv({.channels = 5, .kernel = {1, 7}, .padding = {0, 3, 0, 3}});
    const std::vector<Shape> input{Shape{4, 6, 8}};
    EXPECT_EQ(layer->forward_flops(input), 2.0 * (5 * 6 * 8) * (4 * 1 * 7));
}

TEST(Window, RefusalsNameTheLayerAndTheNumbers) {
    const auto message = [](const std::function<void(GraphBuilder&)>& describe) {
        GraphBuilder net("net", Shape{4, 8, 8});
        return message_of<ShapeError>([&] { describe(net); });
    };
    const auto conv = [&](const ConvOptions& options) {
        return message([&](GraphBuilder& net) { net.conv(net.input(), options); });
    };
    EXPECT_THAT(conv({.channels = 4, .kernel = {3, 0}}),
                HasSubstr("kernel, stride, dilation >= 1"));
    EXPECT_THAT(conv({.channels = 4, .stride = {0, 1}}),
                HasSubstr("kernel, stride, dilation >= 1"));
    EXPECT_THAT(conv({.channels = 4, .padding = {0, 0, -1, 0}}), HasSubstr("padding >= 0"));
    EXPECT_THAT(conv({.channels = 4, .kernel = {3, std::int64_t{1} << 40}}),
                HasSubstr("at most 2147483647"));
    EXPECT_THAT(conv({.channels = 4, .kernel = {3, 12}, .padding = {0, 1, 0, 2}}),
                AllOf(HasSubstr("net.conv1"), HasSubstr("a height of at least 3"),
                      HasSubstr("a width of at least 9")));
    const auto pool = [&](const PoolOptions& options) {
        return message([&](GraphBuilder& net) { net.average_pool(net.input(), options); });
    };
    EXPECT_THAT(pool({.kernel = {9, 2}}), AllOf(HasSubstr("net.average_pool1"), HasSubstr("9x2")));
    EXPECT_THAT(pool({.kernel = {2, 1}, .padding = {2, 0, 0, 0}}),
                HasSubstr("a window can hold nothing but padding"));
    EXPECT_THAT(pool({.kernel = {2, 3}, .stride = 1, .padding = {0, 0, 2, 0}}),
                HasSubstr("a window can hold nothing but padding"));
    EXPECT_THAT(pool({.kernel = 2, .padding = {0, 2, 0, 2}, .dilation = {1, 9}}),
                HasSubstr("a window can hold nothing but padding"));
    EXPECT_THAT(
        message([](GraphBuilder& net) { net.max_pool(net.input(), {.count_padding = true}); }),
        HasSubstr("count_padding in an average_pool only"));
}

TEST(Window, PoolingsWithGapsEqualTheReference) {
    for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage}) {
        for (const bool counts : {false, true}) {
            if (counts && kind == PoolKind::kMax) {
                continue;
            }
            TwinBuilder net(Shape{3, 8, 9});
            Value x = net.conv(net.input(), {.channels = 18, .kernel = 1});
            x = net.pool(x, kind,
                         {.kernel = {2, 3},
                          .stride = {2, 1},
                          .padding = {0, 1, 2, 2},
                          .dilation = {3, 2},
                          .count_padding = counts});
            expect_matches(net.finish_linear(x), {5, 2}, {.tolerance = kDirectTolerance});
        }
    }
}

}  // namespace
}  // namespace cohort::test
