// What the coordinator keeps: leases, evaluations, checkpoints, snapshots from shards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cohort/core/error.hpp"
#include "support/core/patience.hpp"
#include "support/core/temp_folder.hpp"
#include "train/coordinator/checkpoint/checkpoint_coordinator.hpp"
#include "train/coordinator/evaluation/evaluation_tracker.hpp"
#include "train/coordinator/gathering.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainProgress at(std::int64_t samples) {
    TrainProgress progress;
    progress.samples_applied = samples;
    progress.train_seconds = 3;
    return progress;
}

TEST(EvaluationTracker, IsDueOncePerPeriodEvenWhenUpdatesStraddle) {
    EvaluationTracker desk(100, 0);
    EXPECT_FALSE(desk.due(90));
    EXPECT_TRUE(desk.due(120));
    const std::uint64_t id = desk.start();
    EXPECT_FALSE(desk.due(230)) << "one snapshot at a time";
    desk.taken(at(120), 120, 1, false);
    EXPECT_FALSE(desk.due(230)) << "one at a time beside training";
    EXPECT_TRUE(desk.part({.id = id, .part = 0, .samples = 1}));
    EXPECT_FALSE(desk.due(180));
    EXPECT_TRUE(desk.due(230));
    EXPECT_TRUE(EvaluationTracker(100, 90).due(130)) << "the run stopped before it could be done";
}

TEST(EvaluationTracker, PartsAddUpInAnyOrder) {
    EvaluationTracker desk(100, 0);
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

TEST(EvaluationTracker, KeepsPartsThatOvertakeTheNewsOfTheirRound) {
    EvaluationTracker desk(100, 0);
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

/// Workers have done their parts before they go on, but what they say of them may take its time.
TEST(EvaluationTracker, IsDueBeforeLatePartsOfTheOneBefore) {
    EvaluationTracker desk(100, 0);
    const std::uint64_t first = desk.start();
    desk.taken(at(120), 120, 2, true);
    EXPECT_FALSE(desk.part({.id = first, .part = 0, .correct = 1, .samples = 1}));
    EXPECT_FALSE(desk.due(180));
    ASSERT_TRUE(desk.due(230));
    const std::uint64_t second = desk.start();
    desk.taken(at(230), 230, 2, true);
    EXPECT_FALSE(desk.part({.id = second, .part = 0, .correct = 0, .samples = 1}));
    EXPECT_THAT(desk.missing(), ElementsAre(1)) << "of the first";
    const auto report = desk.part({.id = first, .part = 1, .correct = 1, .samples = 1});
    ASSERT_TRUE(report);
    EXPECT_EQ(report->samples_applied, 120);
    EXPECT_DOUBLE_EQ(report->accuracy, 1);
    desk.give_up();
    EXPECT_FALSE(desk.running());
    EXPECT_FALSE(desk.due(199));
    EXPECT_TRUE(desk.due(230));
}

TEST(EvaluationTracker, WhatWorkersOweIsGivenUpWhileAnotherIsBesideTraining) {
    EvaluationTracker desk(100, 0);
    const std::uint64_t owed = desk.start();
    desk.taken(at(120), 120, 2, true);
    const std::uint64_t beside = desk.start();
    desk.taken(at(230), 230, 1, false);
    EXPECT_TRUE(desk.pausing());
    EXPECT_THAT(desk.missing(), ElementsAre(0, 1)) << "of the first";
    desk.give_up();
    EXPECT_FALSE(desk.pausing());
    EXPECT_FALSE(desk.running(owed));
    EXPECT_TRUE(desk.running(beside));
    EXPECT_TRUE(desk.part({.id = beside, .part = 0, .samples = 1}));
    EXPECT_FALSE(desk.running());
}

TEST(EvaluationTracker, IsDueAgainWhenItIsGivenUp) {
    EvaluationTracker desk(100, 0);
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

class CheckpointCoordinatorTest : public testing::Test {
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

    std::optional<CheckpointReport> wait(CheckpointCoordinator& desk, double now) {
        const SteadyClock clock;
        for (const Clock::Seconds limit = clock.now() + test::kPatience; clock.now() < limit;) {
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

TEST_F(CheckpointCoordinatorTest, ManifestComesWhenTheLastShardIsThere) {
    options.checkpoint_every_s = 0;
    options.checkpoint_every_samples = 100;
    CheckpointCoordinator desk(options, folder.file("c"), 2, hdf5);
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

TEST_F(CheckpointCoordinatorTest, AShardThatFailsIsReportedAndTriedAgain) {
    options.checkpoint_every_s = 10;
    CheckpointCoordinator desk(options, folder.file("c"), 2, hdf5);
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

/// The first after a minute; then sqrt(2 cost day), no less than a minute nor more than the option.
TEST_F(CheckpointCoordinatorTest, TheIntervalFollowsTheCost) {
    options.checkpoint_every_s = 600;
    CheckpointCoordinator desk(options, folder.file("c"), 1, hdf5);
    desk.begin(0, Clock::Seconds(0));
    EXPECT_FALSE(desk.due(1, Clock::Seconds(59.9)));
    double now = 60;
    std::int64_t samples = 1;
    for (const double write_s : {0.0, 0.1, 0.5, 1.0, 100.0, 0.0}) {
        ASSERT_TRUE(desk.due(samples, Clock::Seconds(now)));
        const std::string path = desk.start(samples);
        desk.captured(snapshot(samples), Clock::Seconds(now));
        SavedPart part = save(path, 0, 1);
        part.pause_s = 0.01;
        part.write_s = write_s;
        desk.saved(part);
        const auto report = wait(desk, now);
        ASSERT_TRUE(report);
        EXPECT_EQ(report->error, "");
        const double cost_s = 0.01 + report->write_seconds;  // of the manifest, too
        EXPECT_GE(cost_s, 0.01 + write_s);
        const double period_s = std::clamp(std::sqrt(2 * cost_s * 24 * 3600), 60.0, 600.0);
        ++samples;
        EXPECT_FALSE(desk.due(samples, Clock::Seconds(now + period_s - 0.1)));
        now += period_s + 0.1;
    }
}

TEST_F(CheckpointCoordinatorTest, AwaitsTheCaptureOfItsOwnPathOnce) {
    options.checkpoint_every_s = 0;
    options.checkpoint_every_samples = 100;
    CheckpointCoordinator desk(options, folder.file("c"), 1, hdf5);
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

TEST(Gathering, PutsShardsTogetherWithTheStateOfTheLast) {
    Gathering gathering({{.part = 0, .begin = 0, .end = 2, .state = 0},
                         {.part = 1, .begin = 2, .end = 5, .state = 1}});
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
    deliver(1, {3, 4, 5, 9});
    EXPECT_FALSE(gathering.arrived(announce(1, 3)));
    EXPECT_THAT(gathering.missing(7), ElementsAre(0));
    deliver(0, {1, 2});
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
    EXPECT_TRUE(gathering.accept(announce(0, 1), 20).empty()) << "more than there is";
    EXPECT_FALSE(gathering.accept(announce(0, 1), 8).empty());
    EXPECT_FALSE(gathering.arrived(announce(0, 1)));
    EXPECT_FALSE(gathering.accept(announce(1, 2), 8).empty());
    EXPECT_THROW((void)gathering.arrived(announce(1, 2)), PeerError);
}

TEST(Gathering, TakesShardsOfAnyCutThatAreAllOfTheParameters) {
    Gathering gathering({{.part = 0, .begin = 0, .end = 2}, {.part = 1, .begin = 2, .end = 4}});
    const auto announce = [](std::uint64_t id, std::int32_t part) {
        return Message{.body = encode(GatheredHeader{.gather = id, .version = 1, .part = part})};
    };
    EXPECT_FALSE(gathering.accept(announce(1, 0), 12).empty());
    EXPECT_FALSE(gathering.arrived(announce(1, 0)));
    EXPECT_FALSE(gathering.accept(announce(1, 1), 4).empty());
    EXPECT_TRUE(gathering.arrived(announce(1, 1)));
    EXPECT_FALSE(gathering.accept(announce(2, 0), 12).empty());
    EXPECT_FALSE(gathering.arrived(announce(2, 0)));
    EXPECT_FALSE(gathering.accept(announce(2, 1), 8).empty());
    EXPECT_THROW((void)gathering.arrived(announce(2, 1)), PeerError);
}

}  // namespace
}  // namespace cohort
