// Evaluation of a part of a set, and of snapshots beside training.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/core/thread_team.hpp"
#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"
#include "train/coordinator/evaluation/snapshot_evaluator.hpp"
#include "train/run/evaluation.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kTestSamples = 150;

const auto kNever = [] { return false; };

/// A dataset of 64 training and 150 test samples, and a network for it.
class EvaluationTest : public testing::Test {
protected:
    EvaluationTest() : parts_(options(folder_), 2) {}

    static TrainOptions options(const TempFolder& folder) {
        TrainOptions options;
        options.data = folder.file("tiny.h5");
        options.model = "lenet";
        options.batch = 16;
        Hdf5Thread hdf5;
        write_tiny_dataset(options.data, 64, kTestSamples, hdf5);
        return options;
    }

    /// Initial parameters from `seed`, with what they give on the whole test group.
    struct Snapshot {
        std::vector<float> parameters;
        std::vector<float> state;
        EvaluationReport report;
    };
    Snapshot snapshot(std::uint64_t seed) {
        const std::unique_ptr<Device> device = make_cpu_device(1);
        Replica replica(parts_.graph, *device);
        replica.initialise(seed);
        Loader loader(parts_.test_set, {});
        return {{replica.parameters().begin(), replica.parameters().end()},
                {replica.state().begin(), replica.state().end()},
                *evaluate_all(replica, loader, 32, kNever)};
    }

    TempFolder folder_;
    JobContext parts_;
};

TEST_F(EvaluationTest, PartsOfASetAddUpToTheWhole) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Replica replica(parts_.graph, *device);
    replica.initialise(3);
    Loader loader(parts_.test_set, {});
    const EvaluationReport whole = *evaluate_all(replica, loader, 32, kNever);
    for (const int parts : {1, 2, 3, 8, 200}) {
        BatchResult sums;
        for (int i = 0; i < parts; ++i) {
            const Part part = part_of(kTestSamples, i, parts);
            const auto result = evaluate_range(replica, loader, part.begin, part.end, 32, kNever);
            ASSERT_TRUE(result);
            EXPECT_EQ(result->samples, part.end - part.begin);
            sums.loss_sum += result->loss_sum;
            sums.correct += result->correct;
            sums.samples += result->samples;
        }
        const EvaluationReport report = evaluation_report(sums, 1);
        EXPECT_EQ(report.samples, kTestSamples);
        EXPECT_EQ(report.accuracy, whole.accuracy) << parts;
        EXPECT_NEAR(report.loss, whole.loss, 1e-5) << parts;
    }
    EXPECT_THROW((void)evaluate_range(replica, loader, 0, 151, 32, kNever), UsageError);
    EXPECT_THROW((void)evaluate_range(replica, loader, -1, 5, 32, kNever), UsageError);
    EXPECT_THROW((void)evaluate_range(replica, loader, 6, 5, 32, kNever), UsageError);
}

TEST_F(EvaluationTest, AnAbandonedPartLeavesTheLoaderUsable) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Replica replica(parts_.graph, *device);
    replica.initialise(3);
    Loader loader(parts_.test_set, {});
    int asked = 0;
    EXPECT_FALSE(evaluate_range(replica, loader, 10, 150, 8, [&] { return ++asked == 3; }));
    EXPECT_EQ(evaluate_range(replica, loader, 10, 40, 8, kNever)->samples, 30);
}

TEST(ShareLimitTest, WorkAndPauseTogetherKeepTheShare) {
    VirtualClock clock;
    const ShareLimit limit(0.25);
    Clock::Seconds busy(0);
    const std::vector<double> contention{1, 1, 7, 2, 1, 4};  // wall time per processor time
    for (int i = 0; i < 600; ++i) {
        const Clock::Seconds work(0.01 * (1 + i % 3));
        const Clock::Seconds elapsed = work * contention[static_cast<std::size_t>(i) % 6];
        clock.advance(elapsed);
        busy += work;
        clock.advance(limit.pause_after(work, elapsed));
        EXPECT_LE(busy / clock.now(), 0.25 + 1e-9) << "at any time";
    }
    EXPECT_GT(busy / clock.now(), 0.2) << "a starved piece pauses less, but saves nothing up";
    EXPECT_EQ(limit.pause_after(Clock::Seconds(1), Clock::Seconds(9)).count(), 0);
    EXPECT_LE(ShareLimit(1e-300).pause_after(Clock::Seconds(1), Clock::Seconds(1)).count(), 1e9);
    EXPECT_EQ(ShareLimit(1).pause_after(Clock::Seconds(1), Clock::Seconds(1)).count(), 0);
}

TEST(ShareLimitTest, ShareIsChecked) {
    for (const double share : {0.0, -1.0, 1.01, std::nan("")}) {
        EXPECT_THROW(ShareLimit{share}, UsageError) << share;
    }
}

/// Keeps what an evaluator reports.
class Results {
public:
    SnapshotEvaluator::Done done() {
        return [this](const SnapshotEvaluation& evaluation) {
            const std::scoped_lock lock(mutex_);
            all_.push_back(evaluation);
            niceness_ = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
            arrived_.notify_all();
        };
    }
    std::vector<SnapshotEvaluation> wait_for(std::size_t count) {
        std::unique_lock lock(mutex_);
        arrived_.wait(lock, [&] { return all_.size() >= count; });
        return all_;
    }
    std::size_t count() {
        const std::scoped_lock lock(mutex_);
        return all_.size();
    }
    int niceness() {
        const std::scoped_lock lock(mutex_);
        return niceness_;
    }

private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::vector<SnapshotEvaluation> all_;
    int niceness_ = 0;
};

TEST_F(EvaluationTest, SnapshotsAreEvaluatedInOrderAtLowPriority) {
    Results results;
    SnapshotEvaluator evaluator(parts_, 1, results.done());
    EXPECT_TRUE(evaluator.idle());
    std::vector<Snapshot> snapshots;
    for (std::uint64_t id = 1; id <= 3; ++id) {
        snapshots.push_back(snapshot(id));
        while (!evaluator.submit(id, snapshots.back().parameters, snapshots.back().state)) {
            (void)results.wait_for(id - 2);
        }
    }
    const std::vector<SnapshotEvaluation> all = results.wait_for(3);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(all[i].error, nullptr);
        EXPECT_EQ(all[i].part.id, i + 1);
        EXPECT_EQ(all[i].part.samples, kTestSamples);
        EXPECT_EQ(static_cast<double>(all[i].part.correct) / kTestSamples,
                  snapshots[i].report.accuracy);
        EXPECT_NEAR(all[i].part.loss_sum / kTestSamples, snapshots[i].report.loss, 1e-5);
        EXPECT_GT(all[i].part.seconds, 0);
    }
    EXPECT_TRUE(evaluator.idle());
    EXPECT_EQ(results.niceness(), 5);
    EXPECT_LT(getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))), 19)
        << "other threads keep theirs";
}

TEST_F(EvaluationTest, OneWaitsAtMostAndTheShareIsKeptUntilItIsLifted) {
    const Snapshot one = snapshot(1);
    Results results;
    SnapshotEvaluator evaluator(parts_, 1e-9, results.done());  // pauses for ages
    ASSERT_TRUE(evaluator.submit(1, one.parameters, one.state));
    while (!evaluator.has_room()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(evaluator.submit(2, one.parameters, one.state));
    EXPECT_FALSE(evaluator.has_room());
    EXPECT_FALSE(evaluator.submit(3, one.parameters, one.state));
    EXPECT_FALSE(evaluator.idle());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(results.count(), 0U);
    evaluator.lift_share();
    EXPECT_EQ(results.wait_for(2)[1].part.id, 2U);
}

TEST_F(EvaluationTest, EndsPromptlyInMidPause) {
    const Snapshot one = snapshot(1);
    Results results;
    {
        SnapshotEvaluator evaluator(parts_, 1e-9, results.done());
        ASSERT_TRUE(evaluator.submit(1, one.parameters, one.state));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        (void)evaluator.submit(2, one.parameters, one.state);
    }  // would not return for years
    EXPECT_EQ(results.count(), 0U);
}

TEST_F(EvaluationTest, UnreadableInputIsReported) {
    class Unreadable final : public SampleSource {
    public:
        explicit Unreadable(SampleSetInfo info) : info_(std::move(info)) {}
        [[nodiscard]] const SampleSetInfo& info() const override { return info_; }
        [[nodiscard]] RawChunk read_chunk(std::int64_t /*index*/) override {
            fail<FileError>({.where = "test", .what = "the disk is gone"});
        }

    private:
        SampleSetInfo info_;
    };
    const Snapshot one = snapshot(1);
    parts_.test_set = std::make_shared<Unreadable>(parts_.test_set->info());
    Results results;
    SnapshotEvaluator evaluator(parts_, 1, results.done());
    for (std::uint64_t id = 1; id <= 2; ++id) {
        ASSERT_TRUE(evaluator.submit(id, one.parameters, one.state));
        EXPECT_THROW(std::rethrow_exception(results.wait_for(id).back().error), FileError);
    }
}

TEST_F(EvaluationTest, SnapshotOfAnotherNetworkIsAnError) {
    const Snapshot one = snapshot(1);
    SnapshotEvaluator evaluator(parts_, 1, [](const SnapshotEvaluation&) {});
    EXPECT_THROW((void)evaluator.submit(1, {1, 2, 3}, one.state), ShapeError);
    EXPECT_THROW((void)evaluator.submit(1, one.parameters, {1}), ShapeError);
    EXPECT_TRUE(evaluator.has_room());
}

}  // namespace
}  // namespace cohort
