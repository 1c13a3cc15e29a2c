#include "cohort/comm/rank_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::ElementsAre;

/// Two hosts, ranks dealt in turn; rank 0 is a server.
RankMap two_hosts() {
    RankMap map{.servers = 1};
    for (int rank = 0; rank < 5; ++rank) {
        map.ranks.push_back({.rank = rank,
                             .host = rank % 2 == 0 ? "h0" : "h1",
                             .pid = 100 + rank,
                             .node = rank % 2,
                             .node_rank = rank / 2,
                             .cores = "0-3",
                             .role = rank == 0 ? Role::kServer : Role::kWorker});
    }
    return map;
}

TEST(RankMap, CountsNodesAndRoles) {
    const RankMap map = two_hosts();
    EXPECT_EQ(map.size(), 5);
    EXPECT_EQ(map.nodes(), 2);
    EXPECT_EQ(map.workers(), 4);
    EXPECT_EQ(map.rank_of_worker(2), 3);
    EXPECT_EQ(map.worker_of_rank(3), 2);
    EXPECT_THAT(map.on_node(0), ElementsAre(0, 2, 4));
    EXPECT_THAT(map.on_node(1), ElementsAre(1, 3));
}

TEST(RankMap, DescribesRanks) {
    RankMap map = two_hosts();
    EXPECT_EQ(map.describe(3), "rank 3 (host h1, pid 103)");
    EXPECT_EQ(map.describe(std::vector{0, 1}),
              "rank 0 (host h0, pid 100), rank 1 (host h1, pid 101)");
    EXPECT_EQ(map.describe(std::vector<int>{}), "nobody");
    map.ranks[3].first_rank = 4;
    EXPECT_EQ(map.describe(3), "rank 3 (rank 4 at first, host h1, pid 103)");
    EXPECT_EQ(map.first_rank(3), 4);
    EXPECT_EQ(map.first_rank(2), 2);
    map.ranks[3].fleet_rank = 8;
    EXPECT_EQ(map.describe(3), "rank 3 (rank 8 of the fleet, host h1, pid 103)");
}

TEST(RankMap, HasALineForEachHost) {
    EXPECT_THAT(two_hosts().facts(),
                ElementsAre("h0: rank 0: server 0, cores 0-3; rank 2: worker 1, cores 0-3; "
                            "rank 4: worker 3, cores 0-3",
                            "h1: rank 1: worker 0, cores 0-3; rank 3: worker 2, cores 0-3"));
    RankMap one = two_hosts();
    for (RankInfo& info : one.ranks) {
        info.host = "h0";
        info.node = 0;
    }
    EXPECT_THAT(one.facts(),
                ElementsAre("h0: rank 0: server 0, cores 0-3; ranks 1-4: workers 0-3, cores 0-3"));
}

}  // namespace
}  // namespace cohort
