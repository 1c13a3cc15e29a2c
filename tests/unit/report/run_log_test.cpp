// What the reader of metrics.jsonl makes of lines: whole, torn, damaged, unknown, in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "records/run/run_log.hpp"
#include "report/run/run_history.hpp"
#include "support/core/temp_folder.hpp"
#include "support/report/run_lines.hpp"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

/// Some of what a reader reported.
struct Seen {
    std::vector<TrainLine> windows;
    std::vector<RunEvaluation> evaluations;
    std::vector<SwitchReport> changes;
    std::vector<DecisionRecord> decisions;
    std::vector<RunSummary> summaries;
};

class Listener final : public RunLogVisitor {
public:
    void on_train(const TrainLine& window) override { seen.windows.push_back(window); }
    void on_evaluation(const RunEvaluation& evaluation) override {
        seen.evaluations.push_back(evaluation);
    }
    void on_change(const SwitchReport& change) override { seen.changes.push_back(change); }
    void on_decision(const DecisionRecord& decision) override {
        seen.decisions.push_back(decision);
    }
    void on_summary(const RunSummary& summary) override { seen.summaries.push_back(summary); }

    Seen seen;
};

Seen seen_in(const std::string& text) {
    Listener listener;
    RunLogReader reader("metrics.jsonl");
    reader.feed(text, listener);
    EXPECT_TRUE(reader.finish(listener));
    return listener.seen;
}

TEST(RunLog, LinesBecomeRecords) {
    const Seen seen = seen_in(
        R"({"event":"train","samples_applied":128,"updates":2,"train_s":2.5,"mode":"ssgd","live":1,)"
        R"("lag":[0.5,null],"loss":1.25,"accuracy":0.75,"noise_scale":null,"tau_s":[0.4,null],)"
        R"("wait_s":[0.1,null],"slow":["cpu",null]})"
        "\n"
        R"({"event":"switch","from":"ssgd","to":"asgd","why":"a \"reason\"","samples_applied":128,)"
        R"("requested_at":2.5,"in_force_after_s":0.25,"first_update_after_s":null})"
        "\n"
        R"({"event":"decision","to":"asgd","train_s":2.5,"stragglers":[1,3],)"
        R"("candidates":[{"plan":"asgd","rate":2},{"plan":"ssgd","rate":1}]})"
        "\n"
        R"({"event":"evaluation","samples_applied":128,"train_s":2.5,"test_r2":-0.5,"test_loss":1.5})"
        "\n"
        R"({"event":"summary","samples_applied":128,"returned_lost":64,"tta_s":null,)"
        R"("by_worker":[{"samples":100,"live":true},{"samples":28,"lost":1,"live":false}]})"
        "\n");
    ASSERT_THAT(seen.windows, SizeIs(1));
    const TrainLine& window = seen.windows[0];
    EXPECT_EQ(window.train_s, 2.5);
    EXPECT_EQ(window.loss, 1.25);
    EXPECT_TRUE(std::isnan(window.r2));
    ASSERT_THAT(window.workers, SizeIs(2));
    EXPECT_EQ(window.workers[0].lag, 0.5);
    EXPECT_EQ(window.workers[0].slow, StragglerCause::kCpu);
    EXPECT_TRUE(std::isnan(window.workers[1].lag)) << "the worker is lost";
    EXPECT_EQ(window.workers[1].slow, std::nullopt);
    ASSERT_THAT(seen.changes, SizeIs(1));
    EXPECT_EQ(seen.changes[0].why, "a \"reason\"");
    EXPECT_EQ(seen.changes[0].in_force_s, 0.25);
    EXPECT_EQ(seen.changes[0].first_update_s, std::nullopt);
    ASSERT_THAT(seen.decisions, SizeIs(1));
    EXPECT_THAT(seen.decisions[0].stragglers, ElementsAre(1, 3));
    EXPECT_EQ(seen.decisions[0].candidates.at(1).plan, "ssgd");
    ASSERT_THAT(seen.evaluations, SizeIs(1));
    EXPECT_EQ(test_quality(seen.evaluations[0]), -0.5);
    ASSERT_THAT(seen.summaries, SizeIs(1));
    EXPECT_EQ(seen.summaries[0].returned[static_cast<std::size_t>(ReturnReason::kLost)], 64);
    EXPECT_EQ(seen.summaries[0].tta_s, std::nullopt);
    EXPECT_EQ(seen.summaries[0].workers.at(1).lost, 1);
}

TEST(RunLog, AFileThatGrowsInAnyPiecesIsTheSameFile) {
    const std::string text = test::run_lines({.windows = 20});
    const std::size_t all = seen_in(text).windows.size();
    EXPECT_EQ(all, 20U);
    for (const std::size_t piece : {1U, 7U, 100U, 4096U}) {
        Listener listener;
        RunLogReader reader("metrics.jsonl");
        for (std::size_t at = 0; at < text.size(); at += piece) {
            reader.feed(std::string_view(text).substr(at, piece), listener);
        }
        EXPECT_THAT(listener.seen.windows, SizeIs(all)) << piece;
        EXPECT_EQ(listener.seen.windows.back().train_s, 20.0);
    }
}

TEST(RunLog, ATornLastLineIsLeftOutAtEveryLength) {
    const std::string whole = test::run_lines({.windows = 1});
    const std::string line = R"({"event":"train","train_s":9,"loss":1})";
    for (std::size_t length = 1; length < line.size(); ++length) {
        Listener listener;
        RunLogReader reader("metrics.jsonl");
        reader.feed(whole + line.substr(0, length), listener);
        EXPECT_FALSE(reader.finish(listener)) << length;
        EXPECT_THAT(listener.seen.windows, SizeIs(1));
    }
    EXPECT_THAT(seen_in(whole + line).windows, SizeIs(2)) << "it lacks only its line end";
}

TEST(RunLog, WhatItDoesNotKnowIsIgnored) {
    const Seen seen = seen_in(
        "{\"event\":\"moon\",\"train_s\":\"full\"}\n"
        "{\"tides\":[{}],\"event\":\"train\",\"train_s\":1,\"moon\":{\"loss\":3}}\n");
    ASSERT_THAT(seen.windows, SizeIs(1));
    EXPECT_TRUE(std::isnan(seen.windows[0].loss));
}

TEST(RunLog, ADamagedLineIsNamedWithItsFault) {
    const std::vector<std::pair<std::string, std::string>> damaged{
        {"{\"event\":\"train\",\"train_s\":1,\"los", "metrics.jsonl, line 2"},
        {"", "line 2"},
        {"3", "no object with an event"},
        {"{\"train_s\":1}", "no object with an event"},
        {"{\"event\":\"train\",\"loss\":1}", "train_s"},
        {"{\"event\":\"train\",\"train_s\":\"soon\"}", "field train_s"},
        {"{\"event\":\"train\",\"train_s\":1,\"slow\":[\"mood\"]}", "field slow"},
        {"{\"event\":\"summary\",\"by_worker\":[{\"samples\":\"many\"}]}", "field samples"},
    };
    for (const auto& [line, fault] : damaged) {
        const std::string text = "{\"event\":\"start\"}\n" + line + "\n";
        const auto read = [&text] { (void)seen_in(text); };
        EXPECT_THAT(read, ThrowsMessage<FileError>(AllOf(HasSubstr("line 2"), HasSubstr(fault),
                                                         HasSubstr("cohort train"))))
            << line;
    }
}

class RunFile : public testing::Test {
protected:
    [[nodiscard]] RunHistory read(const std::string& text) const {
        std::ofstream(folder_.file(kMetricsFile)) << text;
        return read_run(folder_.path());
    }
    TempFolder folder_;
};

TEST_F(RunFile, IsOneRunWhenItWasResumed) {
    const RunHistory run =
        read(test::run_lines({.windows = 4, .summary = false}) +
             "{\"event\":\"straggler\",\"worker\":1,\"cause\":\"cpu\",\"begin_s\":2,\"end_s\":3,"
             "\"slowdown\":2}\n"
             "{\"event\":\"resume\",\"samples_applied\":400,\"workers\":3,\"mode\":\"asgd\"}\n" +
             test::train_line(5, 2));
    ASSERT_THAT(run.parts, SizeIs(2));
    EXPECT_TRUE(run.parts[1].header.resumed);
    EXPECT_EQ(run.workers(), 3);
    EXPECT_EQ(run.end_s, 5);
    ASSERT_THAT(run.slow, SizeIs(1)) << "its end is the end of the part";
    EXPECT_EQ(run.slow[0].end_s, 4);
    EXPECT_EQ(run.summary, std::nullopt) << "it was killed";
}

TEST_F(RunFile, ThatHoldsNoRunIsRefused) {
    for (const std::string text : {"", "{\"event\":\"train\",\"train_s\":1}\n"}) {
        EXPECT_THAT([&] { (void)read(text); },
                    ThrowsMessage<FileError>(
                        AllOf(HasSubstr(kMetricsFile), HasSubstr("no run starts in this file"))));
    }
    EXPECT_THROW((void)read_run(folder_.file("nowhere")), FileError);
    EXPECT_TRUE(read("{\"event\":\"start\"}\n{\"ev").torn);
}

/// An iteration of 4 s: half of it computes, a quarter is sent and received, a quarter waits.
TEST(RunColumns, KeepTheSumsOfAllWindowsAtEveryWidth) {
    RunColumns columns;
    double seconds = 0;
    double loss_s = 0;
    for (int i = 0; i < 5000; ++i) {
        const double length = i % 3 == 0 ? 0.25 : 1.5;
        TrainLine window;
        window.train_s = seconds + length;
        window.loss = i % 7;
        window.workers.resize(1);
        window.workers[0].tau_s = 3;
        window.workers[0].compute_s = 2;
        window.workers[0].input_s = 0;
        window.workers[0].push_s = 0.5;
        window.workers[0].pull_s = 0.5;
        window.workers[0].wait_s = 1;
        columns.add(seconds, window);
        seconds += length;
        loss_s += length * window.loss;
    }
    EXPECT_LE(columns.all().size(), RunColumns::kMost);
    EXPECT_GT(columns.all().size(), RunColumns::kMost / 2);
    TimeMean loss;
    WorkerColumn worker;
    for (const RunColumn& column : columns.all()) {
        loss.add(column.loss);
        worker.seconds += column.workers.at(0).seconds;
        worker.compute_s += column.workers[0].compute_s;
        worker.transfer_s += column.workers[0].transfer_s;
        worker.wait_s += column.workers[0].wait_s;
    }
    EXPECT_NEAR(loss.seconds, seconds, 1e-6 * seconds);
    EXPECT_NEAR(loss.sum, loss_s, 1e-6 * loss_s);
    EXPECT_EQ(loss.least, 0);
    EXPECT_EQ(loss.most, 6);
    EXPECT_NEAR(worker.compute_s, worker.seconds / 2, 1e-6 * seconds);
    EXPECT_NEAR(worker.transfer_s, worker.seconds / 4, 1e-6 * seconds);
    EXPECT_NEAR(worker.wait_s, worker.seconds / 4, 1e-6 * seconds);
}

TEST(RunColumns, OfARunWithoutTimesHaveNoShares) {
    RunColumns columns;
    TrainLine window;
    window.train_s = 1;
    window.workers.resize(2);
    columns.add(0, window);
    EXPECT_EQ(columns.all().front().workers.at(1).seconds, 0);
    columns.add(1, window);
    EXPECT_NEAR(columns.all().back().loss.seconds, 0, 0) << "a window without time counts nowhere";
    EXPECT_THAT(RunColumns().all(), IsEmpty());
}

}  // namespace
}  // namespace cohort
