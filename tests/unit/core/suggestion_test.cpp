#include "core/suggestion.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort {
namespace {

const std::vector<std::string> kModes{"ssgd", "asgd", "adaptive", "static", "star-h"};

TEST(ClosestWord, UndoesOneSlipOfAFinger) {
    EXPECT_EQ(closest_word("adaptve", kModes), "adaptive") << "left out";
    EXPECT_EQ(closest_word("adaptiive", kModes), "adaptive") << "typed twice";
    EXPECT_EQ(closest_word("statik", kModes), "static") << "another letter";
    EXPECT_EQ(closest_word("sgsd", kModes), "ssgd") << "two letters swapped";
}

TEST(ClosestWord, IsSilentWhenNothingIsNear) {
    EXPECT_EQ(closest_word("tarot", kModes), "");
    EXPECT_EQ(closest_word("x", kModes), "");
    EXPECT_EQ(closest_word("", kModes), "");
    EXPECT_EQ(closest_word("adaptive", {}), "");
}

TEST(ClosestWord, TakesTheNearest) {
    EXPECT_EQ(closest_word("resnet19", std::vector<std::string>{"resnet20", "resnet18"}),
              "resnet18");
}

TEST(QuotedWithGuess, AsksOnlyWithAGuess) {
    EXPECT_EQ(quoted_with_guess("asdg", kModes), "'asdg' (did you mean 'asgd'?)");
    EXPECT_EQ(quoted_with_guess("tarot", kModes), "'tarot'");
}

}  // namespace
}  // namespace cohort
