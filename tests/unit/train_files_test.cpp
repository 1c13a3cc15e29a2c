#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/data/store.hpp"
#include "cohort/train/hooks.hpp"
#include "cohort/train/metrics_file.hpp"
#include "cohort/train/snapshot.hpp"
#include "lease_codec.hpp"
#include "run_folder.hpp"
#include "support/child_process.hpp"
#include "support/fake_train_control.hpp"
#include "support/temp_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

const std::vector<std::pair<std::string, std::string>> kIdentity{{"model", "lenet"}, {"seed", "1"}};

std::string content(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TrainSnapshot some_snapshot(std::int64_t samples) {
    TrainSnapshot snapshot;
    snapshot.identity = kIdentity;
    snapshot.progress.samples_applied = samples;
    snapshot.progress.updates = 7;
    snapshot.progress.evaluated_at = 3;
    snapshot.progress.train_seconds = 0.1;
    snapshot.progress.tta_seconds = 1.0 / 3;
    snapshot.progress.recent_drops = {3, 5};
    snapshot.parameters = {1.5F, -0.0F, 3e-42F};
    snapshot.optimizer_slots = {{"momentum", {4, 5, 6}}};
    snapshot.optimizer_scalars = {{"accumulated", 0.1}};
    snapshot.lease_state = encode_lease_state(
        {.epoch = 2, .position = 30, .applied = 100, .next_id = 9, .pending = {{1, 20, 10}}});
    snapshot.accounts.leased = 110;
    snapshot.metrics_bytes = 12;
    return snapshot;
}

TEST(CheckpointFile, RoundTripKeepsEveryBit) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const TrainSnapshot written = some_snapshot(100);
    const std::string path = checkpoint_path(folder.path(), 100);
    write_checkpoint(path, written, hdf5);
    const TrainSnapshot read = read_checkpoint(path, kIdentity, hdf5);
    EXPECT_EQ(read.progress.samples_applied, 100);
    EXPECT_EQ(read.progress.updates, 7);
    EXPECT_EQ(read.progress.evaluated_at, 3);
    EXPECT_EQ(read.progress.train_seconds, 0.1);
    EXPECT_EQ(read.progress.tta_seconds, 1.0 / 3);
    EXPECT_EQ(read.progress.recent_drops, written.progress.recent_drops);
    EXPECT_EQ(read.parameters, written.parameters);
    EXPECT_TRUE(std::signbit(read.parameters[1]));
    EXPECT_TRUE(read.state.empty());
    EXPECT_EQ(read.optimizer_slots, written.optimizer_slots);
    EXPECT_EQ(read.optimizer_scalars, written.optimizer_scalars);
    EXPECT_EQ(read.lease_state, written.lease_state);
    EXPECT_EQ(read.accounts.leased, 110);
    EXPECT_EQ(read.metrics_bytes, 12);
}

TEST(CheckpointFile, LeaseStateSurvives) {
    const LeaseState state = decode_lease_state(some_snapshot(1).lease_state);
    EXPECT_EQ(state.epoch, 2U);
    EXPECT_EQ(state.position, 30);
    EXPECT_EQ(state.applied, 100);
    EXPECT_EQ(state.next_id, 9U);
    EXPECT_THAT(state.pending, ElementsAre(LeaseSlice{1, 20, 10}));
    EXPECT_THROW((void)decode_lease_state({1, 2, 3}), FileError);
    EXPECT_THROW((void)decode_lease_state({1, 2, 3, 4, 5}), FileError);
}

TEST(CheckpointFile, ForeignOneIsRefusedByNameAndReason) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = checkpoint_path(folder.path(), 100);
    write_checkpoint(path, some_snapshot(100), hdf5);
    try {
        (void)read_checkpoint(path, {{"model", "resnet20"}}, hdf5);
        FAIL() << "accepted";
    } catch (const FileError& error) {
        EXPECT_THAT(error.what(), HasSubstr(path));
        EXPECT_THAT(error.what(), HasSubstr("model differs"));
        EXPECT_THAT(error.what(), HasSubstr("resnet20"));
    }
}

TEST(CheckpointFolder, NewestFirstAndPruned) {
    const TempFolder folder;
    for (const int samples : {5, 1000000, 70, 90}) {
        std::ofstream(checkpoint_path(folder.path(), samples)) << "x";
    }
    std::ofstream(folder.file("notes.txt")) << "kept";
    EXPECT_THAT(list_checkpoints(folder.path()),
                ElementsAre(EndsWith("1000000.h5"), EndsWith("90.h5"), EndsWith("70.h5"),
                            EndsWith("05.h5")));
    prune_checkpoints(checkpoint_path(folder.path(), 90), 2);
    EXPECT_THAT(list_checkpoints(folder.path()),
                ElementsAre(EndsWith("1000000.h5"), EndsWith("90.h5"), EndsWith("70.h5")));
    prune_checkpoints(checkpoint_path(folder.path(), 1000000), 1);
    EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre(EndsWith("1000000.h5")));
    EXPECT_TRUE(fs::exists(folder.file("notes.txt")));
    EXPECT_TRUE(list_checkpoints(folder.file("missing")).empty());
}

TEST(CheckpointFolder, TornOneIsRefusedAndThePreviousUsed) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    for (const int samples : {200, 300}) {
        write_checkpoint(checkpoint_path(folder.path(), samples), some_snapshot(samples), hdf5);
    }
    fs::resize_file(checkpoint_path(folder.path(), 300),
                    fs::file_size(checkpoint_path(folder.path(), 300)) / 2);
    {
        std::fstream file(checkpoint_path(folder.path(), 200), std::ios::in | std::ios::out);
        file.seekp(2000);
        file.put('\x55');
        file.put('\x2a');
    }
    EXPECT_THROW((void)find_checkpoint(folder.path(), kIdentity, hdf5), FileError);
    write_checkpoint(checkpoint_path(folder.path(), 100), some_snapshot(100), hdf5);
    const auto found = find_checkpoint(folder.path(), kIdentity, hdf5);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->progress.samples_applied, 100);
    EXPECT_EQ(find_checkpoint(folder.file("missing"), kIdentity, hdf5), std::nullopt);
}

TEST(CheckpointHook, WritesBySamplesAndTimeAndKeepsTheNewest) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    FakeTrainControl run(folder.path());
    run.run_options.checkpoint_every_s = 60;
    run.run_options.checkpoint_every_samples = 100;
    run.run_options.keep_checkpoints = 2;
    const auto hook = make_checkpoint_hook(folder.file("checkpoints"), hdf5);
    hook->on_start(run);
    hook->on_step(run, run.step(90, 1));  // nothing is due
    EXPECT_TRUE(run.checkpoints.empty());
    hook->on_step(run, run.step(20, 1));  // by samples
    hook->on_end(run, StopReason::kBudget);
    ASSERT_EQ(run.checkpoints.size(), 1U);
    EXPECT_EQ(run.checkpoints[0].samples_applied, 110);
    hook->on_step(run, run.step(10, 61));  // by time
    hook->on_end(run, StopReason::kBudget);
    hook->on_step(run, run.step(10, 1));
    hook->on_end(run, StopReason::kBudget);  // the last state is always saved
    ASSERT_EQ(run.checkpoints.size(), 3U);
    EXPECT_EQ(run.checkpoints[2].error, "");
    EXPECT_THAT(list_checkpoints(folder.file("checkpoints")),
                ElementsAre(EndsWith("130.h5"), EndsWith("120.h5")));
}

TEST(CheckpointHook, RefusedFilesOfHigherNumberTakeNoSlot) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    write_checkpoint(checkpoint_path(folder.path(), 100), some_snapshot(100), hdf5);
    for (const int samples : {500, 600}) {
        std::ofstream(checkpoint_path(folder.path(), samples)) << "torn";
    }
    ASSERT_TRUE(find_checkpoint(folder.path(), kIdentity, hdf5));
    EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre(EndsWith("100.h5")));
    EXPECT_TRUE(fs::exists(checkpoint_path(folder.path(), 600) + ".refused"));

    std::ofstream(checkpoint_path(folder.path(), 900)) << "put there later";
    FakeTrainControl run(folder.path());
    run.run_options.checkpoint_every_samples = 10;
    run.run_options.keep_checkpoints = 1;
    const auto hook = make_checkpoint_hook(folder.path(), hdf5);
    hook->on_start(run);
    hook->on_step(run, run.step(110, 1));
    hook->on_end(run, StopReason::kBudget);
    EXPECT_THAT(list_checkpoints(folder.path()),
                ElementsAre(EndsWith("900.h5"), EndsWith("110.h5")));
}

TEST(CheckpointFolder, NothingIsRenamedWhenNoneCanBeUsed) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = checkpoint_path(folder.path(), 100);
    write_checkpoint(path, some_snapshot(100), hdf5);
    EXPECT_THROW((void)find_checkpoint(folder.path(), {{"model", "resnet20"}}, hdf5), FileError);
    EXPECT_TRUE(find_checkpoint(folder.path(), kIdentity, hdf5)) << "with the right option";
}

TEST(CheckpointHook, FailedOneIsTriedAgainSoon) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    FakeTrainControl run(folder.path());
    run.run_options.checkpoint_every_s = 600;
    std::ofstream(folder.file("checkpoints")) << "a file where the folder should be";
    const auto hook = make_checkpoint_hook(folder.file("checkpoints"), hdf5);
    hook->on_start(run);
    const auto step_until_reported = [&](double seconds) {
        const std::size_t before = run.checkpoints.size();
        hook->on_step(run, run.step(10, seconds));
        for (int i = 0; i < 1000 && run.checkpoints.size() == before; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            hook->on_step(run, run.step(10, 0));
        }
        return run.checkpoints.size() > before;
    };
    ASSERT_TRUE(step_until_reported(601));
    EXPECT_NE(run.checkpoints.back().error, "");
    fs::remove(folder.file("checkpoints"));
    hook->on_step(run, run.step(10, 29));
    EXPECT_EQ(run.checkpoints.size(), 1U);
    ASSERT_TRUE(step_until_reported(1)) << "30 s later";
    EXPECT_EQ(run.checkpoints.back().error, "");
}

TEST(CheckpointHook, NoThreadToBeHadIsAFailedCheckpoint) {
    const TempFolder folder;
    EXPECT_TRUE(in_child([&] {
        Hdf5Thread hdf5;
        FakeTrainControl run(folder.path());
        run.run_options.checkpoint_every_samples = 10;
        const auto hook = make_checkpoint_hook(folder.path(), hdf5);
        hook->on_start(run);
        if (geteuid() == 0 && setuid(65534) != 0) {  // the limit does not bind root
            return false;
        }
        prctl(PR_SET_DUMPABLE, 1);  // the leak check at exit needs it
        rlimit before{};
        getrlimit(RLIMIT_NPROC, &before);
        const rlimit none{0, before.rlim_max};
        setrlimit(RLIMIT_NPROC, &none);
        hook->on_step(run, run.step(10, 1));
        setrlimit(RLIMIT_NPROC, &before);
        return run.checkpoints.size() == 1 && !run.checkpoints[0].error.empty();
    }));
}

TEST(CheckpointHook, FailureIsReportedAndTriedAgainAtTheEnd) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    FakeTrainControl run(folder.path());
    run.run_options.checkpoint_every_samples = 10;
    std::ofstream(folder.file("checkpoints")) << "a file where the folder should be";
    const auto hook = make_checkpoint_hook(folder.file("checkpoints"), hdf5);
    hook->on_start(run);
    hook->on_step(run, run.step(10, 1));
    hook->on_end(run, StopReason::kBudget);
    ASSERT_EQ(run.checkpoints.size(), 2U);
    EXPECT_THAT(run.checkpoints[0].error, HasSubstr("checkpoints"));
    EXPECT_NE(run.checkpoints[1].error, "");
    fs::remove(folder.file("checkpoints"));
    hook->on_end(run, StopReason::kBudget);
    EXPECT_EQ(run.checkpoints.back().error, "");
}

TEST(CheckpointHook, SwitchedOffItStillSavesAStoppedRun) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    FakeTrainControl run(folder.path());
    run.run_options.checkpoint_every_s = 0;
    const auto hook = make_checkpoint_hook(folder.path(), hdf5);
    hook->on_start(run);
    hook->on_step(run, run.step(10, 1e6));
    hook->on_end(run, StopReason::kBudget);
    EXPECT_TRUE(run.checkpoints.empty());
    hook->on_end(run, StopReason::kSignal);
    EXPECT_EQ(run.checkpoints.size(), 1U);
}

TEST(MetricsFile, ResumedFileIsCutAtTheCheckpoint) {
    const TempFolder folder;
    const std::string path = folder.file("m.jsonl");
    std::int64_t position = 0;
    {
        MetricsFile metrics(path, 0);
        metrics.write(R"({"a":1})");
        position = metrics.position();
        metrics.write(R"({"a":2})");
    }
    std::ofstream(path, std::ios::app) << "{torn";
    MetricsFile metrics(path, position);
    metrics.write(R"({"a":3})");
    EXPECT_EQ(content(path), "{\"a\":1}\n{\"a\":3}\n");
    EXPECT_EQ(metrics.failures(), 0);
}

TEST(MetricsFile, MissingFolderIsAnError) {
    const TempFolder folder;
    EXPECT_THROW(MetricsFile(folder.file("no/m.jsonl"), 0), FileError);
}

TEST(MetricsFile, FullDiskIsCountedAndLeavesWholeLines) {
    const TempFolder folder;
    const std::string path = folder.file("m.jsonl");
    EXPECT_TRUE(in_child([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{20, 20};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            return false;
        }
        MetricsFile metrics(path, 0);
        metrics.write(R"({"first":1})");
        metrics.write(R"({"second":2})");
        metrics.write(R"({"third":3})");
        return metrics.failures() == 2;
    }));
    EXPECT_EQ(content(path), "{\"first\":1}\n");
}

TEST(RunFolderTest, ResultsAreNeverReplacedUnasked) {
    const TempFolder folder;
    TrainOptions options;
    options.out = folder.file("run");
    prepare_run_folder(options);
    std::ofstream(options.out + "/metrics.jsonl") << "{}\n";
    EXPECT_THROW(prepare_run_folder(options), UsageError);
    options.resume = true;
    prepare_run_folder(options);
    EXPECT_TRUE(fs::exists(options.out + "/metrics.jsonl"));
    options.resume = false;
    options.overwrite = true;
    fs::create_directories(options.out + "/checkpoints");
    const std::string refused = checkpoint_path(options.out + "/checkpoints", 5) + ".refused";
    std::ofstream(refused) << "x";
    prepare_run_folder(options);
    EXPECT_FALSE(fs::exists(refused));
    EXPECT_FALSE(fs::exists(options.out + "/metrics.jsonl"));
}

TEST(RunFolderTest, IsCheckedWithoutBeingTouched) {
    const TempFolder folder;
    TrainOptions options;
    options.out = folder.file("new/run");
    check_run_folder(options);
    EXPECT_FALSE(fs::exists(folder.file("new")));
    options.out = folder.file("old");
    fs::create_directories(options.out);
    std::ofstream(options.out + "/metrics.jsonl") << "{}\n";
    EXPECT_THROW(check_run_folder(options), UsageError);
    options.overwrite = true;
    check_run_folder(options);
    EXPECT_TRUE(fs::exists(options.out + "/metrics.jsonl"));
    EXPECT_FALSE(fs::exists(options.out + "/run.lock"));
    options.out += "/metrics.jsonl/run";
    EXPECT_THROW(check_run_folder(options), FileError);
}

TEST(RunFolderTest, TemporaryFilesOfKilledRunsAreDeleted) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    TrainOptions options;
    options.out = folder.file("run");
    fs::create_directories(options.out + "/checkpoints");
    const StoreWriter writing(options.out + "/model.h5", {"some", 1}, hdf5);
    const auto files_in = [](const std::string& where) {
        std::set<std::string> names;
        for (const auto& entry : fs::directory_iterator(where)) {
            names.insert(entry.path().filename().string());
        }
        names.erase("run.lock");
        return names;
    };
    std::set<std::string> kept = files_in(options.out);
    ASSERT_EQ(kept.size(), 2U) << "the folder and a file being written";
    const std::string gone = ".part-99999999-0";  // above the largest process id
    std::ofstream(options.out + "/model.h5" + gone) << "torn";
    std::ofstream(options.out + "/model.h5.part-" + std::to_string(getpid()) + "-7") << "torn";
    for (const char* name : {"/mine.h5.part-99999999-0", "/model.h5.part-", "/model.h5.part-1x"}) {
        std::ofstream(options.out + name) << "not ours";
        kept.insert(name + 1);
    }
    std::ofstream(options.out + "/checkpoints/step-000000000064.h5" + gone) << "torn";
    prepare_run_folder(options);
    EXPECT_EQ(files_in(options.out), kept);
    EXPECT_TRUE(fs::is_empty(options.out + "/checkpoints"));
}

TEST(RunFolderTest, FileInTheWayIsAnError) {
    const TempFolder folder;
    TrainOptions options;
    options.out = folder.file("run");
    std::ofstream(options.out) << "x";
    EXPECT_THROW(prepare_run_folder(options), FileError);
}

}  // namespace
}  // namespace cohort
