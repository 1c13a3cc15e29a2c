#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/report/comparison.hpp"
#include "support/report/report_rows.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kExact = 1e-12;

/// Times by hand: a and b are fixed, c switches and is faster than both under "slow". Whoever
/// reaches the target has a pace of 1000 samples per second (make_test_row).
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

RunRow& row_of(SweepResults& results, const std::string& mode, const std::string& pattern,
               std::uint64_t seed) {
    for (RunRow& row : results.rows) {
        if (row.mode == mode && row.pattern == pattern && row.seed.seed == seed) {
            return row;
        }
    }
    throw std::logic_error("no such row");
}

/// One pattern of modes with these times by seed, all at one pace.
SweepResults one_pattern(const std::vector<std::pair<std::string, std::vector<double>>>& modes) {
    SweepResults results;
    results.patterns = {"slow"};
    for (const auto& [name, times] : modes) {
        results.modes.push_back({.name = name});
        for (std::size_t i = 0; i < times.size(); ++i) {
            results.rows.push_back(make_test_row(name, "slow", i + 1, times[i]));
            if (results.modes.size() == 1) {
                results.seeds.push_back({i + 1, i + 1});
            }
        }
    }
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
    EXPECT_TRUE(comparison.has_target);
    EXPECT_EQ(spread_of({}).runs, 0U);
}

TEST(Ratio, IsTheMeanOfTheLogarithmsOverThePairs) {
    const Duel c = compare(three_modes()).to_reference.at(2);
    const Ratio& healthy = c.by_pattern.at(0);
    EXPECT_EQ(healthy.pairs, 3U);
    EXPECT_EQ(healthy.misses + healthy.other_misses, 0U);
    const double expected = (std::log(1.1) + 0 + std::log(110.0 / 90)) / 3;
    EXPECT_NEAR(healthy.tta.value, expected, kExact);
    EXPECT_NEAR(healthy.tta.low, 0, kExact) << "three times the second seed";
    EXPECT_NEAR(healthy.tta.high, std::log(110.0 / 90), kExact) << "three times the third";
    EXPECT_NEAR(healthy.samples.value, expected, 1e-9);
    EXPECT_NEAR(healthy.pace.value, 0, 1e-9);
}

/// Time is samples over pace: half the samples at a quarter of the pace take twice as long.
TEST(Ratio, SplitsIntoSamplesAndPace) {
    SweepResults results = one_pattern({{"a", {100, 80}}, {"b", {200, 160}}});
    for (const std::uint64_t seed : {1, 2}) {
        RunRow& row = row_of(results, "b", "slow", seed);
        row.samples_to_target = *row.samples_to_target / 4;
    }
    const Ratio ratio = compare(results).to_reference.at(1).all;
    for (const auto& [part, factor] :
         {std::pair(ratio.tta, 2.0), std::pair(ratio.samples, 0.5), std::pair(ratio.pace, 0.25)}) {
        EXPECT_NEAR(part.value, std::log(factor), kExact);
        EXPECT_NEAR(part.low, part.value, kExact) << "the same for both seeds: a point";
        EXPECT_NEAR(part.high, part.value, kExact);
    }
}

/// a misses twice with its budget of 1.2M samples at 600 per second: 2000 s.
TEST(Ratio, CountsAMissAtTheEndOfTheBudget) {
    const Comparison comparison = compare(three_modes());
    const Ratio& c = comparison.to_reference.at(2).by_pattern.at(1);
    EXPECT_EQ(c.pairs, 3U) << "a pair with a miss is a pair";
    EXPECT_EQ(c.misses, 0U);
    EXPECT_EQ(c.other_misses, 2U);
    EXPECT_NEAR(c.tta.value,
                (std::log(100.0 / 400) + std::log(200.0 / 2000) + std::log(300.0 / 2000)) / 3,
                kExact);
    EXPECT_NEAR(c.pace.value, 2 * std::log(1000.0 / 600) / 3, 1e-9);
    EXPECT_EQ(comparison.to_reference.at(2).all.pairs, 6U);
    EXPECT_EQ(comparison.to_reference.at(2).all.other_misses, 2U);
    EXPECT_EQ(comparison.to_reference.at(1).by_pattern.at(1).misses, 1U);
}

/// Whoever diverged after a tenth of the budget did not take a tenth of the time.
TEST(Ratio, CountsARunThatEndedEarlyAtItsBudgetToo) {
    SweepResults results = one_pattern({{"a", {100, 100}}, {"b", {100, 100}}});
    for (const std::uint64_t seed : {1, 2}) {
        row_of(results, "b", "slow", seed) = make_test_row("b", "slow", seed, std::nullopt);
        RunRow& row = row_of(results, "b", "slow", seed);
        row.stop_reason = "diverged";
        row.samples = 120'000;
        row.virtual_s = 50;
        row.samples_per_s = 2400;
    }
    const Ratio ratio = compare(results).to_reference.at(1).all;
    EXPECT_EQ(ratio.misses, 2U);
    EXPECT_NEAR(ratio.tta.value, std::log(1'200'000 / 2400.0 / 100), kExact);
}

TEST(Ratio, WithoutATargetIsOfThePace) {
    SweepResults results = one_pattern({{"a", {100, 100}}, {"b", {100, 100}}});
    for (RunRow& row : results.rows) {
        row.target_accuracy = 0;
        row.tta_virtual_s = std::nullopt;
        row.samples_per_s = row.mode == "a" ? 100 : 125;
    }
    const Comparison comparison = compare(results);
    EXPECT_NEAR(comparison.to_reference.at(1).all.pace.value, std::log(1.25), kExact);
    EXPECT_NEAR(comparison.to_reference.at(1).all.tta.value, -std::log(1.25), kExact);
    EXPECT_EQ(comparison.regrets.at(0).patterns, 0U) << "a fixed mode is best by its time";
}

TEST(Ratio, RunsWithoutATargetAmongOthersAreNoPairs) {
    SweepResults results = three_modes();
    for (RunRow& row : results.rows) {
        if (row.mode == "b") {
            row.target_accuracy = 0;
            row.tta_virtual_s = std::nullopt;
        }
    }
    const Comparison comparison = compare(results);
    EXPECT_EQ(comparison.cells[1][0].tta_s.runs, 0U);
    EXPECT_EQ(comparison.cells[1][0].tta_s.runs, 0U);
    EXPECT_EQ(comparison.to_reference.at(1).all.pairs, 0U);
    EXPECT_EQ(comparison.to_reference.at(2).all.pairs, 6U);
}

/// Each mode is lucky once. By the luck of each seed the oracle would take 50 s; chosen on the
/// other seeds it takes, for every seed, a mode that was lucky on another one.
TEST(Oracle, NeverLooksAtTheSeedThatIsCompared) {
    const SweepResults results =
        one_pattern({{"a", {50, 100, 100}}, {"b", {100, 50, 100}}, {"c", {100, 100, 50}}});
    const Comparison comparison = compare(results);
    EXPECT_THAT(comparison.oracle.at(0), ElementsAre("b", "a", "a"));
    // a: 50/100, 100/100, 100/100.
    EXPECT_NEAR(comparison.regrets.at(0).by_pattern.at(0).tta.value, -std::log(2) / 3, kExact);
    // Whatever a seed's own times are, its choice stays.
    for (const std::uint64_t seed : {1, 2, 3}) {
        SweepResults other = results;
        for (const char* mode : {"a", "b", "c"}) {
            RunRow& row = row_of(other, mode, "slow", seed);
            row = make_test_row(mode, "slow", seed, mode[0] == 'c' ? 1.0 : 1000.0);
        }
        EXPECT_EQ(compare(other).oracle.at(0).at(seed - 1), comparison.oracle.at(0).at(seed - 1));
    }
}

TEST(Oracle, IsTheModeThatIsBestOfAll) {
    SweepResults results =
        one_pattern({{"a", {100, 120, 90}}, {"b", {80, 96, 72}}, {"c", {40, 48, 36}}});
    results.modes[2].fixed = false;
    const Comparison comparison = compare(results);
    EXPECT_THAT(comparison.oracle.at(0), ElementsAre("b", "b", "b")) << "c is not fixed";
    const auto regret = [&](std::size_t mode) { return comparison.regrets.at(mode).median; };
    EXPECT_NEAR(regret(0).value, std::log(1.25), kExact);
    EXPECT_NEAR(regret(0).low, std::log(1.25), kExact);
    EXPECT_NEAR(regret(1).value, 0, kExact);
    EXPECT_NEAR(regret(2).value, std::log(0.5), kExact) << "switching beats every fixed mode";
}

TEST(Oracle, TakesWhoMissesLeast) {
    SweepResults results = one_pattern({{"a", {100, 100, 100}}, {"b", {10, 10, 10}}});
    row_of(results, "b", "slow", 2) = make_test_row("b", "slow", 2, std::nullopt);
    EXPECT_THAT(compare(results).oracle.at(0), ElementsAre("a", "b", "a"));
}

TEST(Oracle, NeedsAllRunsOfThePatternAndTwoSeeds) {
    SweepResults results = three_modes();
    std::erase_if(results.rows, [](const RunRow& row) {
        return row.mode == "a" && row.pattern == "healthy" && row.seed.seed == 3;
    });
    const Comparison comparison = compare(results);
    EXPECT_THAT(comparison.oracle.at(0), ElementsAre("", "", "")) << "a could have won";
    EXPECT_EQ(comparison.regrets.at(2).by_pattern.at(0).pairs, 0U);
    EXPECT_EQ(comparison.regrets.at(2).patterns, 1U);
    EXPECT_EQ(comparison.to_reference.at(1).by_pattern.at(0).pairs, 2U);
    EXPECT_FALSE(is_best(comparison, &ComparedCell::tta_s, 0, 0));
    EXPECT_TRUE(is_best(comparison, &ComparedCell::tta_s, 2, 1)) << "this column is all there";
    const Comparison lone = compare(one_pattern({{"a", {100}}, {"b", {50}}}));
    EXPECT_THAT(lone.oracle.at(0), ElementsAre(""));
    EXPECT_EQ(lone.to_reference.at(1).all.tta.low, lone.to_reference.at(1).all.tta.value);
}

TEST(Oracle, MedianAndWorstAreOverPatterns) {
    SweepResults results;
    results.modes = {{.name = "a"}, {.name = "b", .fixed = false}};
    results.seeds = {{1, 1}, {2, 2}};
    const std::vector<double> factors{1.0, 1.5, 1.1};
    for (std::size_t i = 0; i < factors.size(); ++i) {
        results.patterns.push_back("p" + std::to_string(i));
        for (const std::uint64_t seed : {1, 2}) {
            results.rows.push_back(make_test_row("a", results.patterns[i], seed, 100));
            results.rows.push_back(make_test_row("b", results.patterns[i], seed, 100 * factors[i]));
        }
    }
    const Regret regret = compare(results).regrets.at(1);
    EXPECT_EQ(regret.patterns, 3U);
    EXPECT_NEAR(regret.median.value, std::log(1.1), kExact);
    EXPECT_NEAR(regret.worst.value, std::log(1.5), kExact);
    EXPECT_EQ(regret.worst_pattern, 1U);
    EXPECT_NEAR(regret.worst.high, std::log(1.5), kExact) << "no seed differs";
}

TEST(Comparison, TheBestOfAColumnIsMarkedAndEqualsShareIt) {
    const Comparison comparison = compare(three_modes());
    EXPECT_TRUE(is_best(comparison, &ComparedCell::tta_s, 0, 0));
    EXPECT_FALSE(is_best(comparison, &ComparedCell::tta_s, 1, 0));
    EXPECT_FALSE(is_best(comparison, &ComparedCell::tta_s, 0, 1)) << "it was not reached";
    EXPECT_TRUE(is_best(comparison, &ComparedCell::tta_s, 2, 1));
    SweepResults equal = three_modes();
    for (RunRow& row : equal.rows) {
        row.samples_per_s = 5;
    }
    const Comparison level = compare(equal);
    EXPECT_TRUE(is_best(level, &ComparedCell::samples_per_s, 0, 0));
    EXPECT_TRUE(is_best(level, &ComparedCell::samples_per_s, 1, 0));
}

TEST(Comparison, TheFirstModeIsTheReferenceUnlessAnotherIs) {
    SweepResults results = three_modes();
    EXPECT_EQ(compare(results).reference, 0U);
    results.modes[1].reference = true;
    EXPECT_EQ(compare(results).reference, 1U);
    EXPECT_EQ(compare(results).to_reference.at(0).other, 1U);
    EXPECT_EQ(median_of(compare(results).cells[0][0], &RunRow::virtual_s), 100);
}

TEST(Comparison, JudgedAreThoseThatAskForItThenOursThenTheBest) {
    SweepResults results = three_modes();
    EXPECT_THAT(compare(results).judged, ElementsAre(2U)) << "the fastest";
    results.modes[1].role = "ours";
    EXPECT_THAT(compare(results).judged, ElementsAre(1U));
    results.modes[2].versus = true;
    const Comparison comparison = compare(results);
    EXPECT_THAT(comparison.judged, ElementsAre(2U));
    ASSERT_EQ(comparison.duels.size(), 2U) << "with each other mode";
    EXPECT_EQ(comparison.duels[1].other, 1U);
    EXPECT_NEAR(comparison.duels[1].by_pattern[0].tta.value,
                (std::log(110.0 / 120) + std::log(1.1) + std::log(110.0 / 130)) / 3, kExact);
    EXPECT_THAT(compare(one_pattern({{"a", {100}}})).judged, IsEmpty());
}

TEST(Comparison, PaceIsShownAsAShareOfTheIdeal) {
    SweepResults results = three_modes();
    row_of(results, "a", "healthy", 1).ideal_samples_per_s = 1250;
    const Comparison comparison = compare(results);
    EXPECT_EQ(comparison.cells[0][0].of_ideal.runs, 1U) << "others do not know it";
    EXPECT_NEAR(comparison.cells[0][0].of_ideal.median, 0.8, kExact);
}

}  // namespace
}  // namespace cohort
