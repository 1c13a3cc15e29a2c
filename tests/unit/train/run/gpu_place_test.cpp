// Which device a rank computes on, and what says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cohort/comm/rank_map.hpp"
#include "cohort/core/error.hpp"
#include "cohort/train/options.hpp"
#include "core/system/launch_env.hpp"
#include "support/core/child_process.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"
#include "support/train/worker_rig.hpp"
#include "train/checkpoint/snapshot.hpp"
#include "train/coordinator/run_start.hpp"
#include "train/run/job_context.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;

/// Ranks on the given nodes; the first are servers.
RankMap on_nodes(const std::vector<int>& nodes, int servers) {
    RankMap map{.servers = servers};
    for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
        map.ranks.push_back({.rank = rank,
                             .host = "h" + std::to_string(nodes[static_cast<std::size_t>(rank)]),
                             .node = nodes[static_cast<std::size_t>(rank)],
                             .cores = "0-7",
                             .role = rank < servers ? Role::kServer : Role::kWorker});
    }
    return map;
}

std::vector<std::string> devices(std::string_view option, const RankMap& map, int gpus) {
    std::vector<std::string> names;
    for (const RankInfo& info : map.ranks) {
        names.push_back(device_of_rank(option, map, info.rank, gpus));
    }
    return names;
}

TEST(DeviceOfRank, WorkersOfANodeGoRoundItsGpus) {
    const RankMap map = on_nodes({0, 0, 1, 0, 1, 0}, 0);
    EXPECT_THAT(devices("cuda", map, 2),
                ElementsAre("cuda:0", "cuda:1", "cuda:0", "cuda:0", "cuda:1", "cuda:1"));
    EXPECT_THAT(devices("auto", map, 8),
                ElementsAre("cuda:0", "cuda:1", "cuda:0", "cuda:2", "cuda:1", "cuda:3"));
    EXPECT_THAT(devices("cuda", map, 1), testing::Each("cuda:0"))
        << "a launcher that shows every rank its own";
}

TEST(DeviceOfRank, ServersAreCountedByThemselves) {
    const RankMap map = on_nodes({0, 0, 0, 0}, 2);
    EXPECT_THAT(devices("cuda", map, 4), ElementsAre("cuda:0", "cuda:1", "cuda:0", "cuda:1"));
}

TEST(DeviceOfRank, OtherNamesAreForAllAlike) {
    const RankMap map = on_nodes({0, 0}, 0);
    EXPECT_THAT(devices("cuda:1", map, 4), testing::Each("cuda:1"));
    EXPECT_THAT(devices("cpu", map, 4), testing::Each("cpu"));
    EXPECT_FALSE(shares_gpus("cuda:1"));
}

TEST(DeviceOfRank, WithoutAGpuAutoIsTheCpuAndCudaAnError) {
    const RankMap map = on_nodes({0, 0}, 0);
    EXPECT_THAT(devices("auto", map, 0), testing::Each("cpu"));
    EXPECT_THAT(devices("cuda", map, 0), testing::Each("cuda:0")) << "which cannot be made";
}

TEST(DeviceOfRank, TheHeaderNamesGpus) {
    RankMap map = on_nodes({0, 0, 0}, 1);
    map.ranks[1].device = "cuda:0";
    map.ranks[2].device = "cuda:1";
    EXPECT_THAT(map.facts(),
                ElementsAre("h0: rank 0: server 0, cores 0-7; rank 1: worker 0, cores 0-7, cuda:0; "
                            "rank 2: worker 1, cores 0-7, cuda:1"));
    map.ranks[2].device = "cuda:0";
    EXPECT_THAT(map.facts(),
                ElementsAre("h0: rank 0: server 0, cores 0-7; ranks 1-2: workers 0-1, cores 0-7, "
                            "cuda:0"));
}

TrainOptions options() {
    TrainOptions o;
    o.data = "data.h5";
    o.out = "out";
    return o;
}

TEST(DeviceOptions, AreRefusedWhereTheyMeanNothing) {
    (void)checked(options(), 2);
    TrainOptions o = options();
    o.precision = PrecisionChoice::kBf16;
    (void)checked(o, 2);
    o.device = "cpu";
    (void)checked(o, 2);
    o.precision = PrecisionChoice::kF16;
    EXPECT_THROW((void)checked(o, 2), UsageError);
    o.device = "auto";
    (void)checked(o, 2);  // may be a GPU
    o = options();
    o.all_reduce = "nccl";
    (void)checked(o, 2);
    o.device = "cpu";
    EXPECT_THROW((void)checked(o, 2), UsageError);
    o = options();
    o.server_device = "cuda";
    EXPECT_THROW((void)checked(o, 2), UsageError) << "a ring has no servers";
    o.arch = Architecture::kServers;
    (void)checked(o, 2);
    o.server_device = "cuda:1";
    EXPECT_THROW((void)checked(o, 2), UsageError);
}

TEST(PrecisionOfAJob, IsTheDevicesUnlessAnotherIsAskedFor) {
    EXPECT_EQ(precision_on(DeviceKind::kCuda, PrecisionChoice::kAuto), Precision::kTf32);
    EXPECT_EQ(precision_on(DeviceKind::kCpu, PrecisionChoice::kAuto), Precision::kF32);
    for (const DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kCpu}) {
        EXPECT_EQ(precision_on(kind, PrecisionChoice::kF32), Precision::kF32);
        EXPECT_EQ(precision_on(kind, PrecisionChoice::kTf32), Precision::kTf32);
        EXPECT_EQ(precision_on(kind, PrecisionChoice::kBf16), Precision::kBf16);
        EXPECT_EQ(precision_on(kind, PrecisionChoice::kF16), Precision::kF16);
    }
}

TEST(PrecisionOfAJob, TheHeaderSaysWhatEachKindOfDeviceComputesIn) {
    RankMap map = on_nodes({0, 0, 1}, 1);
    map.ranks[0].device = "cuda:0";  // a server: it has no precision
    map.ranks[1].device = map.ranks[2].device = "cpu";
    TrainOptions o = options();
    EXPECT_EQ(precision_facts(o, map), "precision f32 on CPUs");
    map.ranks[1].device = "cuda:0";
    EXPECT_EQ(precision_facts(o, map), "precision f32 on CPUs, tf32 on GPUs");
    o.precision = PrecisionChoice::kF32;
    EXPECT_EQ(precision_facts(o, map), "precision f32 on CPUs, f32 on GPUs");
}

/// The run of a rig with a checkpoint that was written on a GPU, begun by default.
class BegunOnAGpu : public testing::Test {
protected:
    BegunOnAGpu() : rig_("smallcnn", 1, 1) {
        JobContext& job = rig_.job;
        const std::string folder = RunFolder(job.options.out).checkpoints;
        std::filesystem::create_directories(folder);
        const std::string path = checkpoint_path(folder, 12);
        RunSnapshot snapshot;
        snapshot.identity = run_identity(job.options, job.train_set->info(), job.graph);
        TrainOptions then = job.options;
        then.deterministic = true;
        snapshot.arithmetic = arithmetic(then, worker_on("cuda:0"));
        snapshot.lease_state = encode_lease_state({});
        snapshot.reference_batch = 16;
        snapshot.version = 3;
        snapshot.parameters = 8;
        ShardSnapshot shard{.begin = 0, .end = 8, .version = 3};
        shard.parameters.resize(8);
        snapshot.shards = {write_shard(path, shard, job.hdf5)};
        write_manifest(path, snapshot, job.hdf5);
        job.options.resume = true;
    }
    /// A server that has no GPU, and a worker.
    static RankMap worker_on(const std::string& device) {
        RankMap map;
        map.servers = 1;
        map.ranks.resize(2);
        map.ranks[0].role = Role::kServer;
        map.ranks[1].device = device;
        return map;
    }
    [[nodiscard]] RunStart resume_on_a_cpu() {
        rig_.job.arithmetic = arithmetic(rig_.job.options, worker_on("cpu"));
        return find_start(rig_.job);
    }
    test::WorkerRig rig_;
};

TEST_F(BegunOnAGpu, GoesOnOnACpuInThePrecisionOfCpus) {
    rig_.job.options.deterministic = false;
    EXPECT_EQ(resume_on_a_cpu().order.version, 3);
}

TEST_F(BegunOnAGpu, IsRefusedOnACpuWhereBitsArePromised) {
    rig_.job.options.deterministic = true;
    const std::string refusal = test::message_of<FileError>([&] { (void)resume_on_a_cpu(); });
    EXPECT_THAT(refusal, testing::HasSubstr("tf32 on GPUs"));
    EXPECT_THAT(refusal, testing::HasSubstr("f32 on CPUs"));
    rig_.job.options.precision = PrecisionChoice::kF32;  // asked for: no surprise
    EXPECT_EQ(resume_on_a_cpu().order.version, 3);
}

TEST(ReplicaOptionsOfAJob, NoFileOfMeasuredChoicesInDeterministicRuns) {
    const TempFolder folder;
    const std::string file = folder.file("cache/choices.txt");
    const auto device = make_cpu_device(1);
    const auto options_of = [&](bool deterministic) {
        return replica_options(*device, PrecisionChoice::kAuto, deterministic, file);
    };
    EXPECT_TRUE(options_of(true).tuning_file.empty());
    EXPECT_FALSE(std::filesystem::exists(folder.file("cache")));
    EXPECT_EQ(options_of(false).tuning_file, file);
    EXPECT_EQ(options_of(false).precision, Precision::kF32);
    EXPECT_TRUE(std::filesystem::exists(folder.file("cache")));
}

TEST(CacheFolder, IsTheUsersCache) {
    const auto folder_is = [](const char* cache, const char* home, const std::string& expected) {
        return in_child([&] {
            cache == nullptr ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", cache, 1);
            home == nullptr ? unsetenv("HOME") : setenv("HOME", home, 1);
            return read_launch_env().cache_folder == expected;
        });
    };
    EXPECT_TRUE(folder_is("/c", "/h", "/c/cohort"));
    EXPECT_TRUE(folder_is(nullptr, "/h", "/h/.cache/cohort"));
    EXPECT_TRUE(folder_is("", "/h", "/h/.cache/cohort"));
    EXPECT_TRUE(folder_is("relative", nullptr, ""));
}

}  // namespace
}  // namespace cohort
