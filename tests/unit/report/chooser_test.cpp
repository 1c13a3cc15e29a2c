// Training of star-ml's regressor: regressions whose answers are known, files of runs and weights.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cohort/core/error.hpp"
#include "data/file/text_file.hpp"
#include "report/fit/chooser_training.hpp"
#include "sched/recorded/weights_file.hpp"
#include "support/core/temp_folder.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// The pace is `lost` per mean lag below what the timing model says, with a little noise.
std::vector<RateRun> known_runs(double lost) {
    std::mt19937_64 dice(7);
    std::normal_distribution<double> noise(0, 0.005);
    std::vector<RateRun> runs;
    for (const char* pattern : {"a", "b", "c"}) {
        for (int number = 0; number < 30; ++number) {
            RateRun& run = runs.emplace_back();
            run.pattern = pattern;
            for (int i = 0; i < 40; ++i) {
                RateWindow window;
                window.features[RateFeatures::kOne] = 1;
                window.features[RateFeatures::kTimedPace] = -0.1 * (i % 5);
                window.features[RateFeatures::kMeanLag] = 0.25 * (i % 4);
                window.log_rate = window.features[RateFeatures::kTimedPace] -
                                  lost * window.features[RateFeatures::kMeanLag] + noise(dice);
                run.windows.push_back(window);
            }
        }
    }
    return runs;
}

double weight_of(const NamedWeights& named, RateFeatures::Term term) {
    return RateRegressor::weights_of(named)[term];
}

TEST(ChooserTraining, FindsWhatTheTimingModelMisses) {
    const NamedWeights found = fit_rates(known_runs(0.2));
    EXPECT_NEAR(weight_of(found, RateFeatures::kMeanLag), -0.2, 0.03);
    EXPECT_NEAR(weight_of(found, RateFeatures::kTimedPace), 1, 0.03);
    EXPECT_EQ(weight_of(found, RateFeatures::kSampleWorth), 1) << "nothing was seen of it";
    EXPECT_EQ(weight_of(found, RateFeatures::kBalanced), 0);
    EXPECT_THAT(found.trained_on, HasSubstr("3600 windows of 90 runs, 3 patterns"));
}

TEST(ChooserTraining, WhatItKnowsHelpsInPatternsThatItHasNotSeen) {
    for (const auto& [pattern, score] : score_held_out(known_runs(0.2))) {
        EXPECT_EQ(score.runs, 30U);
        EXPECT_NEAR(score.timing_model, 0.075, 0.005) << pattern;
        EXPECT_LT(score.fixed, 0.02) << pattern;
        EXPECT_LT(score.continued, 0.02) << pattern;
        EXPECT_GT(score.anew, score.continued) << pattern << ": it has to learn first";
        EXPECT_GT(score.anew_first, 2 * score.continued_first) << pattern;
        EXPECT_LT(score.anew, score.timing_model) << pattern;
    }
}

TEST(ChooserTraining, APatternsScoreDoesNotComeFromItsOwnRuns) {
    std::vector<RateRun> runs = known_runs(0.2);
    const RateScore before = score_held_out(runs).at("c");
    for (RateRun& run : runs) {
        for (RateWindow& window : run.windows) {
            window.log_rate += run.pattern == "c" ? 1 : 0;
        }
    }
    const RateScore after = score_held_out(runs).at("c");
    EXPECT_NEAR(after.fixed, 1, 0.02) << "the others say nothing of it";
    EXPECT_LT(before.fixed, 0.02);
}

/// A tenth of the windows are far off: a load that was not seen, say.
TEST(ChooserTraining, OutliersSayLittle) {
    std::vector<RateRun> runs = known_runs(0.2);
    for (RateRun& run : runs) {
        for (std::size_t i = 0; i < run.windows.size(); i += 10) {
            run.windows[i].log_rate -= 2;
        }
    }
    const NamedWeights found = fit_rates(runs);
    EXPECT_NEAR(weight_of(found, RateFeatures::kOne), 0, 0.03);
    EXPECT_NEAR(weight_of(found, RateFeatures::kMeanLag), -0.2, 0.05);
}

SimulateOptions recorded(const test::VirtualRuns& runs, const std::string& mode) {
    SimulateOptions options = runs.options(mode, 4, 400);
    options.record_rates = true;
    return options;
}

TEST(ChooserData, ComesFromVirtualRuns) {
    test::VirtualRuns virtual_runs;
    virtual_runs.slow_workers({0.1, 0.1, 0.1, 0.3});
    const TempFolder folder;
    const SimulationResult result = simulate(recorded(virtual_runs, "static:3"), {});
    ASSERT_GE(result.windows.size(), 5U);
    write_result(folder.file("one"), result);
    write_result(folder.file("none"), simulate(virtual_runs.options("static:3", 4, 400), {}));
    const std::vector<RateRun> runs = rate_runs({folder.file("one"), folder.file("none")});
    ASSERT_THAT(runs, SizeIs(1)) << "who measured nothing is left out";
    ASSERT_EQ(runs[0].windows.size(), result.windows.size());
    EXPECT_EQ(runs[0].windows[3].features.values, result.windows[3].features.values);
    EXPECT_EQ(runs[0].windows[3].plan, "static:3");
    EXPECT_THROW((void)rate_runs({folder.file("none")}), UsageError);
    EXPECT_THROW((void)rate_runs({folder.file("nowhere")}), FileError);
}

TEST(ChooserData, ComesFromTheMetricsOfRealRuns) {
    const TempFolder folder;
    std::string features;
    for (const std::string_view name : RateFeatures::kNames) {
        features += fmt::format("{}\"{}\":0.5", features.empty() ? "" : ",", name);
    }
    const std::string good = fmt::format(
        "{{\"event\":\"start\"}}\n{{\"event\":\"rate\",\"samples_applied\":64,\"train_s\":2.5,"
        "\"plan\":\"ssgd\",\"log_rate\":-0.25,\"features\":{{{}}}}}\n",
        features);
    const std::string file = folder.file("metrics.jsonl");
    replace_text_file(file, good);
    const std::vector<RateRun> runs = rate_runs({folder.path()});
    ASSERT_THAT(runs, SizeIs(1));
    ASSERT_THAT(runs[0].windows, SizeIs(1));
    EXPECT_EQ(runs[0].windows[0].log_rate, -0.25);
    EXPECT_EQ(runs[0].windows[0].features[RateFeatures::kNoiseScale], 0.5);
    replace_text_file(file, good + "{\"event\":\"rate\",\"plan\":\"ssgd\"}\n");
    EXPECT_THAT([&] { (void)rate_runs({folder.path()}); },
                ThrowsMessage<FileError>(HasSubstr("metrics.jsonl, line 3")));
}

TEST(ChooserFile, IsReadAsItWasWritten) {
    const TempFolder folder;
    const std::string file = folder.file("weights.toml");
    const NamedWeights written = fit_rates(known_runs(0.2));
    replace_text_file(file, to_toml(written));
    const auto read = load_rate_weights(file);
    EXPECT_EQ(RateRegressor::weights_of(*read), RateRegressor::weights_of(written));
    EXPECT_EQ(read->trained_on, written.trained_on);
    EXPECT_EQ(load_rate_weights(kNoChooserFile), nullptr);
}

TEST(ChooserFile, ABadOneIsNamedWithItsFault) {
    const TempFolder folder;
    const std::string file = folder.file("weights.toml");
    const std::string good = to_toml(fit_rates(known_runs(0.2)));
    const std::vector<std::pair<std::string, std::string>> wrong{
        {good + "moon = 1\n", "moon"},
        {"[weights]\none = 1\n", "no timed_pace"},
        {"[weights]\none = 'much'\n", "one is not a number"},
        {"weights = 3\n", "no weights"},
        {"[weights\n", "line 1"}};
    for (const auto& [text, fault] : wrong) {
        replace_text_file(file, text);
        EXPECT_THAT([&] { (void)load_rate_weights(file); },
                    ThrowsMessage<FileError>(AllOf(HasSubstr(fault), HasSubstr(file))))
            << fault;
    }
}

TEST(ChooserFile, TheShippedOneIsTrainedAndNearTheTimingModel) {
    const auto shipped = load_rate_weights("");
    EXPECT_THAT(shipped->trained_on, HasSubstr("windows"));
    EXPECT_NEAR(weight_of(*shipped, RateFeatures::kTimedPace), 1, 0.3);
    EXPECT_NEAR(weight_of(*shipped, RateFeatures::kSampleWorth), 1, 0.1);
}

TEST(RateRuns, RatesAndFeaturesOutOfRangeAreRefusedWithTheirLine) {
    const TempFolder folder;
    nlohmann::json line{
        {"event", "rate"}, {"train_s", 1}, {"samples_applied", 64}, {"plan", "ring"}};
    for (const std::string_view name : RateFeatures::kNames) {
        line["features"][std::string(name)] = 0.5;
    }
    line["log_rate"] = -0.25;
    const std::string good = line.dump() + "\n";
    const auto with = [&](const char* name, double value) {
        nlohmann::json other = line;
        (other.contains(name) ? other : other["features"])[name] = value;
        replace_text_file(folder.file("metrics.jsonl"), good + other.dump() + "\n");
    };
    with("log_rate", 3);
    EXPECT_EQ(rate_runs({folder.path()}).front().windows.size(), 2U);
    for (const auto& [name, value] :
         {std::pair("log_rate", 1e308), {"spread", -1e7}, {"log_rate", 1000001.0}}) {
        with(name, value);
        EXPECT_THAT([&] { (void)rate_runs({folder.path()}); },
                    ThrowsMessage<FileError>(AllOf(testing::HasSubstr("metrics.jsonl, line 2"),
                                                   testing::HasSubstr(name))))
            << name;
    }
}

}  // namespace
}  // namespace cohort
