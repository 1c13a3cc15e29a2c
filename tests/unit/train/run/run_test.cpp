// Whole training runs on a tiny data set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "cohort/train/trainer.hpp"
#include "data/networks/model_file.hpp"
#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"
#include "train/checkpoint/snapshot.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr std::int64_t kTrain = 300;
constexpr std::int64_t kTest = 100;

class TrainRun : public testing::Test {
protected:
    void SetUp() override {
        Hdf5Thread hdf5;
        write_tiny_dataset(folder.file("data.h5"), kTrain, kTest, hdf5);
    }

    TrainOptions options(const std::string& out) const {
        TrainOptions o;
        o.data = folder.file("data.h5");
        o.out = folder.file(out);
        o.model = "smallcnn";
        o.batch = 16;
        o.lr = 0.02;
        o.threads = 1;
        o.device = "cpu";
        o.deterministic = true;
        o.augment = "pad-crop:1,flip";
        o.checkpoint_every_s = 0;
        return o;
    }

    static TrainSummary train(const TrainOptions& o, std::function<bool()> stop = {}) {
        TrainEnvironment environment;
        if (stop) {
            environment.stop_requested = std::move(stop);
        }
        return Trainer(o, environment).run();
    }

    /// Stops after `polls` questions.
    static std::function<bool()> stop_after(int polls) {
        return [left = polls]() mutable { return left-- <= 0; };
    }

    ModelFile model(const std::string& out) const {
        Hdf5Thread hdf5;
        return read_model(folder.file(out) + "/model.h5", hdf5);
    }

    std::vector<nlohmann::json> metrics(const std::string& out) const {
        std::ifstream file(folder.file(out) + "/metrics.jsonl");
        std::vector<nlohmann::json> lines;
        for (std::string line; std::getline(file, line);) {
            lines.push_back(nlohmann::json::parse(line));
        }
        return lines;
    }

    void expect_same_model(const std::string& a, const std::string& b) const {
        const ModelFile first = model(a);
        const ModelFile second = model(b);
        const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
            return x.size() == y.size() &&
                   std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
        };
        EXPECT_TRUE(same(first.parameters, second.parameters));
        EXPECT_TRUE(same(first.state, second.state));
    }

    TempFolder folder;
};

TEST_F(TrainRun, LearnsAndAccountsForEverySample) {
    TrainOptions o = options("run");
    o.augment = "none";
    o.epochs = 6;
    const TrainSummary summary = train(o);
    EXPECT_EQ(summary.reason, StopReason::kBudget);
    EXPECT_EQ(summary.progress.samples_applied, 6 * kTrain);
    EXPECT_EQ(summary.progress.updates, 6 * 19) << "19 batches per epoch, the last one short";
    EXPECT_EQ(summary.accounts.leased, summary.accounts.applied);
    ASSERT_TRUE(summary.test);
    EXPECT_EQ(summary.test->samples, kTest);
    EXPECT_GE(summary.test->accuracy, 0.9);
    EXPECT_TRUE(summary.outputs_saved);

    const auto lines = metrics("run");
    EXPECT_EQ(lines.front()["event"], "start");
    const auto evaluations = std::count_if(
        lines.begin(), lines.end(), [](const auto& line) { return line["event"] == "evaluation"; });
    EXPECT_EQ(evaluations, 6);
    const auto& last = lines.back();
    EXPECT_EQ(last["event"], "summary");
    for (const char* name : {"mode", "arch", "workers", "servers", "samples_applied",
                             "samples_returned", "updates", "test_accuracy", "test_loss", "tta_s",
                             "wall_s", "samples_per_s", "bytes_sent", "bytes_received", "cpu_s"}) {
        EXPECT_TRUE(last.contains(name)) << name;
    }
    EXPECT_GT(last["arena_bytes"], 0);
    EXPECT_GT(last["peak_bytes"], last["arena_bytes"]);
    EXPECT_EQ(last["mode"], "ring");
    EXPECT_EQ(last["workers"], 1);
    EXPECT_EQ(last["samples_applied"], 6 * kTrain);
    EXPECT_TRUE(last["tta_s"].is_null());
    EXPECT_DOUBLE_EQ(last["test_accuracy"], summary.test->accuracy);

    const EvaluationReport again =
        evaluate_model(folder.file("run") + "/model.h5", o.data, "test", "cpu", 1, 33);
    EXPECT_DOUBLE_EQ(again.accuracy, summary.test->accuracy);
    EXPECT_NEAR(again.loss, summary.test->loss, 1e-6);
}

TEST_F(TrainRun, ModelFileCarriesTheNormalisation) {
    TrainOptions o = options("run");
    o.samples = 16;
    train(o);
    Hdf5Thread hdf5;
    ModelFile saved = read_model(o.out + "/model.h5", hdf5);
    const SampleSetInfo info = open_dataset(o.data, "train", hdf5)->info();
    EXPECT_EQ(saved.mean, info.mean);
    EXPECT_EQ(saved.std, info.std);
    saved.std.push_back(1);
    write_model(folder.file("bad.h5"), saved, hdf5);
    EXPECT_THROW((void)read_model(folder.file("bad.h5"), hdf5), FileError);
    saved.std.pop_back();
    saved.classes = std::int64_t{1} << 40;
    write_model(folder.file("bad.h5"), saved, hdf5);
    EXPECT_THROW((void)read_model(folder.file("bad.h5"), hdf5), FileError) << "not bad_alloc";
}

TEST_F(TrainRun, ModelsNormalisationCountsAtEvaluation) {
    TrainOptions o = options("run");
    o.samples = 300;
    const TrainSummary summary = train(o);
    {
        Hdf5Thread hdf5;
        ModelFile saved = read_model(o.out + "/model.h5", hdf5);
        saved.mean[0] += 40;
        write_model(folder.file("moved.h5"), saved, hdf5);
    }
    const auto evaluate = [&](const std::string& model_file) {
        testing::internal::CaptureStderr();
        const double loss = evaluate_model(model_file, o.data, "test", "cpu", 1, 32).loss;
        return std::pair(loss, testing::internal::GetCapturedStderr());
    };
    const auto same = evaluate(o.out + "/model.h5");
    EXPECT_NEAR(same.first, summary.test->loss, 1e-6);
    EXPECT_THAT(same.second, Not(HasSubstr("the dataset's are")));
    const auto moved = evaluate(folder.file("moved.h5"));
    EXPECT_GT(std::abs(moved.first - same.first), 1e-3);
    EXPECT_THAT(moved.second, HasSubstr("the dataset's are"));
}

TEST_F(TrainRun, SampleBudgetIsExact) {
    TrainOptions o = options("run");
    o.samples = 107;
    const TrainSummary summary = train(o);
    EXPECT_EQ(summary.progress.samples_applied, 107);
    EXPECT_EQ(summary.progress.updates, 7);
}

TEST_F(TrainRun, DeterministicRunsAreEqualBitForBit) {
    TrainOptions a = options("a");
    a.samples = 400;
    TrainOptions b = options("b");
    b.samples = 400;
    b.loader_threads = 3;
    train(a);
    train(b);
    expect_same_model("a", "b");
    TrainOptions other = options("c");
    other.samples = 400;
    other.seed = 2;
    train(other);
    EXPECT_NE(model("a").parameters, model("c").parameters);
}

TEST_F(TrainRun, StoppedAndResumedEqualsUninterrupted) {
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        const std::string name(word_of(optimizer));
        SCOPED_TRACE(name);
        const std::string whole = "whole-" + name;
        const std::string parts = "parts-" + name;
        TrainOptions o = options(whole);
        o.optimizer = optimizer;
        o.lr = 0.005;
        o.weight_decay = 1e-3;
        o.lr_schedule = "cosine:0.1";
        o.warmup_samples = 64;
        o.epochs = 3;
        const TrainSummary straight = train(o);

        o.out = folder.file(parts);
        const TrainSummary first = train(o, stop_after(8));
        EXPECT_EQ(first.reason, StopReason::kSignal);
        EXPECT_LT(first.progress.samples_applied, kTrain);
        EXPECT_EQ(first.accounts.leased, first.accounts.applied + first.accounts.returned());
        EXPECT_GT(first.accounts.returned_stop, 0) << "batches had been leased ahead";
        o.resume = true;
        const TrainSummary second = train(o, stop_after(45));  // over the end of the epoch
        EXPECT_EQ(second.reason, StopReason::kSignal);
        EXPECT_GT(second.progress.samples_applied, kTrain);
        const TrainSummary third = train(o);
        EXPECT_EQ(third.reason, StopReason::kBudget);
        EXPECT_EQ(third.progress.samples_applied, straight.progress.samples_applied);
        EXPECT_EQ(third.progress.updates, straight.progress.updates);
        EXPECT_EQ(third.test->accuracy, straight.test->accuracy);
        EXPECT_EQ(third.test->loss, straight.test->loss);
        expect_same_model(whole, parts);

        const auto lines = metrics(parts);
        EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                                [](const auto& line) { return line["event"] == "summary"; }),
                  1);
        EXPECT_EQ(lines.back()["event"], "summary");
    }
}

TEST_F(TrainRun, StopDuringTheLastEvaluationIsMadeUpOnResume) {
    TrainOptions o = options("run");
    o.samples = 32;
    const auto asked = std::make_shared<int>(0);
    // Asked at the start and after two steps; the fourth question comes from the evaluation.
    const TrainSummary stopped = train(o, [asked] { return ++*asked > 3; });
    EXPECT_EQ(stopped.reason, StopReason::kSignal);
    EXPECT_EQ(stopped.progress.samples_applied, 32);
    EXPECT_FALSE(stopped.test);
    o.resume = true;
    const TrainSummary resumed = train(o);
    EXPECT_EQ(resumed.reason, StopReason::kBudget);
    EXPECT_EQ(resumed.progress.samples_applied, 32);
    EXPECT_TRUE(resumed.test);
}

TEST_F(TrainRun, ResumeSkipsATornCheckpoint) {
    TrainOptions o = options("whole");
    o.samples = 400;
    train(o);
    o.out = folder.file("torn");
    o.checkpoint_every_samples = 100;
    o.keep_checkpoints = 3;
    train(o);
    const auto checkpoints = list_checkpoints(o.out + "/checkpoints");
    ASSERT_GE(checkpoints.size(), 2U);
    fs::resize_file(checkpoints.front(), fs::file_size(checkpoints.front()) - 100);
    o.resume = true;
    fs::remove(o.out + "/model.h5");
    const TrainSummary summary = train(o);
    EXPECT_EQ(summary.progress.samples_applied, 400);
    expect_same_model("whole", "torn");
}

TEST_F(TrainRun, ResumeRefusesAnotherModel) {
    TrainOptions o = options("run");
    o.samples = 64;
    o.checkpoint_every_samples = 32;
    train(o);
    o.resume = true;
    o.model = "softmax";
    EXPECT_THAT([&] { train(o); }, ThrowsMessage<FileError>(HasSubstr("the network differs")));
}

TEST_F(TrainRun, AContinuedRunDoesNotReadItsInitialWeightsAgain) {
    TrainOptions o = options("first");
    o.samples = 64;
    train(o);
    o = options("run");
    o.init = folder.file("first") + "/model.h5";
    o.samples = 64;
    o.checkpoint_every_samples = 64;
    train(o);
    fs::remove(o.init);
    o.resume = true;
    o.samples = 160;
    EXPECT_EQ(train(o).progress.samples_applied, 160);
}

TEST_F(TrainRun, LongerBudgetContinuesAFinishedRun) {
    TrainOptions o = options("run");
    o.samples = 64;
    o.checkpoint_every_samples = 64;
    train(o);
    o.resume = true;
    o.samples = 160;
    const TrainSummary summary = train(o);
    EXPECT_EQ(summary.progress.samples_applied, 160);
    EXPECT_EQ(summary.accounts.applied, 160);
}

TEST_F(TrainRun, ShorterBudgetIsNotOvershotOnResume) {
    TrainOptions o = options("run");
    o.samples = 400;
    const TrainSummary stopped = train(o, stop_after(5));
    ASSERT_EQ(stopped.reason, StopReason::kSignal);
    ASSERT_GT(stopped.accounts.returned_stop, 0) << "batches had been leased ahead";
    o.resume = true;
    o.samples = stopped.progress.samples_applied + 20;
    EXPECT_EQ(train(o).progress.samples_applied, o.samples);
    EXPECT_EQ(train(o).progress.samples_applied, o.samples) << "nothing is left to do";
}

TEST_F(TrainRun, MomentumOfTheOptionsCountsOnResume) {
    TrainOptions o = options("same");
    o.samples = 160;
    train(o, stop_after(5));
    fs::copy(o.out, folder.file("other"), fs::copy_options::recursive);
    o.resume = true;
    train(o);
    o.out = folder.file("other");
    o.momentum = 0.1;
    train(o);
    EXPECT_NE(model("same").parameters, model("other").parameters);
}

TEST_F(TrainRun, AnyExceptionLeavesAnErrorLineAndPasses) {
    TrainOptions o = options("run");
    o.samples = 64;
    int questions = 0;
    const auto stop = [&questions]() -> bool {
        if (++questions > 2) {
            throw std::out_of_range("not one of ours");
        }
        return false;
    };
    EXPECT_THROW(train(o, stop), std::out_of_range);
    const auto last = metrics("run").back();
    EXPECT_EQ(last["event"], "error");
    EXPECT_THAT(last["message"].get<std::string>(), HasSubstr("not one of ours"));
}

TEST_F(TrainRun, TargetAccuracyEndsTheRun) {
    TrainOptions o = options("run");
    o.augment = "none";
    o.epochs = 50;
    o.target_accuracy = 0.8;
    const TrainSummary summary = train(o);
    EXPECT_EQ(summary.reason, StopReason::kTarget);
    EXPECT_LT(summary.progress.samples_applied, 50 * kTrain);
    EXPECT_GE(summary.test->accuracy, 0.8);
    ASSERT_TRUE(summary.progress.tta_seconds);
    EXPECT_LE(*summary.progress.tta_seconds, summary.progress.train_seconds);
    EXPECT_FALSE(metrics("run").back()["tta_s"].is_null());
}

TEST_F(TrainRun, DivergenceEndsWithANumericalError) {
    TrainOptions o = options("run");
    o.lr = 1e30;
    o.epochs = 50;
    try {
        train(o);
        FAIL() << "did not diverge";
    } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::kNumerical);
        EXPECT_THAT(error.what(), HasSubstr("samples applied"));
    }
    EXPECT_EQ(metrics("run").back()["event"], "error");
}

TEST_F(TrainRun, UnwritableCheckpointsDoNotStopTraining) {
    TrainOptions o = options("run");
    o.samples = 200;
    o.checkpoint_every_samples = 64;
    const auto spoil = [&] {
        if (fs::exists(o.out + "/metrics.jsonl")) {  // what the folder held has been looked at
            std::ofstream(o.out + "/checkpoints") << "a file where the folder should be";
        }
        return false;
    };
    const TrainSummary summary = train(o, spoil);
    EXPECT_EQ(summary.progress.samples_applied, 200);
    EXPECT_FALSE(summary.outputs_saved);
    EXPECT_TRUE(fs::exists(o.out + "/model.h5"));
    EXPECT_EQ(metrics("run").back()["outputs_saved"], false);
}

TEST_F(TrainRun, CheckpointsAreNotWrittenThroughALinkThatComesWhileItTrains) {
    TrainOptions o = options("run");
    o.samples = 200;
    o.checkpoint_every_samples = 64;
    const std::string victim = folder.file("victim");
    fs::create_directories(victim);
    std::ofstream(victim + "/step-000000000001.h5") << "mine";
    const auto plant = [&] {
        if (fs::exists(o.out + "/metrics.jsonl") &&
            !fs::exists(fs::symlink_status(o.out + "/checkpoints"))) {
            fs::create_directory_symlink(victim, o.out + "/checkpoints");
        }
        return false;
    };
    EXPECT_FALSE(train(o, plant).outputs_saved);
    EXPECT_EQ(std::distance(fs::directory_iterator(victim), {}), 1);
    EXPECT_TRUE(fs::exists(o.out + "/model.h5"));
}

TEST_F(TrainRun, TrainsEveryLayoutOfOptions) {
    TrainOptions o = options("run");
    o.model = "mlp";
    o.augment = "none";
    o.nesterov = true;
    o.samples = 100;
    o.eval_every_samples = 40;
    train(o);
    const auto lines = metrics("run");
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [](const auto& line) { return line["event"] == "evaluation"; }),
              3);
}

TEST_F(TrainRun, WrongFilesAreKnownBeforeAnythingIsWritten) {
    TrainOptions o = options("run");
    o.data = folder.file("missing.h5");
    EXPECT_THROW(Trainer(o, {}), FileError);
    std::ofstream(o.data) << "not HDF5";
    EXPECT_THROW(Trainer(o, {}), FileError);
    o = options("run");
    o.model = "resnet19";
    EXPECT_THROW(Trainer(o, {}), UsageError);
    o = options("run");
    o.lr_schedule = "sometimes";
    EXPECT_THROW(Trainer(o, {}), UsageError);
    o = options("run");
    o.device = "cuda:99";
    EXPECT_THROW(Trainer(o, {}), DeviceError);
    EXPECT_FALSE(fs::exists(o.out));
}

}  // namespace
}  // namespace cohort
