// Checkpoints of many ranks: shards, manifest, and what is left of attempts that did not succeed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "support/core/child_process.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"
#include "support/train/checkpoint_shards.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> files_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        names.push_back(entry.path().filename().string());
    }
    return names;
}

std::string read_error(const std::string& manifest, Hdf5Thread& hdf5) {
    return message_of<FileError>([&] { return read_manifest(manifest, kTestIdentity, hdf5); });
}

void flip_byte(const std::string& path, std::int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(at);
    file.put(byte);
}

TEST(CheckpointShards, AnyCutReadsAsAnyOther) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::vector<std::vector<std::int64_t>> all_cuts{
        {}, {500}, {64, 640}, {320, 320, 960}, {kTestParameters}};
    std::int64_t version = 1;
    for (const auto& cuts : all_cuts) {
        const std::string path = write_test_checkpoint(folder.path(), version, hdf5, cuts);
        for (const auto& others : all_cuts) {
            for (const ShardSnapshot& shard : test_shards(version, others)) {
                EXPECT_TRUE(reads_as_written(path, version, shard.begin, shard.end, hdf5))
                    << path << " " << shard.begin << " to " << shard.end;
            }
        }
        ++version;
    }
}

TEST(CheckpointShards, EveryBitOfTheRunSurvives) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = checkpoint_path(folder.file("new"), 100);
    ShardSnapshot shard{.begin = 0, .end = 3, .version = 7};
    shard.parameters = {1.5F, -0.0F, 3e-42F};
    RunSnapshot written = test_run(7, {write_shard(path, shard, hdf5)});
    written.parameters = 3;
    written.progress.evaluated_at = 3;
    written.progress.train_seconds = 0.1;
    written.progress.tta_seconds = 1.0 / 3;
    written.progress.drops.recent = {3, 5};
    written.reference_batches = 7.0 / 3;
    written.lease_state = {2, 30, 100, 9, 1, 20, 10};
    written.accounts = {128, 70, 1, 2, 4, 8, 16, 32, 43};
    written.metrics_bytes = 12;
    written.arithmetic = "precision tf32 on GPUs";
    write_manifest(path, written, hdf5);

    const RunSnapshot read = read_manifest(path, kTestIdentity, hdf5);
    EXPECT_EQ(read.progress.samples_applied, 70);
    EXPECT_EQ(read.progress.evaluated_at, 3);
    EXPECT_EQ(read.progress.train_seconds, 0.1);
    EXPECT_EQ(read.progress.tta_seconds, 1.0 / 3);
    EXPECT_EQ(read.progress.drops.recent, written.progress.drops.recent);
    EXPECT_EQ(read.version, 7);
    EXPECT_EQ(read.reference_batch, 40);
    EXPECT_EQ(read.reference_batches, 7.0 / 3);
    EXPECT_EQ(read.lease_state, written.lease_state);
    EXPECT_EQ(read.accounts.leased, 128);
    EXPECT_EQ(read.accounts.applied, 70);
    EXPECT_EQ(read.accounts.returned_non_finite, 1);
    EXPECT_EQ(read.accounts.returned_void_round, 2);
    EXPECT_EQ(read.accounts.returned_stop, 4);
    EXPECT_EQ(read.accounts.returned_dropped, 8);
    EXPECT_EQ(read.accounts.returned_interrupted, 16);
    EXPECT_EQ(read.accounts.returned_lost, 32);
    EXPECT_EQ(read.accounts.outstanding, 43);
    EXPECT_EQ(read.metrics_bytes, 12);
    EXPECT_EQ(read.arithmetic, written.arithmetic);
    EXPECT_EQ(read.parameters, 3);
    EXPECT_EQ(read.shards, written.shards);
    const ShardSnapshot values = read_checkpoint_range(path, 0, 3, true, hdf5);
    EXPECT_EQ(values.parameters, shard.parameters);
    EXPECT_TRUE(std::signbit(values.parameters[1]));
    EXPECT_TRUE(values.state.empty());
    EXPECT_TRUE(values.optimizer_slots.empty());
}

TEST(CheckpointShards, StateIsReadOnlyWhenWanted) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = write_test_checkpoint(folder.path(), 1, hdf5, {500});
    EXPECT_TRUE(read_checkpoint_range(path, 0, 500, false, hdf5).state.empty());
    EXPECT_EQ(read_checkpoint_range(path, 600, 700, true, hdf5).state,
              test_values(1, 3, 0, kTestState));
    EXPECT_THAT(message_of<FileError>(
                    [&] { (void)read_checkpoint_range(path, 0, kTestParameters + 1, true, hdf5); }),
                HasSubstr("parameters 0 to 1001, got 1000 in all"));
}

TEST(CheckpointShards, DamagedOnesAreRefusedByName) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = write_test_checkpoint(folder.path(), 1, hdf5, {500});
    const std::string shard = folder.file("step-000000000010.shard-1.h5");
    const auto whole = fs::file_size(shard);
    fs::copy_file(shard, folder.file("copy"));
    const auto restore = [&] {
        fs::copy_file(folder.file("copy"), shard, fs::copy_options::overwrite_existing);
    };
    fs::resize_file(shard, whole / 2);
    EXPECT_THAT(read_error(path, hdf5), testing::AllOf(HasSubstr(shard), HasSubstr("truncated")));
    restore();
    flip_byte(shard, static_cast<std::int64_t>(whole) / 2);
    EXPECT_THAT(read_error(path, hdf5), testing::AllOf(HasSubstr(shard), HasSubstr("damaged")));
    EXPECT_THROW((void)read_checkpoint_range(path, 0, kTestParameters, true, hdf5), FileError);
    EXPECT_TRUE(reads_as_written(path, 1, 0, 500, hdf5)) << "the other shard";
    fs::remove(shard);
    EXPECT_THAT(read_error(path, hdf5),
                testing::AllOf(HasSubstr(shard), HasSubstr("is not there")));
    restore();
    EXPECT_EQ(read_error(path, hdf5), "");
    fs::resize_file(path, fs::file_size(path) - 1);
    EXPECT_THAT(read_error(path, hdf5), testing::AllOf(HasSubstr(path), HasSubstr("truncated")));
}

TEST(CheckpointShards, ForeignOnesAreRefused) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = write_test_checkpoint(folder.path(), 1, hdf5, {500});
    const std::string shard = folder.file("step-000000000010.shard-1.h5");
    const auto replace = [&](const ShardSnapshot& with) {
        const std::string elsewhere = checkpoint_path(folder.file("other"), 10);
        fs::rename(folder.file("other/" + write_shard(elsewhere, with, hdf5)), shard);
    };
    ShardSnapshot other = test_shard(1, 1, 500, kTestParameters);
    other.parameters[7] += 1;
    replace(other);
    EXPECT_THAT(read_error(path, hdf5), HasSubstr("not the shard that was written with this"));
    EXPECT_THROW((void)read_checkpoint_range(path, 900, 910, false, hdf5), FileError);
    replace(test_shard(2, 1, 500, kTestParameters));
    EXPECT_THAT(read_error(path, hdf5), HasSubstr("another version"));
    fs::remove(shard);
    fs::copy_file(path, shard);
    EXPECT_THAT(read_error(path, hdf5), HasSubstr("holds something else"));
    EXPECT_THAT(message_of<FileError>([&] {
                    (void)read_manifest(path, {{"model", "resnet20"}}, hdf5);
                }),
                testing::AllOf(HasSubstr("model differs"), HasSubstr("resnet20")));
}

TEST(CheckpointManifests, NumbersOutOfRangeAreRefusedByName) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = checkpoint_path(folder.path(), 10);
    const std::string shard = write_shard(path, test_shard(1, 0, 0, kTestParameters), hdf5);
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    const std::vector<std::pair<std::string, std::function<void(RunSnapshot&)>>> all{
        {"reference_batch", [](RunSnapshot& run) { run.reference_batch = 0; }},
        {"reference_batch", [](RunSnapshot& run) { run.reference_batch = kLeast; }},
        {"reference_batches", [](RunSnapshot& run) { run.reference_batches = std::nan(""); }},
        {"samples_applied", [](RunSnapshot& run) { run.progress.samples_applied = -1; }},
        {"updates", [](RunSnapshot& run) { run.progress.updates = -(kLeast + 1); }},
        {"dropped_in_a_row", [](RunSnapshot& run) { run.progress.drops.in_a_row = -7; }},
        {"returned_lost", [](RunSnapshot& run) { run.accounts.returned_lost = -1; }},
        {"metrics_bytes", [](RunSnapshot& run) { run.metrics_bytes = kLeast; }},
        {"wall_seconds", [](RunSnapshot& run) { run.progress.wall_seconds = kInfinite; }},
        {"cpu_seconds", [](RunSnapshot& run) { run.progress.cpu_seconds = -1e300; }},
        {"tta_seconds", [](RunSnapshot& run) { run.progress.tta_seconds = std::nan(""); }}};
    for (const auto& [name, change] : all) {
        RunSnapshot run = test_run(1, {shard});
        change(run);
        write_manifest(path, run, hdf5);
        EXPECT_THAT(read_error(path, hdf5), testing::AllOf(HasSubstr(path), HasSubstr(name + " of"),
                                                           HasSubstr("out of range")));
    }
    for (const std::int64_t reference_batch : {std::int64_t{1}, std::int64_t{1} << 53}) {
        RunSnapshot run = test_run(1, {shard});
        run.reference_batch = reference_batch;
        write_manifest(path, run, hdf5);
        EXPECT_EQ(read_error(path, hdf5), "");
    }
}

/// As after a torn one: the checkpoint before is used.
TEST(CheckpointManifests, OneOutOfRangeIsPutAside) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string whole = write_test_checkpoint(folder.path(), 1, hdf5);
    const std::string path = checkpoint_path(folder.path(), 20);
    RunSnapshot run = test_run(2, {write_shard(path, test_shard(2, 0, 0, kTestParameters), hdf5)});
    run.lease_state = {0, 0, 20, 0};  // leases are numbered from 1
    write_manifest(path, run, hdf5);
    const auto found = find_manifest(folder.path(), kTestIdentity, hdf5);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->manifest, whole);
    EXPECT_TRUE(fs::exists(path + ".refused"));
}

TEST(CheckpointShards, NoManifestOverShardsThatDoNotFit) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = checkpoint_path(folder.path(), 10);
    const auto refused = [&](const std::vector<ShardSnapshot>& shards) {
        std::vector<std::string> files;
        for (const ShardSnapshot& shard : shards) {
            files.push_back(write_shard(path, shard, hdf5));
        }
        const std::string error =
            message_of<FileError>([&] { write_manifest(path, test_run(1, files), hdf5); });
        EXPECT_TRUE(files_in(folder.path()).empty()) << "no manifest, and no shards without one";
        return error;
    };
    EXPECT_THAT(refused({test_shard(1, 0, 0, 400), test_shard(1, 1, 500, 1000)}),
                HasSubstr("one that begins at 400"));
    EXPECT_THAT(refused({test_shard(1, 0, 0, 600), test_shard(1, 1, 500, 1000)}),
                HasSubstr("one that begins at 600"));
    EXPECT_THAT(refused({test_shard(1, 0, 0, 600)}), HasSubstr("shards are missing"));
    EXPECT_THAT(refused({}), HasSubstr("shards are missing"));
    EXPECT_THAT(refused({test_shard(1, 0, 0, 600), test_shard(2, 1, 600, 1000)}),
                HasSubstr("another version"));
    EXPECT_THAT(refused({test_shard(1, 0, 0, 600), test_shard(1, 0, 600, 1000)}),
                HasSubstr("more than one shard"));
    EXPECT_THAT(
        message_of<FileError>([&] { write_manifest(path, test_run(1, {"none.h5"}), hdf5); }),
        HasSubstr("none.h5"));
}

TEST(CheckpointShards, ThoseOfAFailedAttemptAreDiscarded) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = write_test_checkpoint(folder.path(), 1, hdf5);
    const std::string next = checkpoint_path(folder.path(), 20);
    const std::string file = write_shard(next, test_shard(2, 1, 500, 1000), hdf5);
    discard_shards(next, {file, "step-000000000020.shard-0.h5"});
    EXPECT_EQ(files_in(folder.path()).size(), 2U);
    discard_shards(next, {"step-000000000010.h5"});  // no shard
    EXPECT_TRUE(reads_as_written(path, 1, 0, kTestParameters, hdf5));
}

TEST(CheckpointShards, OptimizersThatDisagreeAreNotMixed) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const auto error = [&](std::int64_t version, const ShardSnapshot& second) {
        const std::string path = checkpoint_path(folder.path(), 10 * version);
        write_manifest(path,
                       test_run(version, {write_shard(path, test_shard(version, 0, 0, 400), hdf5),
                                          write_shard(path, second, hdf5)}),
                       hdf5);
        return message_of<FileError>(
            [&] { (void)read_checkpoint_range(path, 0, 1000, false, hdf5); });
    };
    ShardSnapshot second = test_shard(1, 1, 400, 1000);
    second.optimizer_scalars[0].second += 1e-9;
    EXPECT_THAT(error(1, second), HasSubstr("another state"));
    second = test_shard(2, 1, 400, 1000);
    second.optimizer_slots.pop_back();
    EXPECT_THAT(error(2, second), HasSubstr("another kind"));
}

TEST(CheckpointShards, AnotherAttemptAtAStepLeavesTheFirstUntilItSucceeds) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    const std::string path = write_test_checkpoint(folder.path(), 1, hdf5, {500});
    const std::string file = write_shard(path, test_shard(1, 0, 0, kTestParameters), hdf5);
    EXPECT_EQ(file, "step-000000000010.shard-0.2.h5");
    EXPECT_THROW(write_manifest(path, test_run(2, {file}), hdf5), FileError);
    EXPECT_TRUE(reads_as_written(path, 1, 0, kTestParameters, hdf5)) << "killed in between";
    write_manifest(path, test_run(1, {file}), hdf5);
    EXPECT_THAT(files_in(folder.path()), UnorderedElementsAre("step-000000000010.h5", file));
    EXPECT_TRUE(reads_as_written(path, 1, 0, kTestParameters, hdf5));
}

TEST(CheckpointManifests, AreListedAndPrunedWithTheirShards) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    for (const std::int64_t version : {1, 2, 3, 9}) {
        write_test_checkpoint(folder.path(), version, hdf5, {500});
    }
    const std::string never_finished = checkpoint_path(folder.path(), 15);
    const std::string in_work = checkpoint_path(folder.path(), 40);
    (void)write_shard(never_finished, test_shard(1, 0, 0, 500), hdf5);
    (void)write_shard(in_work, test_shard(4, 0, 0, 500), hdf5);
    std::ofstream(folder.file("notes.txt")) << "kept";
    EXPECT_THAT(list_checkpoints(folder.path()), ElementsAre(EndsWith("90.h5"), EndsWith("30.h5"),
                                                             EndsWith("20.h5"), EndsWith("10.h5")));
    prune_checkpoints(checkpoint_path(folder.path(), 30), 2);
    EXPECT_THAT(files_in(folder.path()),
                UnorderedElementsAre("step-000000000020.h5", "step-000000000020.shard-0.h5",
                                     "step-000000000020.shard-1.h5", "step-000000000030.h5",
                                     "step-000000000030.shard-0.h5", "step-000000000030.shard-1.h5",
                                     "step-000000000040.shard-0.h5", "step-000000000090.h5",
                                     "step-000000000090.shard-0.h5", "step-000000000090.shard-1.h5",
                                     "notes.txt"));
    prune_checkpoints(checkpoint_path(folder.path(), 30), 0);
    EXPECT_TRUE(reads_as_written(checkpoint_path(folder.path(), 30), 3, 0, 1000, hdf5))
        << "the one just written stays whatever is asked";
    EXPECT_FALSE(fs::exists(checkpoint_path(folder.path(), 20)));
}

TEST(CheckpointManifests, TornOneIsPutAsideWithItsShardsAndThePreviousUsed) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    EXPECT_FALSE(find_manifest(folder.file("missing"), kTestIdentity, hdf5));
    write_test_checkpoint(folder.path(), 1, hdf5, {500});
    write_test_checkpoint(folder.path(), 2, hdf5, {500});
    fs::remove(folder.file("step-000000000020.shard-1.h5"));
    const auto found = find_manifest(folder.path(), kTestIdentity, hdf5);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->snapshot.version, 1);
    EXPECT_EQ(found->manifest, checkpoint_path(folder.path(), 10));
    EXPECT_THAT(files_in(folder.path()),
                UnorderedElementsAre("step-000000000010.h5", "step-000000000010.shard-0.h5",
                                     "step-000000000010.shard-1.h5", "step-000000000020.h5.refused",
                                     "step-000000000020.shard-0.h5.refused"));
    EXPECT_THROW((void)find_manifest(folder.path(), {{"model", "resnet20"}}, hdf5), FileError);
    EXPECT_TRUE(find_manifest(folder.path(), kTestIdentity, hdf5))
        << "with the right option: nothing was renamed";
}

TEST(CheckpointManifests, ShardsWithoutOneGoAtTheNextStart) {
    const TempFolder folder;
    Hdf5Thread hdf5;
    TrainOptions options;
    options.out = folder.file("run");
    const std::string checkpoints = RunFolder(options.out).checkpoints;
    (void)write_shard(checkpoint_path(checkpoints, 20), test_shard(2, 0, 0, 500), hdf5);
    (void)prepare_run_folder(options);  // no results: nothing of that run can be used
    EXPECT_TRUE(files_in(checkpoints).empty());
    write_test_checkpoint(checkpoints, 1, hdf5, {500});
    (void)write_shard(checkpoint_path(checkpoints, 20), test_shard(2, 0, 0, 500), hdf5);
    options.resume = true;
    (void)prepare_run_folder(options);
    EXPECT_EQ(files_in(checkpoints).size(), 3U);
    EXPECT_TRUE(find_manifest(checkpoints, kTestIdentity, hdf5));
    options.resume = false;
    EXPECT_THROW((void)prepare_run_folder(options), UsageError);
    options.overwrite = true;
    (void)prepare_run_folder(options);
    EXPECT_TRUE(files_in(checkpoints).empty());
}

/// In a child process: checkpoint 2 does not fit on the disk, checkpoint 1 stays.
bool survives_limit(const std::string& folder, rlim_t limit) {
    Hdf5Thread hdf5;
    const std::string first = write_test_checkpoint(folder, 1, hdf5, {500});
    limit_file_size(limit);
    const std::string path = checkpoint_path(folder, 20);
    const std::string error = message_of<FileError>(
        [&] { (void)write_shard(path, test_shard(2, 0, 0, kTestParameters), hdf5); });
    limit_file_size(RLIM_INFINITY);
    const std::string shard = write_shard(path, test_shard(2, 0, 0, kTestParameters), hdf5);
    limit_file_size(limit);
    const std::string manifest_error =
        message_of<FileError>([&] { write_manifest(path, test_run(2, {shard}), hdf5); });
    limit_file_size(RLIM_INFINITY);
    return error.find("File too large") != std::string::npos &&
           manifest_error.find("File too large") != std::string::npos &&
           files_in(folder).size() == 3 && reads_as_written(first, 1, 0, kTestParameters, hdf5);
}

TEST(CheckpointFailure, FullDiskLeavesThePreviousOne) {
    for (const rlim_t limit : {rlim_t{0}, rlim_t{700}, rlim_t{100'000}, rlim_t{520'000}}) {
        const TempFolder folder;
        EXPECT_TRUE(in_child([&] { return survives_limit(folder.path(), limit); })) << limit;
    }
}

/// In a child process until it is killed: one checkpoint after another, the newest is kept.
[[noreturn]] void write_for_ever(const std::string& folder) {
    Hdf5Thread hdf5;
    for (std::int64_t version = 1;; ++version) {
        prune_checkpoints(write_test_checkpoint(folder, version, hdf5, {300, 600}), 1);
    }
}

TEST(CheckpointFailure, KilledAtAnyMomentThereIsAWholeOne) {
    Rng rng(1, RngPurpose::kTest);
    for (int i = 0; i < 12; ++i) {
        const TempFolder folder;
        TrainOptions options;
        options.out = folder.path();
        options.resume = true;
        const std::string checkpoints = RunFolder(options.out).checkpoints;
        const std::int64_t complete = 1 + rng.next_below(3);
        const pid_t child = fork();
        if (child == 0) {
            write_for_ever(checkpoints);
        }
        while (list_checkpoints(checkpoints).empty() ||
               list_checkpoints(checkpoints).front() <
                   checkpoint_path(checkpoints, 10 * complete)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(rng.next_below(10'000)));
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        (void)prepare_run_folder(options);
        Hdf5Thread hdf5;
        const auto found = find_manifest(checkpoints, kTestIdentity, hdf5);
        ASSERT_TRUE(found);
        const std::int64_t version = found->snapshot.version;
        EXPECT_GE(version, complete) << "a checkpoint that was there is not lost";
        EXPECT_TRUE(reads_as_written(found->manifest, version, 0, kTestParameters, hdf5));
        EXPECT_LE(files_in(checkpoints).size(), 8U) << "at most the one before it is left";
    }
}

}  // namespace
}  // namespace cohort
