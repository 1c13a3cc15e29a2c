#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "core/system/run_lock.hpp"
#include "data/file/text_file.hpp"
#include "data/hdf5/store.hpp"
#include "report/sweep/sweep.hpp"
#include "support/core/temp_folder.hpp"

// The program that the sweeps here start is this test itself: with the word `simulate` it writes a
// result that it makes up from its options.

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

SimulateOptions options_of(const OptionList& list) {
    SimulateOptions options;
    options.no_train = true;
    options.mode = option_of(list, "mode");
    options.pattern = option_of(list, "pattern");
    options.seed = std::stoull(option_of(list, "seed"));
    options.pattern_seed = std::stoull(option_of(list, "pattern-seed"));
    options.samples = std::stoll(option_of(list, "samples"));
    options.target_accuracy = 0.9;
    if (const std::string lr = option_of(list, "lr"); !lr.empty()) {
        options.lr = std::stod(lr);
    }
    return options;
}

SimulationResult made_up_result(const SimulateOptions& options) {
    SimulationResult result;
    result.options = option_values(resolved(options));
    result.command = command_text(resolved(options));
    result.stop_reason = "target";
    result.virtual_s = 10 + 100 * std::abs(options.lr - 0.1) + static_cast<double>(options.seed);
    result.tta_virtual_s = result.virtual_s;
    result.samples_applied = options.samples;
    result.samples_to_target = options.samples / 2;
    result.accuracy = 0.9;
    result.events = 10;
    result.digest = options.seed;
    result.workers.resize(2);
    result.workers[0].pushes = 3;
    result.workers[0].lag_sum = 1.5;
    result.workers[0].lag_max = 1;
    result.workers[1].pushes = 1;
    result.worker_cpu_s = {2, 4};
    result.worker_bytes = {100, 300};
    result.worker_wait_s = {0, result.virtual_s};
    result.worker_busy_s = {1, 1};
    result.servers.push_back({.node = 0, .cpu_core_s = 5, .rx_bytes = 10, .tx_bytes = 20});
    result.switches.push_back({.from = "a", .to = "b"});
    result.switches.push_back({.from = "b", .to = "b"});
    result.wall_s = 0.5;
    return result;
}

/// What `simulate` does in this program.
int simulate_made_up(const std::vector<std::string>& words) {
    OptionList list;
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        list.emplace_back(word.substr(2, equals - 2),
                          equals == std::string::npos ? "true" : word.substr(equals + 1));
    }
    const std::string out = option_of(list, "out");
    const std::string calls = out + "/calls";
    std::filesystem::create_directories(out);
    std::fclose(std::fopen(calls.c_str(), "a"));
    const std::string pattern = option_of(list, "pattern");
    if (pattern == "fails" && !std::filesystem::exists(out + "/../../mended")) {
        std::puts("first words\n12:00 info  options:\n12:00 error this run cannot be");
        return 3;
    }
    if (pattern == "slow" && !std::filesystem::exists(out + "/../../mended")) {
        std::this_thread::sleep_for(std::chrono::minutes(1));
    }
    write_result(out, made_up_result(options_of(list)));
    return 0;
}

Experiment small_experiment(const std::vector<std::string>& patterns) {
    Experiment experiment;
    experiment.title = "Small";
    experiment.job = {{"samples", "1000"}, {"no-train", "true"}};
    experiment.modes = {{.name = "one", .options = {{"mode", "ssgd"}}, .lr = {0.2, 0.1, 0.4}},
                        {.name = "two", .options = {{"mode", "asgd"}}, .fixed = false}};
    for (const std::string& pattern : patterns) {
        experiment.patterns.push_back({.name = pattern, .options = {{"pattern", pattern}}});
    }
    experiment.seeds = {{1, 1}, {2, 5}};
    experiment.tuning.seeds = {{11, 11}};
    return experiment;
}

class SweepRun : public testing::Test {
protected:
    SweepHooks hooks() {
        return {.options = [](const PlannedRun& run) { return options_of(run.options); },
                .progress =
                    [this](const SweepProgress& progress) {
                        last_ = progress;
                        most_running_ = std::max(most_running_, progress.running);
                    },
                .failed = [this](const FailedRun& run) { failed_.push_back(run.last_lines); },
                .stop_requested = [this] { return last_.done >= stop_after_ || hurry_; }};
    }

    SweepOutcome sweep(const Experiment& experiment) {
        last_ = {};
        return run_sweep(experiment, {.out = folder_.path(), .jobs = 2}, hooks());
    }

    [[nodiscard]] std::string csv() const { return read_text_file(folder_.file("results.csv")); }

    TempFolder folder_;
    SweepProgress last_;
    std::size_t most_running_ = 0;
    std::size_t stop_after_ = 1000;
    bool hurry_ = false;
    std::vector<std::string> failed_;
};

TEST_F(SweepRun, DoesTuningAndTableAndWritesBoth) {
    const SweepOutcome outcome = sweep(small_experiment({"healthy", "other"}));
    EXPECT_FALSE(outcome.stopped);
    EXPECT_TRUE(outcome.failed.empty());
    EXPECT_EQ(outcome.found, 0U);
    EXPECT_EQ(last_.total, 3U + 8U);
    EXPECT_EQ(last_.done, 11U);
    EXPECT_EQ(most_running_, 2U);
    ASSERT_EQ(outcome.results.rows.size(), 8U);
    EXPECT_EQ(outcome.results.rows[0].lr, 0.1) << "the fastest of three";
    EXPECT_EQ(outcome.results.rows[7].lr, SimulateOptions().lr);
    EXPECT_EQ(outcome.results.rows[3].seed, (ExperimentSeed{2, 5}));
    const std::string tuning = read_text_file(folder_.file("tuning.csv"));
    EXPECT_THAT(tuning,
                HasSubstr("mode,lr,seed,pattern_seed,tta_virtual_s,accuracy,chosen,command\n"
                          "one,0.2,11,11,31,0.9,0,"));
    EXPECT_THAT(tuning, HasSubstr("one,0.1,11,11,21,0.9,1,"));
    EXPECT_THAT(modes_at_edge(outcome.results), testing::ElementsAre("one")) << "0.1 of 0.1 to 0.4";
    Experiment wider = small_experiment({"healthy", "other"});
    wider.modes[0].lr = {0.2, 0.1, 0.4, 0.05};
    EXPECT_TRUE(modes_at_edge(sweep(wider).results).empty()) << "0.1 of 0.05 to 0.4";
    wider.modes[0].lr = {0.2, 0.1};
    EXPECT_TRUE(modes_at_edge(sweep(wider).results).empty()) << "of two each is at an end";
}

TEST_F(SweepRun, ColumnsHoldWhatTheResultSays) {
    (void)sweep(small_experiment({"healthy"}));
    const std::string text = csv();
    EXPECT_EQ(
        text.substr(0, text.find('\n')),
        "mode,pattern,seed,pattern_seed,lr,target_accuracy,target_loss,budget_samples,stop_reason,"
        "tta_virtual_s,samples_to_target,virtual_s,accuracy,samples,samples_per_s,"
        "ideal_samples_per_s,updates,lag_mean,lag_max,returned_dropped,returned_non_finite,"
        "returned_interrupted,returned_lost,"
        "returned_void_round,returned_stop,worker_cpu_per_s,worker_bytes_per_s,"
        "worker_wait_share,server_cpu_per_s,server_rx_bytes_per_s,server_tx_bytes_per_s,"
        "server_busy_share,switches,regroupings,events,digest,command,wall_s,events_per_s");
    // By hand: 12 virtual seconds; lags 1.5 over 4 pushes; workers 6 core seconds and 400 bytes
    // over two of them; one of two waited all the time; server 5 core seconds, 10 and 20 bytes.
    EXPECT_THAT(text,
                HasSubstr("one,healthy,2,5,0.1,0.9,0,1000,target,12,500,12,0.9,1000,83.3333333,,"
                          "0,0.375,1,0,0,0,0,0,0,0.25,16.6666667,0.5,0.416666667,"
                          "0.833333333,1.66666667,0,1,1,10,0000000000000002,"));
    EXPECT_THAT(text, HasSubstr(",0.5,20\n"));
}

TEST_F(SweepRun, WhatIsThereIsNotDoneAgain) {
    const Experiment experiment = small_experiment({"healthy", "other"});
    (void)sweep(experiment);
    const std::string before = csv();
    const SweepOutcome again = sweep(experiment);
    EXPECT_EQ(again.found, 11U);
    EXPECT_EQ(csv(), before);
    Experiment longer = experiment;
    longer.seeds.push_back({3, 3});
    EXPECT_EQ(sweep(longer).found, 11U) << "one more seed: only its runs";
    set_option(longer.job, "samples", "2000");
    EXPECT_EQ(sweep(longer).found, 0U) << "other options: all runs";
}

TEST_F(SweepRun, AStoppedSweepGoesOnToTheSameTable) {
    const Experiment experiment = small_experiment({"healthy", "other"});
    (void)sweep(experiment);
    const std::string whole = csv();
    const std::string tuning = read_text_file(folder_.file("tuning.csv"));
    std::filesystem::remove_all(folder_.file("runs"));
    stop_after_ = 2;
    EXPECT_TRUE(sweep(experiment).stopped);
    EXPECT_NE(read_text_file(folder_.file("tuning.csv")), tuning);
    stop_after_ = 6;
    const SweepOutcome outcome = sweep(experiment);
    EXPECT_TRUE(outcome.stopped);
    EXPECT_GE(outcome.found, 2U);
    EXPECT_LT(outcome.results.rows.size(), 8U);
    EXPECT_EQ(outcome.results.planned, 8);
    stop_after_ = 1000;
    EXPECT_FALSE(sweep(experiment).stopped);
    EXPECT_EQ(csv(), whole);
    EXPECT_EQ(read_text_file(folder_.file("tuning.csv")), tuning);
}

TEST_F(SweepRun, FinishedRowsStayWhileALongerListIsSearched) {
    Experiment experiment = small_experiment({"healthy", "other"});
    (void)sweep(experiment);
    const std::string whole = csv();
    experiment.modes[0].lr = {0.2, 0.1, 0.4};
    for (int more = 1; more <= 12; ++more) {
        experiment.modes[0].lr.push_back(more);
    }
    stop_after_ = 4;  // three rates of before and at most two more in each call
    for (int call = 0; call < 2; ++call) {
        const SweepOutcome outcome = sweep(experiment);
        EXPECT_TRUE(outcome.stopped);
        EXPECT_EQ(outcome.results.rows.size(), 8U);
        EXPECT_EQ(csv(), whole) << "the rows with the rate of before";
        EXPECT_THAT(read_sweep_results(folder_.path()).waiting, testing::ElementsAre("one"));
    }
    experiment.seeds.push_back({3, 3});
    (void)sweep(experiment);
    EXPECT_EQ(read_sweep_results(folder_.path()).planned, 12) << "of the plan as it is now";
    EXPECT_EQ(read_sweep_results(folder_.path()).rows.size(), 8U);
    stop_after_ = 1000;
    EXPECT_EQ(sweep(experiment).results.rows.size(), 12U);
    EXPECT_TRUE(read_sweep_results(folder_.path()).waiting.empty());
}

TEST_F(SweepRun, FailedRunsAreReportedWithTheirLastLinesAndTriedAgain) {
    const Experiment experiment = small_experiment({"healthy", "fails"});
    const SweepOutcome outcome = sweep(experiment);
    ASSERT_EQ(outcome.failed.size(), 4U);
    EXPECT_EQ(outcome.failed[0].code, 3);
    EXPECT_EQ(failed_.at(0), "12:00 error this run cannot be");
    EXPECT_EQ(outcome.results.rows.size(), 4U);
    replace_text_file(folder_.file("mended"), "");
    const SweepOutcome again = sweep(experiment);
    EXPECT_TRUE(again.failed.empty());
    EXPECT_EQ(again.found, 7U);
    EXPECT_EQ(again.results.rows.size(), 8U);
}

TEST_F(SweepRun, StoppingEndsTheChildren) {
    Experiment experiment = small_experiment({"slow"});
    experiment.modes[0].lr = {0.1};
    const SweepHooks all = hooks();
    SweepHooks stopping = all;
    stopping.progress = [&](const SweepProgress& progress) {
        hurry_ = progress.running == 2;
        all.progress(progress);
    };
    const SteadyClock clock;
    const Clock::Seconds begin = clock.now();
    const SweepOutcome outcome =
        run_sweep(experiment, {.out = folder_.path(), .jobs = 2}, stopping);
    EXPECT_TRUE(outcome.stopped);
    EXPECT_TRUE(outcome.failed.empty()) << "stopped is not failed";
    EXPECT_LT((clock.now() - begin).count(), 30);
}

TEST_F(SweepRun, ATornResultAndOneCutShortAreMadeAgain) {
    const Experiment experiment = small_experiment({"healthy"});
    (void)sweep(experiment);
    const std::vector<PlannedRun> runs = plan_table(experiment, {0.1, std::nullopt});
    const auto path = [&](std::size_t run) { return folder_.file("runs/" + runs.at(run).key); };
    replace_text_file(path(0) + "/result.h5", "torn");
    SimulationResult cut = made_up_result(options_of(runs.at(1).options));
    cut.stop_reason = "signal";
    write_result(path(1), cut);
    EXPECT_EQ(sweep(experiment).found, 7U - 2U);
}

/// An older program's result: it does not know an option that there is now.
TEST_F(SweepRun, AnOptionThatAResultDoesNotKnowHadItsDefault) {
    const Experiment experiment = small_experiment({"healthy"});
    (void)sweep(experiment);
    const std::vector<PlannedRun> runs = plan_table(experiment, {0.1, std::nullopt});
    const auto forget = [&](const std::string& name) {
        for (const PlannedRun& run : runs) {
            SimulationResult result = made_up_result(options_of(run.options));
            std::erase_if(result.options, [&](const auto& option) { return option.first == name; });
            write_result(folder_.file("runs/" + run.key), result);
        }
    };
    forget("node-staging");
    EXPECT_EQ(sweep(experiment).found, 7U);
    forget("samples");  // whose default is not what is wanted
    EXPECT_EQ(sweep(experiment).found, 3U) << "the search's";
}

TEST_F(SweepRun, TwoSweepsInOneFolderAreRefused) {
    const RunLock other(folder_.path());
    EXPECT_THROW((void)sweep(small_experiment({"healthy"})), UsageError);
}

TEST_F(SweepRun, OptionsThatCannotBeAreFoundBeforeTheFirstRun) {
    SweepHooks checking = hooks();
    checking.options = [](const PlannedRun& run) -> SimulateOptions {
        if (option_of(run.options, "mode") == "asgd" && run.pattern == "other") {
            throw UsageError("[--pattern] no");
        }
        SimulateOptions options;
        options.no_train = true;
        return options;
    };
    EXPECT_THAT(
        [&] {
            check_experiment(small_experiment({"healthy", "other"}), checking);
        },
        ThrowsMessage<UsageError>(HasSubstr("[mode two, pattern other] cannot be simulated")));
}

TEST(SweepTable, ListsOfSeveralLengthsAreRefused) {
    const TempFolder folder;
    const auto lines = [](std::string_view text) {
        const auto bytes = std::as_bytes(std::span(text));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    {
        Hdf5Thread thread;
        StoreWriter store(folder.file(kSweepFile), {"cohort-sweep", 1}, thread);
        store.set("/", "title", std::string("two modes, one of them without a role"));
        store.set("/", "planned", std::int64_t{0});
        store.put("/modes/name", lines("ssgd\nasgd\n"));
        store.put("/modes/mode", lines("ssgd\nasgd\n"));
        store.put("/modes/role", lines("ours\n"));
        for (const char* name : {"cites", "fixed", "reference", "waiting"}) {
            store.put(std::string("/modes/") + name, lines("\n\n"));
        }
        store.commit();
    }
    EXPECT_THROW((void)read_sweep_results(folder.path()), FileError);
    EXPECT_TRUE(rates_of_table(folder.path()).empty());
}

TEST_F(SweepRun, ResultsAreReadBackFromTheFolder) {
    const Experiment experiment = small_experiment({"healthy", "other"});
    const SweepOutcome outcome = sweep(experiment);
    const SweepResults back = read_sweep_results(folder_.path());
    EXPECT_EQ(back.title, "Small");
    EXPECT_EQ(back.planned, 8);
    ASSERT_EQ(back.modes.size(), 2U);
    EXPECT_EQ(back.modes[1].name, "two");
    EXPECT_FALSE(back.modes[1].fixed);
    EXPECT_EQ(back.patterns, (std::vector<std::string>{"healthy", "other"}));
    EXPECT_EQ(back.seeds, experiment.seeds);
    EXPECT_EQ(results_csv(back), results_csv(outcome.results));
    EXPECT_EQ(tuning_csv(back), tuning_csv(outcome.results));
    const SweepResults single = results_of_files({back.rows[0].file, back.rows[5].file});
    ASSERT_EQ(single.rows.size(), 2U);
    EXPECT_EQ(single.modes[0].name, "ssgd");
    EXPECT_EQ(single.modes[1].name, "asgd");
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "simulate") {
        return cohort::simulate_made_up({words.begin() + 1, words.end()});
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
