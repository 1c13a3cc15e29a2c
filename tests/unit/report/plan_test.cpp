#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "data/file/text_file.hpp"
#include "report/sweep/sweep_plan.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Optional;

Experiment two_modes() {
    Experiment experiment;
    experiment.job = {{"data", "d.h5"}, {"momentum", "0.9"}, {"no-train", "false"}};
    experiment.modes.push_back({.name = "ssgd", .options = {{"mode", "ssgd"}}, .lr = {0.1, 0.2}});
    experiment.modes.push_back(
        {.name = "asgd", .options = {{"mode", "asgd"}, {"momentum", "0"}}, .lr = {0.4}});
    experiment.patterns.push_back({.name = "healthy", .options = {{"pattern", "healthy"}}});
    experiment.patterns.push_back({.name = "mine", .options = {{"trace", "t.csv"}}});
    experiment.seeds = {{1, 1}, {2, 2}, {3, 9}};
    experiment.tuning.seeds = {{11, 11}, {12, 12}};
    return experiment;
}

TEST(SweepPlan, TuningTriesEveryRateWithEverySeedOfModesThatHaveAChoice) {
    Experiment experiment = two_modes();
    experiment.tuning.options = {{"samples", "500"}};
    const std::vector<PlannedRun> runs = plan_tuning(experiment);
    ASSERT_EQ(runs.size(), 4U);
    for (const PlannedRun& run : runs) {
        EXPECT_EQ(run.mode, 0U);
        EXPECT_EQ(run.pattern, "healthy");
        EXPECT_EQ(option_of(run.options, "samples"), "500");
    }
    EXPECT_EQ(runs[0].lr, 0.1);
    EXPECT_EQ(runs[3].lr, 0.2);
    EXPECT_EQ(option_of(runs[3].options, "lr"), "0.2");
    EXPECT_EQ(option_of(runs[3].options, "seed"), "12");
}

TEST(SweepPlan, TheTableHasModesTimesPatternsTimesSeeds) {
    const std::vector<PlannedRun> runs = plan_table(two_modes(), {0.2, 0.4});
    ASSERT_EQ(runs.size(), 2U * 2 * 3);
    std::set<std::string> keys;
    for (const PlannedRun& run : runs) {
        keys.insert(run.key);
    }
    EXPECT_EQ(keys.size(), runs.size());
    EXPECT_THAT(arguments_of(runs.back()),
                ElementsAre("--data=d.h5", "--lr=0.4", "--mode=asgd", "--momentum=0",
                            "--pattern-seed=9", "--seed=3", "--trace=t.csv"))
        << "the mode's option replaces the job's, a flag that is off is left out";
    EXPECT_THAT(runs.front().key, testing::StartsWith("ssgd_healthy_s1_lr0.2_"));
}

TEST(SweepPlan, AModeWhoseTuningIsIncompleteWaits) {
    const std::vector<PlannedRun> runs = plan_table(two_modes(), {std::nullopt, 0.4});
    ASSERT_EQ(runs.size(), 6U);
    EXPECT_EQ(runs.front().mode, 1U);
}

TEST(SweepPlan, FlagsAreWrittenWithoutAValue) {
    Experiment experiment = two_modes();
    set_option(experiment.job, "no-train", "true");
    EXPECT_THAT(arguments_of(plan_tuning(experiment).front()), IsSupersetOf({"--no-train"}));
}

TEST(SweepPlan, KeysChangeWithOptionsAndWithTheContentsOfATrace) {
    const TempFolder folder;
    const std::string trace = folder.file("t.csv");
    Experiment experiment = two_modes();
    experiment.patterns[1].options = {{"trace", trace}};
    const auto keys = [&experiment] {
        const std::vector<PlannedRun> runs = plan_table(experiment, {0.2, 0.4});
        return std::pair(runs[0].key, runs[3].key);  // healthy, mine
    };
    replace_text_file(trace, "one");
    const auto before = keys();
    EXPECT_EQ(keys(), before);
    replace_text_file(trace, "two");
    EXPECT_EQ(keys().first, before.first);
    EXPECT_NE(keys().second, before.second);
    set_option(experiment.job, "data", "other.h5");
    EXPECT_NE(keys().first, before.first);
}

TEST(SweepPlan, TheSmallestMedianTimeWins) {
    const Experiment experiment = two_modes();
    const std::vector<TuningRow> results{
        {"ssgd", 0.1, {11, 11}, 100, 0.88},
        {"ssgd", 0.1, {12, 12}, 140, 0.88},  // median 120
        {"ssgd", 0.2, {11, 11}, 90, 0.88},
        {"ssgd", 0.2, {12, 12}, 149, 0.88},  // 119.5
    };
    EXPECT_THAT(choose_rates(experiment, results), ElementsAre(Optional(0.2), Optional(0.4)));
}

TEST(SweepPlan, NotReachedIsInfiniteAndThenAccuracyDecides) {
    Experiment experiment = two_modes();
    const auto first_choice = [&experiment](const std::vector<TuningRow>& results) {
        return choose_rates(experiment, results).front();
    };
    // One of two not reached: the median is infinite, although the other was fast.
    EXPECT_THAT(first_choice({{"ssgd", 0.1, {11, 11}, 10, 0.88},
                              {"ssgd", 0.1, {12, 12}, std::nullopt, 0.87},
                              {"ssgd", 0.2, {11, 11}, 500, 0.88},
                              {"ssgd", 0.2, {12, 12}, 500, 0.88}}),
                Optional(0.2));
    // Nobody reached it: the highest accuracy.
    EXPECT_THAT(first_choice({{"ssgd", 0.1, {11, 11}, std::nullopt, 0.70},
                              {"ssgd", 0.1, {12, 12}, std::nullopt, 0.80},
                              {"ssgd", 0.2, {11, 11}, std::nullopt, 0.60},
                              {"ssgd", 0.2, {12, 12}, std::nullopt, 0.91}}),
                Optional(0.2));
    // Equal in both: the first of the list.
    EXPECT_THAT(first_choice({{"ssgd", 0.2, {11, 11}, 7, 0.88},
                              {"ssgd", 0.2, {12, 12}, 7, 0.88},
                              {"ssgd", 0.1, {11, 11}, 7, 0.88},
                              {"ssgd", 0.1, {12, 12}, 7, 0.88}}),
                Optional(0.1));
    // A missing run: no choice yet.
    EXPECT_EQ(first_choice({{"ssgd", 0.1, {11, 11}, 7, 0.88}}), std::nullopt);
}

}  // namespace
}  // namespace cohort
