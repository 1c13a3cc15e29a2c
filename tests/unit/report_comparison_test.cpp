#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/report/comparison.hpp"
#include "support/report_rows.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;

/// Times by hand: a and b are fixed, c switches and is faster than both under "slow".
SweepResults three_modes() {
    SweepResults results;
    results.modes = {{.name = "a"}, {.name = "b"}, {.name = "c", .fixed = false}};
    results.patterns = {"healthy", "slow"};
    results.seeds = {{1, 1}, {2, 2}, {3, 3}};
    const auto add = [&](const char* mode, const char* pattern,
                         std::array<std::optional<double>, 3> times) {
        for (std::size_t i = 0; i < times.size(); ++i) {
            results.rows.push_back(make_test_row(mode, pattern, i + 1, times[i]));
        }
    };
    add("a", "healthy", {100, 110, 90});
    add("b", "healthy", {120, 100, 130});
    add("c", "healthy", {110, 110, 110});
    add("a", "slow", {400, std::nullopt, std::nullopt});
    add("b", "slow", {200, 250, std::nullopt});
    add("c", "slow", {100, 200, 300});
    results.planned = 18;
    return results;
}

TEST(Comparison, MediansCountWhatWasNotReachedAsInfinite) {
    const Comparison comparison = compare(three_modes());
    const ComparedCell& a = comparison.cells[0][1];
    EXPECT_EQ(a.tta_s.runs, 3U);
    EXPECT_EQ(a.tta_s.finite, 1U);
    EXPECT_TRUE(std::isinf(a.tta_s.median));
    EXPECT_EQ(a.tta_s.least, 400);
    EXPECT_EQ(comparison.cells[0][0].tta_s.median, 100);
    EXPECT_EQ(comparison.cells[0][0].tta_s.most, 110);
    EXPECT_EQ(comparison.cells[1][1].samples_to_target.median, 250000);
    EXPECT_TRUE(comparison.has_target);
    EXPECT_EQ(spread_of({}).runs, 0U);
}

TEST(Comparison, TheOracleIsTheBestFixedModeOfEveryPatternAndSeed) {
    const Comparison comparison = compare(three_modes());
    EXPECT_THAT(comparison.oracle[0].choices, ElementsAre("a", "b", "a"));
    EXPECT_EQ(comparison.oracle[0].tta_s.median, 100);  // of 100, 100, 90
    EXPECT_THAT(comparison.oracle[1].choices, ElementsAre("b", "b", ""))
        << "c is not fixed; nobody reached it with the third seed";
    EXPECT_EQ(comparison.oracle[1].tta_s.median, 250);  // of 200, 250, infinity
}

TEST(Comparison, RegretIsTheTimeRelativeToTheOraclesLessOne) {
    const Comparison comparison = compare(three_modes());
    EXPECT_NEAR(comparison.cells[1][0].regret.median, 0.2, 1e-12);  // 0.2, 0, 0.444
    EXPECT_NEAR(comparison.cells[1][0].regret.most, 130.0 / 90 - 1, 1e-12);
    const Spread& c = comparison.cells[2][1].regret;
    EXPECT_EQ(c.least, -1) << "with the third seed it alone reached the target";
    EXPECT_NEAR(c.median, -0.5, 1e-12);  // -0.5, -0.2, -1: switching beats every fixed mode
    EXPECT_TRUE(std::isinf(comparison.cells[0][1].regret.median));  // 1, infinite
    EXPECT_EQ(comparison.regret[2].runs, 6U);
    EXPECT_NEAR(comparison.regret[2].median, -0.05, 1e-12);  // -1 -0.5 -0.2 0.1 0.1 0.222
}

TEST(Comparison, WhereNeitherReachedTheTargetThereIsNoRegret) {
    const Comparison comparison = compare(three_modes());
    EXPECT_EQ(comparison.cells[0][1].regret.runs, 2U) << "a failed there as the oracle did";
    EXPECT_EQ(comparison.cells[0][1].aimed, 3U);
    EXPECT_EQ(comparison.pairs[0], 6U);
    EXPECT_EQ(comparison.regret[0].runs, 5U);
}

TEST(Comparison, NoOracleAndNoStarWhileRunsAreMissing) {
    SweepResults results = three_modes();
    std::erase_if(results.rows, [](const RunRow& row) {
        return row.mode == "a" && row.pattern == "healthy" && row.seed.seed == 3;
    });
    const Comparison comparison = compare(results);
    EXPECT_THAT(comparison.oracle[0].choices, ElementsAre("a", "b")) << "a could win the third";
    EXPECT_EQ(comparison.oracle[0].waiting, 1U);
    EXPECT_EQ(comparison.cells[1][0].regret.runs, 2U);
    EXPECT_FALSE(is_least(comparison, &ComparedCell::tta_s, 0, 0));
    EXPECT_TRUE(is_least(comparison, &ComparedCell::tta_s, 2, 1)) << "this column is all there";
}

TEST(Comparison, RunsWithoutATargetAreNotSlow) {
    SweepResults results = three_modes();
    for (RunRow& row : results.rows) {
        if (row.mode == "b") {
            row.target_accuracy = 0;
            row.tta_virtual_s = std::nullopt;
        }
    }
    const Comparison comparison = compare(results);
    EXPECT_EQ(comparison.cells[1][0].tta_s.runs, 0U);
    EXPECT_EQ(comparison.cells[1][0].rows.size(), 3U);
    EXPECT_EQ(comparison.cells[1][0].aimed, 0U);
    EXPECT_THAT(comparison.oracle[0].choices, ElementsAre("a", "a", "a"));
}

TEST(Comparison, TheBestOfAColumnIsMarkedAndEqualsShareIt) {
    const Comparison comparison = compare(three_modes());
    EXPECT_TRUE(is_least(comparison, &ComparedCell::tta_s, 0, 0));
    EXPECT_FALSE(is_least(comparison, &ComparedCell::tta_s, 1, 0));
    EXPECT_FALSE(is_least(comparison, &ComparedCell::tta_s, 0, 1)) << "it was not reached";
    EXPECT_TRUE(is_least(comparison, &ComparedCell::tta_s, 2, 1));
    SweepResults equal = three_modes();
    for (RunRow& row : equal.rows) {
        row.samples_per_s = 5;
    }
    const Comparison level = compare(equal);
    EXPECT_TRUE(is_most(level, &ComparedCell::samples_per_s, 0, 0));
    EXPECT_TRUE(is_most(level, &ComparedCell::samples_per_s, 1, 0));
}

TEST(Comparison, TheFirstModeIsTheReferenceUnlessAnotherIs) {
    SweepResults results = three_modes();
    EXPECT_EQ(compare(results).reference, 0U);
    results.modes[1].reference = true;
    EXPECT_EQ(compare(results).reference, 1U);
    EXPECT_EQ(median_of(compare(results).cells[0][0], &RunRow::virtual_s), 100);
}

TEST(Comparison, AModeThatAsksForItIsComparedPairByPair) {
    SweepResults results = three_modes();
    EXPECT_TRUE(compare(results).duels.empty());
    results.modes[2].versus = true;
    const Comparison comparison = compare(results);
    ASSERT_EQ(comparison.duels.size(), 2U);
    const Duel& a = comparison.duels[0];
    EXPECT_EQ(a.mode, 2U);
    EXPECT_EQ(a.other, 0U);
    EXPECT_NEAR(a.by_pattern[0].median, 0.1, 1e-12);  // 110 / 100, 110 / 110, 110 / 90
    EXPECT_NEAR(a.by_pattern[0].least, 0, 1e-12);
    EXPECT_NEAR(a.by_pattern[1].most, 100.0 / 400 - 1, 1e-12);  // -0.75 -1 -1
    EXPECT_EQ(a.by_pattern[1].median, -1) << "a did not reach it twice";
    EXPECT_NEAR(a.all.median, (0 - 0.75) / 2, 1e-12);  // -1 -1 -0.75 0 0.1 0.22
    EXPECT_EQ(a.slow.runs, 3U) << "all but healthy";
    const Duel& b = comparison.duels[1];
    EXPECT_NEAR(b.by_pattern[1].median, -0.5, 1e-12);  // -0.5 -0.2 -1
}

TEST(Comparison, PairsWithoutATimeAreNoPairs) {
    SweepResults results = three_modes();
    results.modes[0].versus = true;
    const Duel b = compare(results).duels.at(0);
    EXPECT_EQ(b.by_pattern[1].runs, 2U) << "neither reached it with the third seed";
    EXPECT_TRUE(std::isinf(b.by_pattern[1].most)) << "b alone did with the second";
    EXPECT_NEAR(b.by_pattern[1].least, 1, 1e-12);
    std::erase_if(results.rows, [](const RunRow& row) { return row.mode == "b"; });
    EXPECT_EQ(compare(results).duels.at(0).all.runs, 0U);
}

}  // namespace
}  // namespace cohort
