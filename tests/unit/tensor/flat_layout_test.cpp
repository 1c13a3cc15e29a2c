#include "cohort/tensor/flat_layout.hpp"

#include <gtest/gtest.h>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

TEST(FlatLayout, StartsEmpty) {
    const FlatLayout layout;
    EXPECT_EQ(layout.total(), 0);
    EXPECT_EQ(layout.elements(), 0);
    EXPECT_TRUE(layout.ranges().empty());
    EXPECT_EQ(layout.find("x"), nullptr);
}

TEST(FlatLayout, KeepsRangesAlignedAndApart) {
    FlatLayout layout;
    EXPECT_EQ(layout.add("one", Shape{1}, false), 0);
    EXPECT_EQ(layout.add("fifteen", Shape{3, 5}, true), 1);
    EXPECT_EQ(layout.add("sixteen", Shape{4, 4}, true), 2);
    EXPECT_EQ(layout.add("seventeen", Shape{17}, true), 3);
    std::int64_t end = 0;
    for (const FlatRange& range : layout.ranges()) {
        EXPECT_EQ(range.offset % FlatLayout::kAlignment, 0) << range.name;
        EXPECT_GE(range.offset, end) << range.name;
        EXPECT_LT(range.offset - end, FlatLayout::kAlignment) << range.name;
        EXPECT_EQ(range.size, range.shape.elements()) << range.name;
        end = range.offset + range.size;
    }
    EXPECT_EQ(layout.elements(), 1 + 15 + 16 + 17);
    EXPECT_EQ(layout.total(), 16 + 16 + 16 + 32);
}

TEST(FlatLayout, FindsByName) {
    FlatLayout layout;
    layout.add("conv1.weight", Shape{8, 1, 3, 3}, true);
    layout.add("conv1.bias", Shape{8}, false);
    const FlatRange* bias = layout.find("conv1.bias");
    ASSERT_NE(bias, nullptr);
    EXPECT_EQ(bias->shape, (Shape{8}));
    EXPECT_EQ(bias->offset, 80);
    EXPECT_FALSE(bias->decay);
    EXPECT_TRUE(layout.find("conv1.weight")->decay);
    EXPECT_EQ(layout.find("conv1"), nullptr);
}

TEST(FlatLayout, RefusesANameTwice) {
    FlatLayout layout;
    layout.add("w", Shape{2}, true);
    EXPECT_THROW(layout.add("w", Shape{3}, true), UsageError);
    EXPECT_EQ(layout.ranges().size(), 1U);
}

}  // namespace
}  // namespace cohort
