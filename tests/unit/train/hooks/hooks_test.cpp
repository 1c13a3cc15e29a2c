#include "cohort/train/hooks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cohort/core/error.hpp"
#include "support/core/temp_folder.hpp"
#include "support/train/fake_train_control.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

class TrainHooks : public testing::Test {
protected:
    TempFolder folder;
    FakeTrainControl run{folder.path()};

    std::vector<nlohmann::json> metrics_lines() const {
        std::ifstream file(folder.file("metrics.jsonl"));
        std::vector<nlohmann::json> lines;
        for (std::string line; std::getline(file, line);) {
            lines.push_back(nlohmann::json::parse(line));
        }
        return lines;
    }
};

TEST_F(TrainHooks, NanGuardEndsTheRunAfterFiveInARow) {
    const auto hook = make_nan_guard_hook();
    for (int i = 0; i < 4; ++i) {
        hook->on_step(run, run.dropped_step(8));
    }
    hook->on_step(run, run.step(8, 1));
    for (int i = 0; i < 4; ++i) {
        hook->on_step(run, run.dropped_step(8));
    }
    EXPECT_THROW(hook->on_step(run, run.dropped_step(8)), NumericalError);
}

TEST_F(TrainHooks, NanGuardEndsTheRunWhenOneBatchKeepsComingBack) {
    const auto hook = make_nan_guard_hook();
    const auto drive = [&] {
        for (int i = 0; i < 200; ++i) {
            hook->on_step(run, i % 4 == 0 ? run.dropped_step(8) : run.step(8, 1));
        }
    };
    EXPECT_THROW(drive(), NumericalError);
}

TEST_F(TrainHooks, NanGuardCountsDropsFromBeforeAResume) {
    for (int i = 0; i < 19; ++i) {
        (void)run.dropped_step(8);
        (void)run.step(8, 1);
    }
    FakeTrainControl resumed{folder.path()};
    resumed.run_progress = run.run_progress;
    const auto hook = make_nan_guard_hook();
    EXPECT_THROW(hook->on_step(resumed, resumed.dropped_step(8)), NumericalError);
    for (int i = 0; i < 100; ++i) {
        (void)run.step(8, 1);
    }
    make_nan_guard_hook()->on_step(run, run.dropped_step(8));
    EXPECT_EQ(run.run_progress.drops.recent.size(), 1U) << "older ones are forgotten";
}

TEST_F(TrainHooks, NanGuardStaysSilentOnRareDrops) {
    const auto hook = make_nan_guard_hook();
    for (int i = 0; i < 1000; ++i) {
        hook->on_step(run, i % 10 == 0 ? run.dropped_step(8) : run.step(8, 1));
    }
    EXPECT_EQ(run.stop, std::nullopt);
}

TEST_F(TrainHooks, TargetStopsAtTheAccuracyAndNotBelow) {
    run.run_options.target_accuracy = 0.9;
    run.run_progress.train_seconds = 15;
    const auto hook = make_target_hook();
    hook->on_evaluation(run, {.accuracy = 0.8999, .train_seconds = 10});
    EXPECT_EQ(run.stop, std::nullopt);
    hook->on_evaluation(run, {.accuracy = 0.9, .train_seconds = 12});
    EXPECT_EQ(run.stop, StopReason::kTarget);
    EXPECT_EQ(run.run_progress.tta_seconds, 12);
}

TEST_F(TrainHooks, TargetStopsAtTheLossAndNotAbove) {
    run.run_options.target_loss = 1.5;
    run.run_progress.train_seconds = 15;
    const auto hook = make_target_hook();
    hook->on_evaluation(run, {.accuracy = 1, .loss = 1.5001, .train_seconds = 10});
    EXPECT_EQ(run.stop, std::nullopt);
    hook->on_evaluation(run, {.loss = 1.5, .train_seconds = 12});
    EXPECT_EQ(run.stop, StopReason::kTarget);
    EXPECT_EQ(run.run_progress.tta_seconds, 12);
}

TEST_F(TrainHooks, NoTargetNeverStops) {
    make_target_hook()->on_evaluation(run, {.accuracy = 1});
    EXPECT_EQ(run.stop, std::nullopt);
}

TEST_F(TrainHooks, StopHookAsksAfterEveryStep) {
    bool wanted = false;
    const auto hook = make_stop_hook([&] { return wanted; });
    hook->on_step(run, run.step(1, 1));
    EXPECT_EQ(run.stop, std::nullopt);
    wanted = true;
    hook->on_step(run, run.step(1, 1));
    EXPECT_EQ(run.stop, StopReason::kSignal);
}

TEST_F(TrainHooks, PlainProgressComesEveryPeriodWithRateAndEta) {
    run.run_options.log_every_s = 5;
    std::vector<std::string> lines;
    const auto hook =
        make_progress_hook(false, [&](const std::string& line) { lines.push_back(line); });
    hook->on_start(run);
    for (int i = 0; i < 10; ++i) {
        hook->on_step(run, run.step(20, 1, 0.5));
    }
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0], "10.0 %  loss 0.5000  accuracy 50.00 %  20/s  eta 0:45");
    EXPECT_THAT(lines[1], testing::StartsWith("20.0 %  "));
}

TEST_F(TrainHooks, PerplexityIsToldOfTextAlone) {
    for (const bool text : {false, true}) {
        const TempFolder other;
        FakeTrainControl control{other.path(), text ? Task::kLanguage : Task::kClassification};
        control.run_options.log_every_s = 5;
        std::string shown;
        const auto progress =
            make_progress_hook(false, [&](const std::string& line) { shown = line; });
        const auto metrics = make_metrics_hook();
        progress->on_start(control);
        metrics->on_start(control);
        const StepReport step = control.step(20, 5, std::log(12.5));
        progress->on_step(control, step);
        control.tell_step(*metrics, step);
        control.tell_evaluation(*metrics, {.loss = std::log(20.0), .samples = 10});
        EXPECT_EQ(shown.find("loss 2.5257  perplexity 12.50") != std::string::npos, text) << shown;
        std::ifstream file(other.file("metrics.jsonl"));
        for (const auto& [name, value] :
             {std::pair("perplexity", 12.5), {"test_perplexity", 20.0}}) {
            std::string line;
            ASSERT_TRUE(std::getline(file, line));
            const auto json = nlohmann::json::parse(line);
            ASSERT_EQ(json.contains(name), text) << line;
            EXPECT_NEAR(json.value(name, value), value, 1e-9);
        }
    }
}

TEST_F(TrainHooks, ProgressLeavesEvaluationPausesOutOfTheRate) {
    std::vector<std::string> lines;
    const auto hook =
        make_progress_hook(false, [&](const std::string& line) { lines.push_back(line); });
    hook->on_start(run);
    hook->on_step(run, run.step(20, 1));
    run.virtual_clock.advance(Clock::Seconds(100));
    hook->on_evaluation(run, {.seconds = 100});
    for (int i = 0; i < 4; ++i) {
        hook->on_step(run, run.step(20, 1));
    }
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_THAT(lines[0], HasSubstr(" 20/s"));
}

TEST_F(TrainHooks, TerminalLineIsRedrawnBetweenPeriods) {
    int drawn = 0;
    const auto hook = make_progress_hook(true, [&](const std::string&) { ++drawn; });
    hook->on_start(run);
    for (int i = 0; i < 8; ++i) {
        hook->on_step(run, run.step(1, 0.125));
    }
    EXPECT_EQ(drawn, 4);
}

TEST_F(TrainHooks, TheLineNamesTheLatestWorkerAndTheLost) {
    run.run_options.log_every_s = 1;
    std::vector<std::string> lines;
    const auto hook =
        make_progress_hook(true, [&](const std::string& line) { lines.push_back(line); });
    hook->on_start(run);
    hook->on_step(run, run.step(20, 1));
    run.cluster_report = {.mode = "static:2", .pending = 2, .workers = {}};
    run.cluster_report.workers.resize(4);
    run.cluster_report.workers[2].lag = 1.75;
    run.cluster_report.workers[3] = {.live = false, .lag = 9};
    run.run_options.compute = "sleep:40ms";
    hook->on_step(run, run.step(20, 1));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_THAT(lines[0], testing::Not(HasSubstr("lag")));
    EXPECT_EQ(lines[1], "[sleep:40ms]  4.0 %  20/s  eta 0:48  1 lost  lag 1.75 (worker 2)");
}

/// A line of the log begins with 19 columns of time and level; who is slow is worth more than the
/// accuracy.
TEST_F(TrainHooks, TheLineFitsEightyColumnsAndTellsWhatMatters) {
    run.run_options.log_every_s = 1;
    run.cluster_report.workers.resize(24);
    run.cluster_report.workers[23].live = false;
    run.cluster_report.loads.resize(24);
    for (const int slow : {3, 5, 7}) {
        run.cluster_report.loads[static_cast<std::size_t>(slow)].slow = {
            .worker = slow, .cause = StragglerCause::kBandwidth, .slowdown = 2.0 + slow};
    }
    for (const bool terminal : {false, true}) {
        std::string shown;
        const auto hook =
            make_progress_hook(terminal, [&](const std::string& line) { shown = line; });
        hook->on_start(run);
        hook->on_step(run, run.step(2, 1, 123.4567));
        EXPECT_LE(shown.size(), terminal ? 79U : 61U) << shown;
        EXPECT_THAT(shown, HasSubstr("1 lost  slow: 7 (bandwidth x9.00) +2"));
        EXPECT_THAT(shown, HasSubstr("loss 123.4567"));
    }
}

TEST_F(TrainHooks, MetricsRecordSwitchesAndRanks) {
    const auto hook = make_metrics_hook();
    hook->on_start(run);
    hook->on_switch(run, {.from = "ssgd",
                          .to = "asgd",
                          .why = "request",
                          .samples = 100,
                          .train_seconds = 3,
                          .in_force_s = 0.25,
                          .first_update_s = 0.75,
                          .slowest_own_s = 0.5});
    hook->on_switch(run, {.from = "dynamic", .to = "dynamic", .why = "clusters"});
    hook->on_rank(run, {.rank = 3, .worker = 2, .reason = "rank 3 has died", .live = 3});
    hook->on_rank(run, {.rank = 3, .worker = 2, .returned = true, .live = 4});
    const auto lines = metrics_lines();
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0]["event"], "switch");
    EXPECT_EQ(lines[0]["to"], "asgd");
    EXPECT_DOUBLE_EQ(lines[0]["in_force_after_s"], 0.25);
    EXPECT_DOUBLE_EQ(lines[0]["first_update_after_s"], 0.75);
    EXPECT_EQ(lines[1]["event"], "regrouping");
    EXPECT_TRUE(lines[1]["in_force_after_s"].is_null());
    EXPECT_EQ(lines[2]["event"], "lost");
    EXPECT_EQ(lines[2]["worker"], 2);
    EXPECT_EQ(lines[3]["event"], "joined");
    EXPECT_EQ(lines[3]["live"], 4);
}

TEST_F(TrainHooks, MetricsRecordWhatGradientsTell) {
    run.run_options.log_every_s = 1;
    const auto hook = make_metrics_hook();
    hook->on_start(run);
    run.tell_step(*hook, run.step(20, 1));
    run.cluster_report.gradients = {.noise_scale = 256};
    run.tell_step(*hook, run.step(20, 1));
    const auto lines = metrics_lines();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_TRUE(lines[0]["noise_scale"].is_null());
    EXPECT_EQ(lines[1]["noise_scale"], 256);
}

/// The same samples fail while others do not: they are to blame, and not the learning rate.
TEST_F(TrainHooks, NanGuardNamesTheSamples) {
    run.run_options.data = "bad.h5";
    const auto hook = make_nan_guard_hook();
    const auto drop = [&](bool others_finite) {
        StepReport step = run.dropped_step(8);
        step.failed_again = {3, 77};
        step.others_finite = others_finite;
        hook->on_step(run, step);
    };
    for (int i = 0; i < 4; ++i) {
        drop(true);
    }
    const auto last = [&](bool others_finite, const std::string& words) {
        EXPECT_THAT([&] { drop(others_finite); },
                    testing::ThrowsMessage<NumericalError>(testing::AllOf(
                        HasSubstr("2 train samples of bad.h5: 3, 77"), HasSubstr(words))));
    };
    last(true, "to mend or to leave out these samples");
    last(false, "a lower --lr");
}
TEST_F(TrainHooks, NanGuardNamesTheWorkers) {
    run.cluster_report.workers.resize(3);
    run.cluster_report.workers[1].refused[static_cast<std::size_t>(ReturnReason::kNonFinite)] = 5;
    const auto hook = make_nan_guard_hook();
    for (int i = 0; i < 4; ++i) {
        hook->on_step(run, run.dropped_step(8));
    }
    EXPECT_THAT([&] { hook->on_step(run, run.dropped_step(8)); },
                testing::ThrowsMessage<NumericalError>(HasSubstr("worker 1: 5")));
}

TEST_F(TrainHooks, OfARegressionR2IsToldInPlaceOfAccuracy) {
    FakeTrainControl regression{folder.path(), Task::kRegression};
    regression.run_options.log_every_s = 1;
    std::vector<std::string> told;
    const auto progress =
        make_progress_hook(false, [&](const std::string& line) { told.push_back(line); });
    const auto metrics = make_metrics_hook();
    for (const auto& hook : {progress.get(), metrics.get()}) {
        hook->on_start(regression);
    }
    const StepReport step = regression.step(10, 1, 0.25);
    progress->on_step(regression, step);
    regression.tell_step(*metrics, step);
    regression.tell_evaluation(*metrics, {.loss = 1.5});
    EXPECT_THAT(told.front(), testing::AllOf(HasSubstr("loss 0.2500  R2 0.7500"),
                                             testing::Not(HasSubstr("accuracy"))));
    const auto lines = metrics_lines();
    EXPECT_DOUBLE_EQ(lines[0]["r2"], 0.75);
    EXPECT_FALSE(lines[0].contains("accuracy"));
    EXPECT_DOUBLE_EQ(lines[1]["test_r2"], -0.5);
    EXPECT_DOUBLE_EQ(lines[1]["test_loss"], 1.5);
    EXPECT_FALSE(lines[1].contains("test_accuracy"));
}

TEST_F(TrainHooks, MetricsRecordWindowsEvaluationsAndDrops) {
    run.run_options.log_every_s = 2;
    const auto hook = make_metrics_hook();
    hook->on_start(run);
    run.tell_step(*hook, run.step(10, 1, 2.0));
    run.tell_step(*hook, run.step(30, 1, 1.0));
    run.tell_step(*hook, run.dropped_step(8));
    run.tell_step(*hook, run.step(10, 1, 3.0));
    run.tell_evaluation(
        *hook, {.accuracy = 0.5, .loss = 1.5, .samples = 7, .seconds = 0, .samples_applied = 40});
    run.tell_end(*hook, StopReason::kBudget);
    const auto lines = metrics_lines();
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0]["event"], "train");
    EXPECT_DOUBLE_EQ(lines[0]["loss"], 1.25);
    EXPECT_DOUBLE_EQ(lines[0]["samples_per_s"], 20);
    EXPECT_EQ(lines[1]["event"], "dropped");
    EXPECT_EQ(lines[2]["event"], "train");
    EXPECT_EQ(lines[2]["samples_applied"], 50);
    EXPECT_EQ(lines[3]["event"], "evaluation");
    EXPECT_DOUBLE_EQ(lines[3]["test_accuracy"], 0.5);
    EXPECT_EQ(lines[3]["samples_applied"], 40) << "where the snapshot was taken";
}

}  // namespace
}  // namespace cohort
