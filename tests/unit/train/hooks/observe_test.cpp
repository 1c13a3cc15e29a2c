#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/train/hooks.hpp"
#include "records/tensorboard/event_file.hpp"
#include "support/core/temp_folder.hpp"
#include "support/records/timeline_check.hpp"
#include "support/train/fake_train_control.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class Observing : public testing::Test {
protected:
    TempFolder folder;
    FakeTrainControl run{folder.path()};

    void SetUp() override {
        run.run_options.out = folder.path();
        run.run_options.log_every_s = 1;
        run.run_options.batch = 32;
        run.cluster_report = {.mode = "ssgd", .workers = {}, .loads = {}, .gradients = {}};
        run.cluster_report.workers.resize(2);
    }
};

TEST_F(Observing, ThePrometheusFileFollowsTheRun) {
    const std::string path = run.run_options.metrics_file = folder.file("cohort.prom");
    const auto hook = make_prometheus_hook();
    hook->on_start(run);
    EXPECT_THAT(content(path),
                HasSubstr("cohort_samples_applied_total{run=\"" +
                          std::filesystem::path(folder.path()).filename().string() + "\"} 0\n"));
    EXPECT_THAT(content(path), Not(HasSubstr("cohort_train_loss"))) << "nothing is known yet";
    run.cluster_report.workers[1] = {.live = false, .samples = 7, .lost = 1};
    run.cluster_report.loads.resize(2);
    run.cluster_report.loads[0] = {.own_s = 0.5, .compute_s = 0.25};
    run.tell_step(*hook, run.step(20, 1, 0.5));
    run.tell_evaluation(*hook, {.accuracy = 0.75, .loss = 0.1});
    const std::string text = content(path);
    for (const char* part :
         {"cohort_samples_applied_total{run=", "cohort_train_loss{run=",
          "cohort_train_accuracy_ratio{", "cohort_test_accuracy_ratio{",
          "# TYPE cohort_worker_compute_seconds gauge\n", ",worker=\"0\"} 0.25\n",
          ",worker=\"1\",reason=\"lost\"} 0\n", ",mode=\"ssgd\"} 1\n"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
    const std::size_t column = text.find("\ncohort_worker_compute_seconds{");
    EXPECT_EQ(text.find("\ncohort_worker_compute_seconds{", column + 1), std::string::npos)
        << "worker 1 has no records";
}

TEST_F(Observing, AFileOfAnEarlierRunIsReplacedAndNoOther) {
    run.run_options.metrics_file = folder.file("cohort.prom");
    make_prometheus_hook()->on_start(run);
    make_prometheus_hook()->on_start(run);
    std::ofstream(run.run_options.metrics_file) << "something else\n";
    EXPECT_THROW(make_prometheus_hook()->on_start(run), UsageError);
}

TEST_F(Observing, TensorBoardGetsTheFiguresOfTheWindow) {
    const auto hook = make_tensorboard_hook();
    hook->on_start(run);
    run.tell_step(*hook, run.step(20, 1, 0.5));
    hook->on_switch(run, {.from = "ssgd", .to = "asgd", .why = "request"});
    const std::vector<std::string> files = event_files(folder.file("tensorboard"));
    ASSERT_EQ(files.size(), 1U);
    for (const char* part : {"train/loss", "train/accuracy", "lag/worker_1", "asgd"}) {
        EXPECT_THAT(content(files[0]), HasSubstr(part));
    }
}

TEST_F(Observing, TensorBoardForgetsAllThatARunWithoutACheckpointRepeats) {
    run.run_options.resume = true;
    make_tensorboard_hook()->on_start(run);
    const std::vector<std::string> files = event_files(folder.file("tensorboard"));
    ASSERT_EQ(files.size(), 1U);
    EXPECT_THAT(content(files[0]), HasSubstr("\x10\x01\x3a\x02\x08\x01"))
        << "Event.step = 1, Event.session_log.status = START";
}

/// Two workers of servers; what a worker's message takes to arrive varies.
TEST_F(Observing, TheTimelineKeepsWhatWorkersMeasured) {
    run.run_options.arch = Architecture::kServers;
    run.run_options.timeline = folder.file("timeline.json");
    const auto hook = make_timeline_hook();
    hook->on_start(run);
    constexpr int kIterations = 20;
    for (int i = 0; i < kIterations; ++i) {
        run.virtual_clock.advance(Clock::Seconds(i % 3 == 0 ? 0.98 : 1.01));
        StepReport step;
        for (const int worker : {0, 1}) {
            step.pushes.push_back(
                {.worker = worker, .sequence = static_cast<std::uint64_t>(i + 1)});
            hook->on_push(run, {.worker = worker,
                                .iteration = i + 1,
                                .samples = 32,
                                .version = i,
                                .input_s = 0.1,
                                .compute_s = worker == 0 ? 0.3 : 0.7,
                                .push_s = 0.05,
                                .pull_s = 0.1,
                                .wait_s = worker == 0 ? 0.5 : 0.1});
        }
        step.applied = true;
        step.version = i + 1;
        hook->on_step(run, step);
    }
    hook->on_rank(run, {.rank = 2, .worker = 1, .reason = "rank 2 has died", .live = 1});
    StepReport last;
    last.applied = true;
    last.version = kIterations + 1;
    last.pushes = {{.worker = 1, .sequence = 1}};
    hook->on_step(run, last);  // of its next incarnation, whose record is not known
    hook->on_end(run, StopReason::kBudget);
    const ParsedTimeline seen(content(run.run_options.timeline));
    EXPECT_NEAR(seen.seconds("worker 0", "compute"), kIterations * 0.3, 1e-6);
    EXPECT_NEAR(seen.seconds("worker 1", "compute"), kIterations * 0.7, 1e-6);
    EXPECT_NEAR(seen.seconds("worker 1", "input"), kIterations * 0.1, 1e-6);
    EXPECT_EQ(seen.arrows("push"), 2U * kIterations);
    EXPECT_EQ(seen.arrows("release"), 2U * (kIterations - 1));
    EXPECT_EQ(seen.instants.back()["name"], "lost");
}

/// In a ring the record of an iteration tells of the exchange before it.
TEST_F(Observing, TheTimelineOfARingLaysTheExchangeBeforeItsRound) {
    run.run_options.arch = Architecture::kRing;
    run.run_options.timeline = folder.file("timeline.json");
    const auto hook = make_timeline_hook();
    hook->on_start(run);
    for (int i = 0; i < 5; ++i) {
        run.virtual_clock.advance(Clock::Seconds(1));
        hook->on_push(run, {.iteration = i + 1,
                            .samples = 32,
                            .version = i,
                            .input_s = 0.1,
                            .compute_s = 0.6,
                            .pull_s = 0.2,
                            .wait_s = 0.1});
        StepReport step;
        step.applied = true;
        step.version = i + 1;
        step.pushes = {{.worker = 0, .sequence = static_cast<std::uint64_t>(i + 1)}};
        hook->on_step(run, step);
    }
    hook->on_failure(run);
    const ParsedTimeline seen(content(run.run_options.timeline));
    const auto& spans = seen.spans("worker 0");
    ASSERT_EQ(spans.size(), 4U * 4) << "the first record's exchange is not known";
    EXPECT_EQ(spans[0].name, "wait");
    EXPECT_NEAR(spans[1].end_us, 1e6, 0.01) << "pull: until the first round's end";
    EXPECT_NEAR(spans[3].end_us, 1.7e6, 0.01);
    EXPECT_NEAR(seen.spans("updates")[1].begin_us, 1.7e6, 0.01) << "the exchange";
    EXPECT_NEAR(seen.spans("updates")[1].end_us, 2e6, 0.01);
}

}  // namespace
}  // namespace cohort
