// Which device a rank computes on, and what says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cohort/comm/rank_map.hpp"
#include "cohort/core/error.hpp"
#include "cohort/train/options.hpp"
#include "core/system/launch_env.hpp"
#include "support/core/child_process.hpp"
#include "support/core/temp_folder.hpp"
#include "train/run/job_context.hpp"

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
    o.precision = Precision::kBf16;
    (void)checked(o, 2);
    o.device = "cpu";
    (void)checked(o, 2);
    o.precision = Precision::kF16;
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

TEST(ReplicaOptionsOfAJob, NoFileOfMeasuredChoicesInDeterministicRuns) {
    const TempFolder folder;
    const std::string file = folder.file("cache/choices.txt");
    EXPECT_TRUE(replica_options(Precision::kF32, true, file).tuning_file.empty());
    EXPECT_FALSE(std::filesystem::exists(folder.file("cache")));
    EXPECT_EQ(replica_options(Precision::kF32, false, file).tuning_file, file);
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
