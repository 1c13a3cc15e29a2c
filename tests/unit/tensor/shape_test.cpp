#include "cohort/tensor/shape.hpp"

#include <gtest/gtest.h>

#include <array>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

TEST(Shape, CountsElements) {
    EXPECT_EQ((Shape{3, 32, 32}).elements(), 3072);
    EXPECT_EQ((Shape{7}).elements(), 7);
    EXPECT_EQ(Shape{}.elements(), 1);
    EXPECT_EQ((Shape{65536, 65536}).elements(), 1LL << 32);
}

TEST(Shape, GivesItsExtentsInOrder) {
    const Shape shape{2, 3, 5, 7, 11};
    ASSERT_EQ(shape.rank(), Shape::kMaxRank);
    EXPECT_EQ(shape[0], 2);
    EXPECT_EQ(shape[4], 11);
    EXPECT_EQ(shape.extents().size(), 5U);
    EXPECT_EQ(Shape(shape.extents()), shape);
}

TEST(Shape, ComparesRankAndExtents) {
    EXPECT_EQ((Shape{1, 2}), (Shape{1, 2}));
    EXPECT_NE((Shape{1, 2}), (Shape{2, 1}));
    EXPECT_NE((Shape{2}), (Shape{2, 1}));
    EXPECT_NE(Shape{}, (Shape{1}));
}

TEST(Shape, RefusesWhatIsNoShape) {
    EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}), ShapeError);
    EXPECT_THROW((Shape{3, 0}), ShapeError);
    EXPECT_THROW((Shape{-1}), ShapeError);
}

TEST(Shape, PrintsAsAList) {
    EXPECT_EQ(to_string(Shape{3, 32, 32}), "[3,32,32]");
    EXPECT_EQ(to_string(Shape{10}), "[10]");
    EXPECT_EQ(to_string(Shape{}), "[]");
}

}  // namespace
}  // namespace cohort
