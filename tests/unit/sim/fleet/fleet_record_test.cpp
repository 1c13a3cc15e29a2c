// fleet.json, and the numbers that follow from a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cohort/core/error.hpp"
#include "cohort/sim/fleet.hpp"
#include "data/file/text_file.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

FleetResult sample() {
    FleetResult result;
    result.label = "a \"label\"";
    result.file = "f.toml";
    result.settings = {{"defaults.lr", "0.1"}};
    result.nodes = 2;
    result.devices_per_node = 4;
    result.seed = 7;
    result.grants = {.granted = 3,
                     .refused = 5,
                     .returned = 3,
                     .list = {{.job = 1,
                               .from_s = 10,
                               .to_s = 30,
                               .weight = 4,
                               .gained_s = 2.5,
                               .given_s = {{0, 0.3}, {2, -0.1}}}},
                     .refused_plans = {{.job = 2,
                                        .at_s = 20,
                                        .from = "ssgd",
                                        .to = "asgd",
                                        .gain = 0.1,
                                        .losses = {{0, 0.2}}}}};
    result.makespan_s = 100;
    result.events = 12;
    result.digest = 0xfedcba9876543210U;
    result.wall_s = 1.5;
    result.peak_bytes = 123;
    result.jobs.push_back({.name = "one",
                           .workload = "resnet50",
                           .model = "smallcnn",
                           .arch = "servers",
                           .mode = "ssgd",
                           .workers = 2,
                           .servers = 1,
                           .seed = 3,
                           .target_accuracy = 0.8,
                           .state = FleetJobState::kTarget,
                           .arrival_s = 10,
                           .start_s = 20,
                           .end_s = 60,
                           .target_s = 60,
                           .worker_nodes = {0, 0},
                           .server_nodes = {1},
                           .samples = 4000,
                           .updates = 40,
                           .switches = 2,
                           .accuracy = 0.1 + 0.2,
                           .busy_s = 50,
                           .wait_s = 20,
                           .alone_samples_s = 200,
                           .grants = 3,
                           .room_taken_s = 0.1 + 0.7,
                           .room_given_s = 4,
                           .digest = 0xffffffffffffffffU});
    FleetJobResult missed = result.jobs[0];
    missed.name = "missed";
    missed.target_accuracy = 0;
    missed.target_loss = 1.5;
    missed.state = FleetJobState::kBudget;
    missed.target_s.reset();
    missed.end_s = 100;
    missed.alone_samples_s.reset();
    missed.grants.reset();
    FleetJobResult failed = missed;
    failed.name = "failed";
    failed.state = FleetJobState::kFailed;
    failed.error = "a reason";
    result.jobs.push_back(missed);
    result.jobs.push_back(failed);
    result.use = {
        {.time_s = 25, .devices = {0.5, 0}, .cores = {0.25, 0.75}, .rx = {0, 1}, .tx = {1, 0}},
        {.time_s = 100, .devices = {0, 0}, .cores = {0, 0}, .rx = {0, 0}, .tx = {0, 0}}};
    return result;
}

TEST(FleetRecord, ComesBackAsItWasWritten) {
    const TempFolder folder;
    const FleetResult written = sample();
    write_fleet(folder.file("out"), written);
    const FleetResult read = read_fleet_result(folder.file("out") + "/" + kFleetFile);
    EXPECT_EQ(read.label, written.label);
    EXPECT_EQ(read.settings, written.settings);
    EXPECT_EQ(read.digest, written.digest);
    ASSERT_EQ(read.jobs.size(), 3U);
    EXPECT_EQ(read.jobs[0].digest, written.jobs[0].digest);
    EXPECT_EQ(read.jobs[0].grants, 3);
    EXPECT_EQ(read.jobs[0].room_taken_s, written.jobs[0].room_taken_s);
    EXPECT_EQ(read.jobs[1].grants, std::nullopt);
    ASSERT_TRUE(read.grants);
    EXPECT_EQ(read.grants->refused, 5);
    ASSERT_EQ(read.grants->list.size(), 1U);
    EXPECT_EQ(read.grants->list[0].given_s, written.grants->list[0].given_s);
    ASSERT_EQ(read.grants->refused_plans.size(), 1U);
    EXPECT_EQ(read.grants->refused_plans[0].to, "asgd");
    EXPECT_EQ(read.grants->refused_plans[0].losses, written.grants->refused_plans[0].losses);
    EXPECT_EQ(read.jobs[0].accuracy, written.jobs[0].accuracy);
    EXPECT_EQ(read.jobs[0].worker_nodes, written.jobs[0].worker_nodes);
    EXPECT_EQ(read.jobs[1].target_s, std::nullopt);
    EXPECT_EQ(read.jobs[1].target_loss, 1.5);
    EXPECT_EQ(read.jobs[2].state, FleetJobState::kFailed);
    EXPECT_EQ(read.jobs[2].error, "a reason");
    ASSERT_EQ(read.use.size(), 2U);
    EXPECT_EQ(read.use[0].cores, written.use[0].cores);
    // Nothing is lost: written again, it is the same file.
    write_fleet(folder.file("again"), read);
    EXPECT_EQ(read_text_file(folder.file("again") + "/" + kFleetFile),
              read_text_file(folder.file("out") + "/" + kFleetFile));
}

TEST(FleetRecord, DamagedFilesAreRefused) {
    const TempFolder folder;
    write_fleet(folder.file("out"), sample());
    const std::string file = folder.file("out") + "/" + kFleetFile;
    const std::string text = read_text_file(file);
    const auto refused = [&](const std::string& damaged) {
        replace_text_file(file, damaged);
        try {
            (void)read_fleet_result(file);
        } catch (const FileError& error) {
            return std::string(error.what());
        }
        ADD_FAILURE() << damaged.substr(0, 40);
        return std::string();
    };
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = text;
        return changed.replace(changed.find(from), from.size(), to);
    };
    refused(text.substr(0, text.size() / 2));
    refused("[]");
    refused(with("\"format\": 1", "\"format\": 2"));
    refused(with("\"nodes\": 2", "\"nodes\": \"2\""));
    refused(with("\"target\"", "\"arrived\""));
    refused(with("\"arrival_s\"", "\"arrival\""));
    EXPECT_THAT(
        refused(with("\"server_nodes\": [\n    1", "\"server_nodes\": [\n    2")),
        testing::HasSubstr("fleet.json, job 'one', server_nodes] the number is out of range; "
                           "expected 0 to 1, got 2"));
    EXPECT_THAT(refused(with("\"nodes\": 2", "\"nodes\": 0")),
                testing::HasSubstr("fleet.json, nodes]"));
    EXPECT_THAT(
        refused(with("\"job\": 1", "\"job\": 3")),
        testing::HasSubstr("fleet.json, grants, job] the number is out of range; expected 0 to 2"));
}

TEST(FleetRecord, AFolderIsNotReplacedUnasked) {
    const TempFolder folder;
    write_fleet(folder.file("out"), sample());
    EXPECT_THROW(check_fleet_folder(folder.file("out"), false), UsageError);
    EXPECT_NO_THROW(check_fleet_folder(folder.file("out"), true));
    EXPECT_NO_THROW(check_fleet_folder(folder.file("other"), false));
}

TEST(FleetSummary, IsWorkedOutFromJobsAndUse) {
    const FleetSummary all = summarise(sample());
    EXPECT_EQ(all.ended, 2U);
    EXPECT_EQ(all.failed, 1U);
    EXPECT_EQ(all.missed, 1U);
    EXPECT_EQ(all.tta.count, 2U);
    EXPECT_DOUBLE_EQ(all.tta.mean, (50 + 90) / 2.0) << "a job that missed: its completion";
    EXPECT_DOUBLE_EQ(all.tta_from_start.mean, (40 + 80) / 2.0);
    EXPECT_DOUBLE_EQ(all.completion.median, 70);
    EXPECT_DOUBLE_EQ(all.completion.p95, 50 + 0.95 * 40);
    EXPECT_EQ(all.slowdown.count, 1U);
    EXPECT_DOUBLE_EQ(all.slowdown.mean, 2) << "200 samples/s alone, 100 among others";
    EXPECT_DOUBLE_EQ(all.devices, 25 * 0.25 / 100);
    EXPECT_DOUBLE_EQ(all.cores, 25 * 0.5 / 100);
    EXPECT_DOUBLE_EQ(all.network, 25 * 0.5 / 100);
    EXPECT_DOUBLE_EQ(all.waiting, 60.0 / (2 * (40 + 80 + 80)));
}

TEST(FleetSummary, JobsWithoutATargetHaveNoTimeToIt) {
    FleetResult mixed = sample();
    FleetJobResult endless = mixed.jobs[1];
    endless.name = "endless";
    endless.target_loss = 0;
    mixed.jobs.push_back(endless);
    const FleetSummary all = summarise(mixed);
    EXPECT_EQ(all.tta.count, 2U);
    EXPECT_EQ(all.completion.count, 3U);
    EXPECT_EQ(all.missed, 1U);
    mixed.jobs = {endless};
    const TempFolder folder;
    write_fleet(folder.file("out"), mixed);
    const std::string text = read_text_file(folder.file("out") + "/" + kFleetFile);
    for (const char* words :
         {"\"tta_s\": null", "\"tta_from_start_s\": null", "\"completion_s\": 90.0",
          "\"missed\": false", "\"count\": 0,\n   \"mean\": null"}) {
        EXPECT_THAT(text, testing::HasSubstr(words));
    }
}

/// Settings alone do not tell jobs that have nothing but a name.
TEST(FleetRecord, AnotherFleetIsRefused) {
    FleetPlan plan;
    plan.settings = {{"cluster.nodes", "2"}};
    plan.jobs.emplace_back().name = "a";
    FleetResult found;
    found.settings = plan.settings;
    found.jobs.emplace_back().name = "a";
    EXPECT_NO_THROW(check_same_fleet(found, plan, false, "fleet.json"));
    EXPECT_THROW(check_same_fleet(found, plan, true, "fleet.json"), UsageError);
    plan.jobs.emplace_back().name = "b";
    EXPECT_THROW(check_same_fleet(found, plan, false, "fleet.json"), UsageError);
    plan.jobs.pop_back();
    plan.settings.front().second = "3";
    EXPECT_THROW(check_same_fleet(found, plan, false, "fleet.json"), UsageError);
}

}  // namespace
}  // namespace cohort
