#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/train/hooks.hpp"
#include "support/core/temp_folder.hpp"
#include "support/train/fake_train_control.hpp"
#include "train/hooks/trace_recorder.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 32;

/// Workers that push one after the other.
class Workers {
public:
    explicit Workers(int count)
        : recorder(count, kBatch), now_s(static_cast<std::size_t>(count), 100) {}

    /// `count` pushes of a worker, each of this computing, input and sending time.
    void push(int worker, int count, double compute_s, double input_s = 0.001,
              double sending_s = 0.002, std::int64_t samples = kBatch) {
        for (int i = 0; i < count; ++i) {
            double& now = now_s[static_cast<std::size_t>(worker)];
            const double own_s = compute_s + input_s + sending_s;
            now += own_s;
            recorder.timed({.worker = worker,
                            .samples = samples,
                            .input_s = input_s,
                            .compute_s = compute_s,
                            .push_s = sending_s},
                           now);
        }
    }

    TraceRecorder recorder;
    std::vector<double> now_s;
};

TraceTarget worker(int index) {
    return {.kind = TraceTarget::Kind::kWorker, .index = index};
}

TEST(TraceRecorder, ASteadyClusterHasNoRows) {
    Workers workers(3);
    for (int each = 0; each < 3; ++each) {
        workers.push(each, 50, 0.1);
    }
    EXPECT_TRUE(workers.recorder.rows().empty());
    EXPECT_TRUE(TraceRecorder(2, kBatch).rows().empty());
}

TEST(TraceRecorder, ASlowWorkerHasTheShareOfItsSpeed) {
    Workers workers(3);
    workers.push(0, 100, 0.1);
    workers.push(1, 40, 0.25);
    workers.push(2, 100, 0.102);  // noise
    const std::vector<TraceRow> rows = workers.recorder.rows();
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].target, worker(1));
    EXPECT_EQ(rows[0].time_s, 0);
    EXPECT_NEAR(rows[0].shares.device, 0.4, 1e-9);
    EXPECT_EQ(rows[0].shares.delay_s, 0);
}

TEST(TraceRecorder, SmallerBatchesAreNoFasterDevices) {
    Workers workers(2);
    workers.push(0, 50, 0.1);
    workers.push(1, 50, 0.05, 0.001, 0.002, kBatch / 2);
    EXPECT_TRUE(workers.recorder.rows().empty());
}

TEST(TraceRecorder, WaitingForInputAndSendingAreDelays) {
    Workers workers(2);
    workers.push(0, 50, 0.1);
    workers.push(1, 50, 0.1, 0.031, 0.022);
    const std::vector<TraceRow> rows = workers.recorder.rows();
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].shares.device, 1);
    EXPECT_NEAR(rows[0].shares.delay_s, 0.05, 1e-9);
}

TEST(TraceRecorder, ChangesBecomeRowsAtTheBeginningOfTheFirstSlowPush) {
    Workers workers(2);
    workers.push(0, 200, 0.1, 0, 0);
    workers.push(1, 50, 0.1, 0, 0);  // until 5 s
    workers.push(1, 20, 0.2, 0, 0);  // until 9 s
    workers.push(1, 1, 0.5, 0, 0);   // a blip
    workers.push(1, 50, 0.1, 0, 0);
    const std::vector<TraceRow> rows = workers.recorder.rows();
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_NEAR(rows[0].time_s, 5, 1e-9);
    EXPECT_NEAR(rows[0].shares.device, 0.5, 1e-9);
    EXPECT_NEAR(rows[1].time_s, 9, 1e-9);
    EXPECT_NEAR(rows[1].shares.device, 0.2, 1e-9);
    EXPECT_NEAR(rows[2].time_s, 9.5, 1e-9);
    EXPECT_EQ(rows[2].shares, Shares{});
}

/// A change by a fifth counts once a second push says the same; a single one is noise.
TEST(TraceRecorder, ASmallChangeCountsWhenItLasts) {
    Workers workers(2);
    workers.push(0, 100, 0.1, 0, 0);
    workers.push(1, 20, 0.1, 0, 0);
    workers.push(1, 1, 0.125, 0, 0);
    workers.push(1, 20, 0.1, 0, 0);
    EXPECT_TRUE(workers.recorder.rows().empty());
    workers.push(1, 20, 0.125, 0, 0);
    const std::vector<TraceRow> rows = workers.recorder.rows();
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_NEAR(rows[0].shares.device, 0.8, 0.01);
    EXPECT_NEAR(rows[0].time_s, 40 * 0.1 + 0.125, 1e-9);
}

TEST(TraceRecorder, MemoryIsBoundedAndTheMeanStaysRight) {
    Workers workers(2);
    workers.push(0, 100, 0.1, 0, 0);
    for (int i = 0; i < 20'000; ++i) {
        workers.push(1, 1, i % 2 == 0 ? 0.1 : 0.3, 0, 0);
    }
    const std::vector<TraceRow> rows = workers.recorder.rows();
    EXPECT_LE(rows.size(), TraceRecorder::kMostStretches + 1);
    ASSERT_FALSE(rows.empty());
    EXPECT_NEAR(rows[0].shares.device, 0.5, 0.01) << "the older ones are put together";
}

TEST(TraceRecorder, PushesWithoutSamplesAreNotPushes) {
    Workers workers(1);
    workers.push(0, 5, 0.1);
    workers.push(0, 5, 0.9, 0.001, 0.002, 0);
    EXPECT_TRUE(workers.recorder.rows().empty());
}

class TraceHookTest : public testing::Test {
protected:
    void SetUp() override {
        run.run_options.record_trace = folder.file("trace.csv");
        run.run_options.batch = kBatch;
        run.cluster_report.workers.resize(2);
    }
    void push(TrainHook& hook, int worker, double own_s) {
        run.virtual_clock.advance(Clock::Seconds(own_s));
        hook.on_push(run, {.worker = worker, .samples = kBatch, .compute_s = own_s});
    }

    TempFolder folder;
    FakeTrainControl run{folder.path()};
};

TEST_F(TraceHookTest, WritesTheTraceAtTheEndAndPausesDoNotCount) {
    const auto hook = make_trace_hook();
    hook->on_start(run);
    for (int i = 0; i < 10; ++i) {
        push(*hook, 0, 1);
    }
    run.virtual_clock.advance(Clock::Seconds(30));
    EvaluationReport evaluation;
    evaluation.seconds = 30;
    hook->on_evaluation(run, evaluation);
    for (int i = 0; i < 4; ++i) {
        push(*hook, 0, 2);
    }
    hook->on_end(run, StopReason::kSignal);
    const std::vector<TraceRow> rows = read_trace(run.run_options.record_trace);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].target, worker(0));
    EXPECT_NEAR(rows[0].time_s, 10, 1e-9);
    EXPECT_NEAR(rows[0].shares.device, 0.5, 1e-9);
}

TEST_F(TraceHookTest, WritesItWhenTheRunFails) {
    const auto hook = make_trace_hook();
    hook->on_failure(run);  // before the beginning there is nothing to write
    hook->on_start(run);
    push(*hook, 0, 1);
    push(*hook, 0, 1);
    push(*hook, 1, 4);
    hook->on_failure(run);
    EXPECT_EQ(read_trace(run.run_options.record_trace).size(), 1U);
}

TEST_F(TraceHookTest, AnEarlierTraceStaysUntilThereIsANewOneAndAfterResuming) {
    const std::string file = run.run_options.record_trace;
    write_trace(file, {{.time_s = 7, .target = worker(1), .shares = {.device = 0.5}}});
    const auto record = [&] {
        const auto hook = make_trace_hook();
        hook->on_start(run);
        EXPECT_EQ(read_trace(file).size(), 1U);
        EXPECT_FALSE(std::filesystem::exists(file + ".part"));
        push(*hook, 0, 1);
        hook->on_end(run, StopReason::kSignal);
    };
    run.run_options.resume = true;
    record();
    EXPECT_TRUE(read_trace(file).empty()) << "a single worker is healthy";
    ASSERT_EQ(read_trace(file + ".1").size(), 1U) << "the part before";
    EXPECT_EQ(read_trace(file + ".1")[0].time_s, 7);
    run.run_options.resume = false;
    write_trace(file, read_trace(file + ".1"));
    EXPECT_THROW(make_trace_hook()->on_start(run), UsageError);
    run.run_options.overwrite = true;
    record();
    EXPECT_TRUE(read_trace(file).empty()) << "replaced";
    EXPECT_FALSE(std::filesystem::exists(file + ".2"));
}

TEST_F(TraceHookTest, AFileThatCannotBeWrittenEndsTheRunBeforeItBegins) {
    run.run_options.record_trace = folder.file("missing/trace.csv");
    EXPECT_THROW(make_trace_hook()->on_start(run), FileError);
}

}  // namespace
}  // namespace cohort
