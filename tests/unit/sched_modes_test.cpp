#include "cohort/sched/modes.hpp"
#include "support/plan_for.hpp"

#include <gmock/gmock.h>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using test::plan_for;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Architecture kServers = Architecture::kServers;
constexpr Architecture kRing = Architecture::kRing;

TEST(Modes, SsgdIsOneCohortThatWaitsForAll) {
    const SyncPlan plan = plan_for("ssgd", kServers, 3);
    ASSERT_EQ(plan.cohorts.size(), 1u);
    EXPECT_THAT(plan.cohorts[0].members, ElementsAre(0, 1, 2));
    EXPECT_EQ(plan.cohorts[0].quorum, 3);
    EXPECT_FALSE(plan.look_ahead);
    EXPECT_TRUE(is_synchronous(plan));
}

TEST(Modes, AsgdIsACohortPerWorker) {
    const SyncPlan plan = plan_for("asgd", kServers, 2);
    ASSERT_EQ(plan.cohorts.size(), 2u);
    EXPECT_THAT(plan.cohorts[1].members, ElementsAre(1));
    EXPECT_TRUE(plan.look_ahead);
    EXPECT_FALSE(plan_for("asgd", kServers, 2, StaleMomentum::kKeep).look_ahead);
    EXPECT_FALSE(is_synchronous(plan));
}

TEST(Modes, StaticWaitsForX) {
    const SyncPlan plan = plan_for("static:2", kServers, 4);
    EXPECT_EQ(plan.name, "static:2");
    EXPECT_EQ(plan.cohorts.at(0).quorum, 2);
    EXPECT_TRUE(plan.look_ahead);
    EXPECT_FALSE(is_synchronous(plan));
    EXPECT_TRUE(is_synchronous(plan_for("static:4", kServers, 4)));
}

TEST(Modes, OneWorkerIsAlwaysSynchronous) {
    for (const char* mode : {"ssgd", "asgd", "static:1"}) {
        EXPECT_TRUE(is_synchronous(plan_for(mode, kServers, 1))) << mode;
    }
}

TEST(Modes, EveryNameMakesAPlanThatFits) {
    for (const Architecture architecture : {kServers, kRing}) {
        for (const int workers : {1, 2, 7}) {
            for (std::string mode : mode_names(architecture)) {
                if (mode.ends_with("X")) {
                    mode.back() = '1';
                }
                EXPECT_NO_THROW(check_plan(plan_for(mode, architecture, workers), workers));
            }
        }
    }
    EXPECT_EQ(default_mode(kServers), "ssgd");
    EXPECT_EQ(default_mode(kRing), "ring");
}

TEST(Modes, ErrorsSayWhatIsPossible) {
    const auto make = [](const char* mode, Architecture architecture) {
        return [=] { (void)plan_for(mode, architecture, 4); };
    };
    EXPECT_THAT(make("sync", kServers),
                ThrowsMessage<UsageError>(HasSubstr("ssgd, asgd, static:X, got 'sync'")));
    for (const char* mode : {"static:0", "static:5", "static:", "static:2x", "static:-1"}) {
        EXPECT_THAT(make(mode, kServers),
                    ThrowsMessage<UsageError>(HasSubstr("X from 1 to the 4 workers")))
            << mode;
    }
    EXPECT_THAT(make("asgd", kRing), ThrowsMessage<UsageError>(HasSubstr("--arch servers")));
    EXPECT_THAT(make("ring", kServers), ThrowsMessage<UsageError>(HasSubstr("ssgd")));
    EXPECT_THROW((void)parse_architecture("rings"), UsageError);
    EXPECT_THROW((void)parse_stale_momentum("ahead"), UsageError);
    EXPECT_EQ(parse_architecture("servers"), kServers);
    EXPECT_EQ(parse_stale_momentum("keep"), StaleMomentum::kKeep);
}

}  // namespace
}  // namespace cohort
