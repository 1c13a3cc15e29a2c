// Which mode is in force, what workers have done, and who is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cohort/core/error.hpp"
#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"
#include "sched/session/load_monitor.hpp"
#include "sched/session/mode_controller.hpp"
#include "train/coordinator/lost_workers.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kWorkers = 4;

TrainOptions servers(const std::string& mode, const std::string& schedule = "") {
    TrainOptions options;
    options.arch = Architecture::kServers;
    options.mode = mode;
    options.mode_schedule = schedule;
    options.batch = 10;
    return options;
}

Telemetry at(std::int64_t samples, double seconds = 0) {
    Telemetry telemetry{.seconds = seconds,
                        .samples_applied = samples,
                        .budget_samples = 100000,
                        .updates = samples / 10,
                        .workers = {}};
    telemetry.workers.resize(kWorkers);
    return telemetry;
}

ModeController desk(TrainOptions options, std::int64_t samples = 0) {
    const ModeSetting setting = mode_setting(options, kWorkers);
    understand_modes(options, setting);
    return {{.modes = options.modes, .deterministic = options.deterministic}, setting, samples};
}

TEST(ModeController, APlainModeStaysAsItIs) {
    ModeController modes = desk(servers("static:3"));
    EXPECT_EQ(modes.start().name, "static:3");
    for (std::int64_t samples = 0; samples < 1000; samples += 10) {
        EXPECT_FALSE(modes.ask(at(samples)));
    }
    EXPECT_THAT(modes.switches().take(), IsEmpty());
}

TEST(ModeController, FollowsTheSchedule) {
    ModeController modes = desk(servers("", "0:ssgd,200:static:3,400:asgd"));
    EXPECT_EQ(modes.start().name, "ssgd");
    EXPECT_FALSE(modes.ask(at(199)));
    auto change = modes.ask(at(205, 2));
    ASSERT_TRUE(change);
    EXPECT_EQ(change->plan.name, "static:3");
    EXPECT_EQ(modes.mode(), "static:3");
    EXPECT_EQ(modes.in_force(), "ssgd") << "not in force yet";
    modes.installed(change->plan, 2.5);
    EXPECT_EQ(modes.in_force(), "static:3");
    EXPECT_FALSE(modes.ask(at(399)));
    EXPECT_EQ(modes.ask(at(1000))->plan.name, "asgd");
}

TEST(ModeController, AResumedRunIsInTheRightEntry) {
    const TrainOptions options = servers("", "0:ssgd,200:static:3,400:asgd");
    EXPECT_EQ(desk(options, 199).start().name, "ssgd");
    EXPECT_EQ(desk(options, 200).start().name, "static:3");
    EXPECT_EQ(desk(options, 5000).start().name, "asgd");
    ModeController modes = desk(options, 5000);
    (void)modes.start();
    EXPECT_FALSE(modes.ask(at(5010)));
}

TEST(ModeController, EntriesThatWerePassedTogetherEndInTheNewest) {
    ModeController modes = desk(servers("", "0:ssgd,200:static:3,400:asgd"));
    (void)modes.start();
    EXPECT_EQ(modes.ask(at(900))->plan.name, "asgd");
    EXPECT_FALSE(modes.ask(at(910)));
}

TEST(ModeController, ARequestHoldsUntilTheNextEntry) {
    ModeController modes = desk(servers("", "0:ssgd,400:asgd"));
    (void)modes.start();
    modes.request("static:2");
    EXPECT_EQ(modes.mode(), "ssgd") << "not before it is asked";
    EXPECT_EQ(modes.ask(at(100))->plan.name, "static:2");
    EXPECT_FALSE(modes.ask(at(390)));
    EXPECT_EQ(modes.ask(at(400))->plan.name, "asgd");
}

TEST(ModeController, RequestsThatCannotBeChangeNothing) {
    ModeController modes = desk(servers("ssgd"));
    (void)modes.start();
    EXPECT_THROW(modes.request("static:5"), UsageError);
    EXPECT_THROW(modes.request("nonsense"), UsageError);
    EXPECT_THROW(modes.request("ring:2"), UsageError) << "another architecture's";
    EXPECT_FALSE(modes.ask(at(10)));
    TrainOptions options = servers("ssgd");
    options.deterministic = true;
    ModeController strict = desk(options);
    (void)strict.start();
    EXPECT_THROW(strict.request("asgd"), UsageError);
    EXPECT_NO_THROW(strict.request("static:4"));
}

TEST(ModeController, ReportsAChangeFromTheRequestToTheFirstUpdate) {
    ModeController modes = desk(servers("ssgd"));
    const SyncPlan first = modes.start();
    modes.request("asgd");
    const auto change = modes.ask(at(100, 3));
    ASSERT_TRUE(change);
    EXPECT_NE(change->plan.id, first.id);
    modes.updated(3.1, 0.5);  // still under the old plan
    EXPECT_THAT(modes.switches().take(), IsEmpty());
    modes.installed(change->plan, 3.25);
    EXPECT_THAT(modes.switches().take(), IsEmpty());
    modes.updated(3.75, 0.6);
    modes.updated(4.0, 0.7);
    const auto reports = modes.switches().take();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].from, "ssgd");
    EXPECT_EQ(reports[0].to, "asgd");
    EXPECT_EQ(reports[0].why, "request");
    EXPECT_EQ(reports[0].samples, 100);
    EXPECT_DOUBLE_EQ(reports[0].train_seconds, 3);
    EXPECT_DOUBLE_EQ(*reports[0].in_force_s, 0.25);
    EXPECT_DOUBLE_EQ(*reports[0].first_update_s, 0.75);
    EXPECT_DOUBLE_EQ(reports[0].slowest_own_s, 0.6);
}

TEST(ModeController, OnlyTheNewestOfSeveralChangesComesIntoForce) {
    ModeController modes = desk(servers("ssgd"));
    (void)modes.start();
    modes.request("asgd");
    const auto overtaken = modes.ask(at(100, 1));
    modes.request("static:2");
    const auto newest = modes.ask(at(110, 2));
    ASSERT_TRUE(overtaken && newest);
    modes.installed(newest->plan, 3);
    modes.updated(4, 0);
    const auto reports = modes.switches().take();
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].to, "asgd");
    EXPECT_FALSE(reports[0].in_force_s);
    EXPECT_EQ(reports[1].from, "ssgd");
    EXPECT_EQ(reports[1].to, "static:2");
    EXPECT_DOUBLE_EQ(*reports[1].in_force_s, 1);
}

TEST(ModeController, PlansAreForThoseWhoAreLeft) {
    ModeController modes = desk(servers("", "0:asgd,100:static:4"));
    (void)modes.start();
    Telemetry telemetry = at(50);
    telemetry.workers[0].live = telemetry.workers[1].live = false;
    const auto fewer = modes.ask(telemetry);
    ASSERT_TRUE(fewer);
    EXPECT_EQ(fewer->plan.cohorts.size(), 2U);
    telemetry.samples_applied = 150;
    const auto next = modes.ask(telemetry);
    ASSERT_TRUE(next);
    EXPECT_THAT(next->plan.cohorts.at(0).members, ElementsAre(2, 3));
    EXPECT_EQ(next->plan.cohorts.at(0).quorum, 2);
}

TEST(ModeController, AnotherModeBeginsWithEqualBatches) {
    ModeController modes = desk(servers("lb-bsp"));
    (void)modes.start();
    std::vector<std::int64_t> uneven;
    for (std::int64_t samples = 40; samples < 8000 && uneven.empty(); samples += 40) {
        Telemetry telemetry = at(samples);
        for (int worker = 0; worker < kWorkers; ++worker) {
            WorkerReport& one = telemetry.workers[static_cast<std::size_t>(worker)];
            one.own_s = one.last_own_s = worker == 0 ? 3 : 1;
            one.pushes = samples / 40;
        }
        if (const auto change = modes.ask(telemetry)) {
            uneven = change->batches;
            modes.installed(change->plan, 1);
            modes.updated(1, 1);
            const auto reports = modes.switches().take();
            ASSERT_EQ(reports.size(), 1U);
            EXPECT_EQ(reports[0].to, "lb-bsp (ssgd)");
            EXPECT_TRUE(reports[0].same_mode());
        }
    }
    ASSERT_EQ(uneven.size(), 4U);
    EXPECT_LT(uneven[0], uneven[1]);
    modes.request("asgd");
    EXPECT_THAT(modes.ask(at(9000))->batches, ElementsAre(10, 10, 10, 10));
}

TEST(ModeController, ADeterministicRunKnowsNoTimes) {
    TrainOptions options = servers("dynamic");
    const auto changes = [](TrainOptions o) {
        ModeController modes = desk(o);
        (void)modes.start();
        int count = 0;
        for (std::int64_t samples = 40; samples < 8000; samples += 40) {
            Telemetry telemetry = at(samples);
            for (int worker = 0; worker < kWorkers; ++worker) {
                WorkerReport& one = telemetry.workers[static_cast<std::size_t>(worker)];
                one.own_s = one.last_own_s = worker == 0 ? 5 : 1;
                one.pushes = samples / 40;
            }
            if (const auto change = modes.ask(telemetry)) {
                modes.installed(change->plan, 0);
                ++count;
            }
        }
        return count;
    };
    EXPECT_GT(changes(options), 0);
    options.deterministic = true;
    EXPECT_EQ(changes(options), 0);
}

TEST(WorkerStats, ScalesOwnTimesToTheBatchAndCountsOutcomes) {
    WorkerStats books(2, 100);
    books.timed(1, 25, 0.5);
    books.timed(1, 0, 9);
    books.settled({.worker = 1, .samples = 25, .lag = 1.5, .lag_updates = 3});
    books.settled({.worker = 1,
                   .samples = 25,
                   .lag = 2.5,
                   .lag_updates = 4,
                   .weight = 0.5,
                   .over_bound = true});
    books.settled({.worker = 1,
                   .samples = 25,
                   .lag = 9,
                   .weight = 0,
                   .returned = ReturnReason::kInterrupted});
    books.settled({.worker = 1, .samples = 25, .weight = 0, .returned = ReturnReason::kLost});
    const WorkerReport& one = books.reports()[1];
    EXPECT_DOUBLE_EQ(one.own_s, 2.0);
    EXPECT_EQ(one.pushes, 2);
    EXPECT_EQ(one.samples, 50);
    EXPECT_EQ(one.discounted, 1);
    EXPECT_EQ(one.over_bound, 1);
    EXPECT_DOUBLE_EQ(one.lag, 9);
    EXPECT_DOUBLE_EQ(one.lag_sum, 4);
    EXPECT_DOUBLE_EQ(one.lag_max, 2.5) << "of what was applied";
    EXPECT_EQ(one.lag_updates_sum, 7);
    EXPECT_EQ(one.refused[static_cast<std::size_t>(ReturnReason::kInterrupted)], 1);
    EXPECT_DOUBLE_EQ(books.reports()[0].own_s, 0) << "it has not pushed yet";
    EXPECT_DOUBLE_EQ(books.slowest_own_s(), 2.0);
    ClusterReport cluster{.mode = "x", .pending = 0, .workers = books.reports()};
    EXPECT_EQ(cluster.total().pushes, 2);
    EXPECT_DOUBLE_EQ(cluster.total().lag, 9);
}

TEST(WorkerStats, AWorkerThatCameBackIsTimedAnew) {
    WorkerStats books(2, 10);
    books.timed(0, 10, 5);
    books.lost(0);
    EXPECT_DOUBLE_EQ(books.slowest_own_s(), 0);
    EXPECT_FALSE(books.reports()[0].live);
    books.joined(0);
    EXPECT_TRUE(books.reports()[0].live);
    EXPECT_EQ(books.reports()[0].lost, 1);
    books.timed(0, 10, 1);
    EXPECT_DOUBLE_EQ(books.reports()[0].own_s, 1);
}

RankMap ranks(int workers, int server_ranks) {
    RankMap map;
    map.servers = server_ranks;
    for (int rank = 0; rank < workers + server_ranks; ++rank) {
        map.ranks.push_back({.rank = rank, .host = "h", .pid = 100 + rank});
    }
    return map;
}

TEST(LostWorkers, CountsEachLossOnceAndKnowsTheLimit) {
    const RankMap map = ranks(4, 1);
    LostWorkers losses(map, 1);
    EXPECT_TRUE(losses.lost(2));
    EXPECT_FALSE(losses.lost(2));
    EXPECT_FALSE(losses.too_many());
    EXPECT_EQ(losses.live(), 3);
    EXPECT_TRUE(losses.returned(2));
    EXPECT_FALSE(losses.returned(2));
    EXPECT_TRUE(losses.lost(3));
    EXPECT_FALSE(losses.too_many()) << "the first one is back";
    EXPECT_TRUE(losses.lost(4));
    EXPECT_TRUE(losses.too_many());
    EXPECT_THAT(losses.ranks(), ElementsAre(3, 4));
    EXPECT_EQ(losses.times_lost(), 3);
    EXPECT_EQ(losses.times_returned(), 1);
    EXPECT_THAT(losses.story(), HasSubstr("rank 2 (host h, pid 102)"));
}

TEST(LostWorkers, AllOfThemAreAlwaysTooMany) {
    const RankMap map = ranks(2, 1);
    for (const int most : {-1, 1, 2, 100}) {
        LostWorkers losses(map, most);
        EXPECT_EQ(losses.story(), "");
        EXPECT_TRUE(losses.lost(1));
        EXPECT_FALSE(losses.too_many()) << most;
        EXPECT_TRUE(losses.lost(2));
        EXPECT_TRUE(losses.too_many()) << most;
    }
    LostWorkers none(map, 0);
    EXPECT_TRUE(none.lost(1));
    EXPECT_TRUE(none.too_many());
}

}  // namespace
}  // namespace cohort
