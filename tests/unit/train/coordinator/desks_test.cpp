// What the coordinator keeps: leases, evaluations, checkpoints, snapshots from shards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cohort/core/error.hpp"
#include "support/core/temp_folder.hpp"
#include "train/coordinator/checkpoint_desk.hpp"
#include "train/coordinator/evaluation_desk.hpp"
#include "train/coordinator/gathering.hpp"
#include "train/coordinator/lease_desk.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LeaseBook book(std::int64_t limit) {
    SampleSetInfo info;
    info.samples = 100;
    info.chunk_samples = 10;
    return LeaseBook(info, {.seed = 1}, limit);
}

std::vector<int> workers(const std::vector<LeaseDesk::Dealt>& dealt) {
    std::vector<int> indices;
    for (const auto& one : dealt) {
        indices.push_back(one.worker);
    }
    return indices;
}

TEST(LeaseDesk, DealsInTurnsSoThatLeasesBelongToWorkersByNumber) {
    LeaseDesk desk(book(1000), 1000, {.workers = 3, .batch = 10, .ahead = 2}, {});
    const auto dealt = desk.top_up();
    EXPECT_THAT(workers(dealt), ElementsAre(0, 1, 2, 0, 1, 2));
    for (std::size_t i = 0; i < dealt.size(); ++i) {
        EXPECT_EQ(dealt[i].order.position, static_cast<std::int64_t>(10 * i));
    }
    EXPECT_THAT(desk.top_up(), IsEmpty()) << "everybody has two";
    desk.applied(dealt[1].order.lease);
    desk.applied(dealt[0].order.lease);
    EXPECT_THAT(workers(desk.top_up()), ElementsAre(0, 1)) << "by index, whoever was first";
}

TEST(LeaseDesk, NobodyHoldsManyOfTheLastLeases) {
    LeaseDesk desk(book(100), 100, {.workers = 2, .batch = 10, .ahead = 3, .share_tail = true}, {});
    const auto dealt = desk.top_up();
    EXPECT_THAT(workers(dealt), ElementsAre(0, 1, 0, 1, 0, 1));
    int applied_by_fast = 0;  // worker 1 never ends its first
    for (auto mine = std::vector<std::uint64_t>{dealt[0].order.lease, dealt[2].order.lease,
                                                dealt[4].order.lease};
         !mine.empty(); ++applied_by_fast) {
        desk.applied(mine.front());
        mine.erase(mine.begin());
        for (const auto& more : desk.top_up()) {
            ASSERT_EQ(more.worker, 0);
            mine.push_back(more.order.lease);
        }
        EXPECT_LE(mine.size(), 3U);
    }
    EXPECT_EQ(applied_by_fast, 7) << "all but the three that were dealt to worker 1 at the start";
}

TEST(LeaseDesk, ClaimsEachLeaseOnceOldestFirst) {
    LeaseDesk desk(book(20), 20, {.workers = 1, .batch = 10, .ahead = 4}, {});
    const auto dealt = desk.top_up();
    ASSERT_EQ(dealt.size(), 2U) << "the budget holds no more";
    EXPECT_EQ(desk.claim(0)->lease, dealt[0].order.lease);
    EXPECT_EQ(desk.claim(0)->lease, dealt[1].order.lease);
    EXPECT_FALSE(desk.claim(0));
}

TEST(LeaseDesk, AccountsAddUpByReason) {
    LeaseDesk desk(book(60), 60, {.workers = 2, .batch = 10, .ahead = 3},
                   {.leased = 7, .returned_non_finite = 7});
    const auto dealt = desk.top_up();
    ASSERT_EQ(dealt.size(), 6U);
    desk.applied(dealt[0].order.lease);
    desk.returned(dealt[1].order.lease, ReturnReason::kNonFinite);
    desk.returned(dealt[2].order.lease, ReturnReason::kVoidRound);
    desk.returned(dealt[3].order.lease, ReturnReason::kDropped);
    desk.returned(dealt[4].order.lease, ReturnReason::kLost);
    desk.return_all();
    const SampleAccounts accounts = desk.accounts();
    EXPECT_EQ(accounts.leased, 60 + 7);
    EXPECT_EQ(accounts.applied, 10);
    EXPECT_EQ(accounts.returned_non_finite, 17);
    EXPECT_EQ(accounts.returned_void_round, 10);
    EXPECT_EQ(accounts.returned_dropped, 10);
    EXPECT_EQ(accounts.returned_lost, 10);
    EXPECT_EQ(accounts.returned_stop, 10);
    EXPECT_EQ(accounts.outstanding, 0);
    EXPECT_EQ(desk.held(0) + desk.held(1), 0U);
    EXPECT_EQ(desk.top_up().size(), 5U) << "what came back goes out again";
}

TEST(LeaseDesk, DealsByEachWorkersOwnSizesToThoseWhoAreLive) {
    LeaseDesk desk(book(1000), 1000, {.workers = 3, .batch = 10, .ahead = 1}, {});
    desk.set_batches({5, 10, 20});
    desk.set_live(1, false);
    const auto dealt = desk.top_up();
    EXPECT_THAT(workers(dealt), ElementsAre(0, 2));
    EXPECT_EQ(desk.samples_of(dealt[0].order.lease), 5);
    EXPECT_EQ(desk.samples_of(dealt[1].order.lease), 20);
    EXPECT_THAT(desk.held_leases(2), ElementsAre(dealt[1].order.lease));
    EXPECT_EQ(desk.newest(), dealt[1].order.lease);
    desk.returned(dealt[1].order.lease, ReturnReason::kInterrupted);
    EXPECT_EQ(desk.samples_of(dealt[1].order.lease), 0) << "it came back";
    desk.shorten_next(2, 2);
    const auto shorter = desk.top_up();
    ASSERT_EQ(shorter.size(), 1U);
    EXPECT_EQ(shorter[0].order.count, 2);
    EXPECT_EQ(shorter[0].order.position, dealt[1].order.position) << "of what came back";
    desk.set_live(1, true);
    desk.set_ahead(2, false);
    EXPECT_THAT(workers(desk.top_up()), ElementsAre(1, 0, 1, 2)) << "once shorter is enough";
    const SampleAccounts part = desk.part_accounts();
    EXPECT_EQ(part.leased, part.outstanding + 20);
    EXPECT_EQ(part.returned_interrupted, 20);
}

TrainProgress at(std::int64_t samples) {
    TrainProgress progress;
    progress.samples_applied = samples;
    progress.train_seconds = 3;
    return progress;
}

TEST(EvaluationDesk, IsDueOncePerPeriodEvenWhenUpdatesStraddle) {
    EvaluationDesk desk(100, 0);
    EXPECT_FALSE(desk.due(90));
    EXPECT_TRUE(desk.due(120));
    const std::uint64_t id = desk.start();
    desk.taken(at(120), 120, 1, true);
    EXPECT_FALSE(desk.due(230)) << "one at a time";
    EXPECT_TRUE(desk.part({.id = id, .part = 0, .samples = 1}));
    EXPECT_FALSE(desk.due(180));
    EXPECT_TRUE(desk.due(230));
    EXPECT_TRUE(EvaluationDesk(100, 90).due(130)) << "the run stopped before it could be done";
}

TEST(EvaluationDesk, PartsAddUpInAnyOrder) {
    EvaluationDesk desk(100, 0);
    const std::uint64_t id = desk.start();
    desk.taken(at(110), 110, 2, true);
    EXPECT_THAT(desk.missing(), ElementsAre(0, 1));
    EXPECT_FALSE(desk.part({.id = id + 1, .part = 0, .samples = 50})) << "another evaluation's";
    EXPECT_FALSE(desk.part(
        {.id = id, .part = 1, .loss_sum = 30, .correct = 10, .samples = 20, .seconds = 2}));
    EXPECT_THAT(desk.missing(), ElementsAre(0));
    const auto report = desk.part(
        {.id = id, .part = 0, .loss_sum = 10, .correct = 20, .samples = 20, .seconds = 1});
    ASSERT_TRUE(report);
    EXPECT_DOUBLE_EQ(report->accuracy, 0.75);
    EXPECT_DOUBLE_EQ(report->loss, 1);
    EXPECT_EQ(report->samples, 40);
    EXPECT_DOUBLE_EQ(report->seconds, 2) << "training waited for the slowest";
    EXPECT_EQ(report->samples_applied, 110);
    EXPECT_DOUBLE_EQ(report->train_seconds, 3);
    EXPECT_FALSE(desk.running());
}

TEST(EvaluationDesk, KeepsPartsThatOvertakeTheNewsOfTheirRound) {
    EvaluationDesk desk(100, 0);
    const std::uint64_t id = desk.start();
    EXPECT_FALSE(desk.part({.id = id, .part = 1, .correct = 10, .samples = 20}));
    desk.taken(at(110), 110, 3, true);
    EXPECT_THAT(desk.missing(), ElementsAre(0, 2));
    EXPECT_FALSE(desk.part({.id = id, .part = 2, .correct = 20, .samples = 20}));
    const auto report = desk.part({.id = id, .part = 0, .correct = 0, .samples = 20});
    ASSERT_TRUE(report);
    EXPECT_DOUBLE_EQ(report->accuracy, 0.5);
    EXPECT_EQ(report->samples_applied, 110);
}

TEST(EvaluationDesk, IsDueAgainWhenItIsGivenUp) {
    EvaluationDesk desk(100, 0);
    const std::uint64_t id = desk.start();
    EXPECT_TRUE(desk.pausing());
    desk.taken(at(110), 110, 2, true);
    EXPECT_TRUE(desk.pausing());
    desk.give_up();
    EXPECT_FALSE(desk.running());
    EXPECT_FALSE(desk.part({.id = id, .part = 0, .samples = 20})) << "of the one that was given up";
    EXPECT_TRUE(desk.due(120));
    const std::uint64_t reserved = desk.start();
    desk.give_up();
    EXPECT_TRUE(desk.due(120));
    EXPECT_NE(desk.start(), reserved);
    desk.taken(at(120), 120, 1, false);
    EXPECT_FALSE(desk.pausing()) << "somebody does it beside training";
}

class CheckpointDeskTest : public testing::Test {
protected:
    /// A shard of a run of 8 parameters, as its owner writes it.
    SavedPart save(const std::string& path, std::int32_t part, int parts) {
        ShardSnapshot shard{
            .part = part, .begin = part * 8 / parts, .end = (part + 1) * 8 / parts, .version = 5};
        shard.parameters.assign(static_cast<std::size_t>(shard.end - shard.begin), 1.5F);
        return {.checkpoint = path,
                .part = part,
                .file = write_shard(path, shard, hdf5),
                .write_s = 0.25};
    }

    static RunSnapshot snapshot(std::int64_t samples) {
        RunSnapshot run;
        run.identity = {{"model", "tiny"}};
        run.progress.samples_applied = samples;
        run.version = 5;
        run.reference_batch = 4;
        run.lease_state = {0, 0, samples, 1};
        run.parameters = 8;
        return run;
    }

    std::optional<CheckpointReport> wait(CheckpointDesk& desk, double now) {
        for (int tries = 0; tries < 1000; ++tries) {
            if (auto report = desk.collect(Clock::Seconds(now))) {
                return report;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return std::nullopt;
    }

    TempFolder folder;
    Hdf5Thread hdf5;
    TrainOptions options;
};

TEST_F(CheckpointDeskTest, ManifestComesWhenTheLastShardIsThere) {
    options.checkpoint_every_s = 0;
    options.checkpoint_every_samples = 100;
    CheckpointDesk desk(options, folder.file("c"), 2, hdf5);
    desk.begin(0, Clock::Seconds(0));
    EXPECT_FALSE(desk.due(99, Clock::Seconds(1)));
    ASSERT_TRUE(desk.due(100, Clock::Seconds(1)));
    const std::string path = desk.start(100);
    EXPECT_FALSE(desk.due(200, Clock::Seconds(1))) << "one at a time";
    desk.captured(snapshot(100), Clock::Seconds(1));
    desk.saved(save(path, 1, 2));
    EXPECT_FALSE(desk.collect(Clock::Seconds(1)));
    EXPECT_THAT(desk.missing(), ElementsAre(0));
    EXPECT_THAT(list_checkpoints(folder.file("c")), IsEmpty());
    desk.saved(save(path, 0, 2));
    const auto report = wait(desk, 2);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->error, "");
    EXPECT_THAT(list_checkpoints(folder.file("c")), ElementsAre(path));
    EXPECT_EQ(read_manifest(path, {{"model", "tiny"}}, hdf5).progress.samples_applied, 100);
    EXPECT_FALSE(desk.wanted_at_end(StopReason::kBudget, 100));
    EXPECT_TRUE(desk.wanted_at_end(StopReason::kBudget, 120));
}

TEST_F(CheckpointDeskTest, AShardThatFailsIsReportedAndTriedAgain) {
    options.checkpoint_every_s = 10;
    CheckpointDesk desk(options, folder.file("c"), 2, hdf5);
    desk.begin(0, Clock::Seconds(0));
    EXPECT_FALSE(desk.due(50, Clock::Seconds(9)));
    ASSERT_TRUE(desk.due(50, Clock::Seconds(10)));
    const std::string path = desk.start(50);
    desk.captured(snapshot(50), Clock::Seconds(10));
    desk.saved(save(path, 0, 2));
    desk.saved({.checkpoint = path, .part = 1, .error = "no space left"});
    const auto report = wait(desk, 10);
    ASSERT_TRUE(report);
    EXPECT_THAT(report->error, HasSubstr("no space left"));
    EXPECT_THAT(list_checkpoints(folder.file("c")), IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(folder.file("c"))) << "nothing is left behind";
    EXPECT_FALSE(desk.due(60, Clock::Seconds(19)));
    EXPECT_TRUE(desk.due(60, Clock::Seconds(20)));
    EXPECT_TRUE(desk.wanted_at_end(StopReason::kBudget, 50));
}

TEST_F(CheckpointDeskTest, AwaitsTheCaptureOfItsOwnPathOnce) {
    options.checkpoint_every_s = 0;
    options.checkpoint_every_samples = 100;
    CheckpointDesk desk(options, folder.file("c"), 1, hdf5);
    desk.begin(0, Clock::Seconds(0));
    EXPECT_FALSE(desk.awaits(""));
    const std::string path = desk.start(100);
    EXPECT_TRUE(desk.awaits(path));
    EXPECT_FALSE(desk.awaits(path + "x"));
    desk.give_up();  // the round that carried it is void
    EXPECT_FALSE(desk.running());
    EXPECT_FALSE(desk.awaits(path));
    ASSERT_TRUE(desk.due(110, Clock::Seconds(1))) << "it is tried again";
    EXPECT_EQ(desk.start(100), path);
    desk.captured(snapshot(100), Clock::Seconds(1));
    EXPECT_FALSE(desk.awaits(path));
    desk.give_up();
    EXPECT_TRUE(desk.running()) << "what is captured will be saved";
    desk.saved({.checkpoint = path, .part = 0, .error = "no space left"});
    EXPECT_TRUE(wait(desk, 1));
    EXPECT_FALSE(desk.awaits(path));
}

TEST(Gathering, PutsShardsTogetherWithTheStateOfTheFirst) {
    Gathering gathering({{.part = 0, .begin = 0, .end = 2, .state = 1},
                         {.part = 1, .begin = 2, .end = 5, .state = 0}});
    const auto announce = [](std::int32_t part, std::int64_t version) {
        return Message{.body =
                           encode(GatheredHeader{.gather = 7, .version = version, .part = part})};
    };
    const auto deliver = [&](std::int32_t part, const std::vector<float>& floats) {
        const auto bytes = std::as_bytes(std::span(floats));
        const auto to = gathering.accept(announce(part, 3), bytes.size());
        ASSERT_EQ(to.size(), bytes.size());
        std::copy(bytes.begin(), bytes.end(), to.begin());
    };
    deliver(1, {3, 4, 5});
    EXPECT_FALSE(gathering.arrived(announce(1, 3)));
    EXPECT_THAT(gathering.missing(7), ElementsAre(0));
    deliver(0, {1, 2, 9});
    const auto whole = gathering.arrived(announce(0, 3));
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->version, 3);
    EXPECT_THAT(whole->parameters, ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(whole->state, ElementsAre(9));
}

TEST(Gathering, RefusesWrongSizesAndMixedVersions) {
    Gathering gathering({{.part = 0, .begin = 0, .end = 2, .state = 0},
                         {.part = 1, .begin = 2, .end = 4, .state = 0}});
    const auto announce = [](std::int32_t part, std::int64_t version) {
        return Message{.body =
                           encode(GatheredHeader{.gather = 1, .version = version, .part = part})};
    };
    EXPECT_TRUE(gathering.accept(announce(0, 1), 12).empty());
    EXPECT_FALSE(gathering.accept(announce(0, 1), 8).empty());
    EXPECT_FALSE(gathering.arrived(announce(0, 1)));
    EXPECT_FALSE(gathering.accept(announce(1, 2), 8).empty());
    EXPECT_THROW((void)gathering.arrived(announce(1, 2)), PeerError);
}

}  // namespace
}  // namespace cohort
