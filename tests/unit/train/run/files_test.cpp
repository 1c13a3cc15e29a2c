#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cohort/core/error.hpp"
#include "cohort/train/metrics_file.hpp"
#include "data/hdf5/store.hpp"
#include "support/core/child_process.hpp"
#include "support/core/file_bytes.hpp"
#include "support/core/temp_folder.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::read_bytes;
using testing::ElementsAre;

TEST(LeaseCodec, StateSurvives) {
    const LeaseState state = decode_lease_state(
        encode_lease_state(
            {.epoch = 2, .position = 30, .applied = 100, .next_id = 9, .pending = {{1, 20, 10}}}),
        "file");
    EXPECT_EQ(state.epoch, 2U);
    EXPECT_EQ(state.position, 30);
    EXPECT_EQ(state.applied, 100);
    EXPECT_EQ(state.next_id, 9U);
    EXPECT_THAT(state.pending, ElementsAre(LeaseSlice{1, 20, 10}));
    EXPECT_THROW((void)decode_lease_state({1, 2, 3}, "file"), FileError);
    EXPECT_THROW((void)decode_lease_state({1, 2, 3, 4, 5}, "file"), FileError);
    for (const std::vector<std::int64_t>& wrong :
         std::vector<std::vector<std::int64_t>>{{1, 2, 3, -1},
                                                {1, 2, 3, 0},
                                                {std::int64_t{1} << 32, 2, 3, 4},
                                                {1, 2, 3, 4, std::int64_t{1} << 32, 0, 1}}) {
        EXPECT_THROW((void)decode_lease_state(wrong, "file"), FileError);
    }
    EXPECT_THROW((void)decode_lease_state({1, 2, std::int64_t{1} << 60, 4}, "file"), FileError);
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
    EXPECT_EQ(read_bytes(path), "{\"a\":1}\n{\"a\":3}\n");
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
        limit_file_size(20);
        MetricsFile metrics(path, 0);
        metrics.write(R"({"first":1})");
        metrics.write(R"({"second":2})");
        metrics.write(R"({"third":3})");
        return metrics.failures() == 2;
    }));
    EXPECT_EQ(read_bytes(path), "{\"first\":1}\n");
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
