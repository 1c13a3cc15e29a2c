// What the page of fleets says, for results made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "report/page/fleet_page.hpp"
#include "report/page/page.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kEnd = 80;  ///< seconds

/// A job that waits 10 s in the queue and takes `took_s` from its start to its target.
FleetJobResult job(const std::string& name, double took_s) {
    FleetJobResult result{
        .name = name, .workload = "vgg16", .model = "softmax", .arch = "servers", .mode = "ssgd"};
    result.workers = 2;
    result.servers = 1;
    result.target_accuracy = 0.8;
    result.state = FleetJobState::kTarget;
    result.arrival_s = 5;
    result.start_s = 15;
    result.end_s = 15 + took_s;
    result.target_s = result.end_s;
    result.worker_nodes = {0, 1};
    result.server_nodes = {1};
    result.samples = 1000;
    result.wait_s = took_s / 2;  // of two workers: a quarter of their time
    return result;
}

FleetJobResult missed(FleetJobResult result) {
    result.target_s = std::nullopt;
    result.state = FleetJobState::kBudget;
    return result;
}

FleetJobResult failed(FleetJobResult result) {
    result.target_s = std::nullopt;
    result.state = FleetJobState::kFailed;
    result.error = "loss, \"not finite\"";
    return result;
}

FleetResult fleet(const std::string& label, std::uint64_t seed, std::vector<FleetJobResult> jobs) {
    FleetResult result;
    result.label = label;
    result.file = "jobs.toml";
    result.settings = {{"cluster.nodes", "2"}, {"defaults.mode", label}};
    result.nodes = 2;
    result.devices_per_node = 4;
    result.seed = seed;
    result.jobs = std::move(jobs);
    result.use = {
        {.time_s = kEnd / 2, .devices = {0.5, 1}, .cores = {0.2, 0}, .rx = {0, 1}, .tx = {0, 0}},
        {.time_s = kEnd, .devices = {0.5, 0}, .cores = {0, 0.2}, .rx = {0, 0}, .tx = {0, 0}}};
    result.makespan_s = kEnd;
    return result;
}

std::vector<std::string> said(const std::vector<FleetResult>& results) {
    return fleet_verdicts(group_fleets(results));
}

/// Three seeds with two jobs each, of two labels; the second takes 60 % of the time since arrival.
std::vector<FleetResult> six() {
    std::vector<FleetResult> results;
    for (const std::uint64_t seed : {1, 2, 3}) {
        results.push_back(fleet("ssgd", seed, {job("a", 40), job("b", 90)}));
        results.push_back(fleet("adaptive", seed, {job("a", 20), job("b", 50)}));
    }
    return results;
}

TEST(FleetVerdict, OneFleetSaysWhatItTookAndWhatHeldItUp) {
    EXPECT_THAT(said({fleet("", 1, {job("a", 40), job("b", 60)})}),
                ElementsAre("2 jobs on 2 nodes of 4 devices: mean time to accuracy 60.0 s (95th "
                            "percentile 69.0 s), the last one over after 80.0 s; held up by the "
                            "queue for devices (16.7 % of the jobs' time) and waiting for others "
                            "while they ran (25 % of the workers' time)."));
}

TEST(FleetVerdict, OneFleetSaysWhatWasLost) {
    FleetJobResult waiting = job("d", 0);
    waiting.start_s = waiting.end_s = waiting.target_s = std::nullopt;
    waiting.state = FleetJobState::kWaiting;
    const FleetResult lost =
        fleet("", 1, {job("a", 40), missed(job("b", 60)), failed(job("c", 1)), waiting});
    EXPECT_THAT(said({lost}).front(), HasSubstr("mean time to accuracy at least 60.0 s"));
    EXPECT_THAT(said({lost}).front(), EndsWith("; 1 job missed their target; 1 job failed; 1 job "
                                               "stopped before their end."));
    EXPECT_THAT(said({fleet("", 1, {failed(job("a", 1))})}),
                ElementsAre("1 job on 2 nodes of 4 devices: none ended; 1 job failed."));
}

TEST(FleetVerdict, AFleetThatNothingHeldUpSaysSo) {
    FleetJobResult alone = job("a", 40);
    alone.start_s = alone.arrival_s;
    alone.wait_s = 0;
    alone.alone_samples_s = 1000 / (*alone.end_s - 5) * 1.5;
    EXPECT_THAT(said({fleet("", 1, {alone})}).front(),
                EndsWith("; nothing held them up; jobs took 1.50 times as long as alone."));
}

TEST(FleetVerdict, TwoLabelsOverSeveralSeedsHaveARatioWithAnInterval) {
    // (30 + 60) / (50 + 100) for each seed.
    EXPECT_THAT(said(six()), ElementsAre("adaptive: mean time to accuracy 40 % [40, 40] below that "
                                         "of ssgd over 3 seeds × 2 jobs."));
}

TEST(FleetVerdict, MissesOfBothAreSaidBesideTheRatio) {
    std::vector<FleetResult> results = six();
    for (FleetJobResult& late : results.front().jobs) {
        late = missed(late);
    }
    results.back().jobs.back() = missed(results.back().jobs.back());
    EXPECT_THAT(said(results).front(),
                EndsWith("over 3 seeds × 2 jobs; 1 job missed their target (ssgd: 2)."));
    results.back().jobs.back() = failed(results.back().jobs.back());
    EXPECT_THAT(said(results).front(), HasSubstr("over 5 jobs of 3 seeds"));
    EXPECT_THAT(said(results).front(), EndsWith("; 1 job failed (ssgd: 0)."));
}

TEST(FleetVerdict, ADifferenceThatMayBeChanceIsCalledSo) {
    const std::vector<FleetResult> results{
        fleet("ssgd", 1, {job("a", 40), job("b", 60), job("c", 50)}),
        fleet("other", 1, {job("a", 60), job("b", 40), job("c", 51)})};
    EXPECT_THAT(said(results).front(), HasSubstr("above that of ssgd over 3 jobs, which may be "
                                                 "chance"));
}

TEST(FleetVerdict, WithoutTargetsTheCompletionTimeCounts) {
    std::vector<FleetResult> results = six();
    for (FleetResult& result : results) {
        for (FleetJobResult& each : result.jobs) {
            each.target_accuracy = 0;
            each = missed(each);
        }
    }
    EXPECT_THAT(said(results), ElementsAre(StartsWith("adaptive: mean completion time 40 %")));
    EXPECT_THAT(said(results).front(), Not(HasSubstr("missed")));
    EXPECT_EQ(fleet_table(group_fleets(results)).columns.front(), "completion time");
}

TEST(FleetPage, TheTableHasTimesAndSharesOfAllSeeds) {
    std::vector<FleetResult> results = six();
    results.back().jobs.back() = missed(results.back().jobs.back());
    const ReportTable table = fleet_table(group_fleets(results));
    const std::vector<CellText>& first = table.rows.at(0).cells;
    ASSERT_EQ(table.columns.size(), first.size());
    std::vector<std::string> numbers;
    std::ranges::transform(first, std::back_inserter(numbers), &CellText::main);
    EXPECT_THAT(numbers, ElementsAre("75.0", "75.0", "10.0", "80.0", "6", "50 %", "10 %", "12.5 %",
                                     "25 %", "-"));
    EXPECT_THAT(first.front().below, ElementsAre("median 75.0", "p95 100", "p99 100"));
    EXPECT_EQ(table.rows.at(1).cells.front().main, "≥ 45.0") << "a lower bound";
    EXPECT_THAT(table.rows.at(1).cells.at(4).below, ElementsAre("1 missed", "0 failed"));
}

TEST(FleetPage, SaysWhoMadeRoomForWhom) {
    std::vector<FleetJobResult> jobs{job("idle", 40), job("giver", 50), job("asker", 20)};
    for (FleetJobResult& each : jobs) {
        each.grants = 0;
        each.room_taken_s = each.room_given_s = 0;
    }
    EXPECT_TRUE(fleet_room_table(group_fleets({fleet("a", 1, jobs)})).rows.empty());
    jobs[1].room_given_s = 3.5;
    jobs[2].grants = 2;
    jobs[2].room_taken_s = 8.25;
    const FleetResult result = fleet("room", 7, jobs);
    const ReportTable table = fleet_room_table(group_fleets({result}));
    ASSERT_EQ(table.rows.size(), 2U);
    EXPECT_EQ(table.rows[0].name, "room: asker");
    EXPECT_EQ(table.rows[0].cells.at(1).main, "8.2");
    EXPECT_EQ(table.rows[1].cells.at(2).main, "3.5");
    const FleetResults all{.files = {"x"}, .results = {result}};
    EXPECT_THAT(report_html(all), HasSubstr("; 2 grants, took 8.2 s of room, gave 0.0 s"));
    EXPECT_THAT(report_html(all), HasSubstr("Room that jobs made"));
    EXPECT_THAT(report_markdown(all), HasSubstr("| room: giver | 0 | 0.0 | 3.5 |"));
    EXPECT_THAT(fleet_jobs_csv(all), HasSubstr(",2,8.25,0,0 1,1,"));
}

TEST(FleetPage, EveryJobIsInTheLanesOnItsNodesAndDevicesAreUsedAgain) {
    FleetJobResult next = job("next & last", 10);
    next.start_s = 55;
    next.end_s = next.target_s = 65;
    const FleetResult result = fleet("ssgd", 1, {next, job("a", 40), job("b", 40)});
    const std::string picture = draw_fleet_lanes(result, "lanes", {"alexnet", "vgg16"});
    for (const char* words :
         {"next &amp; last: vgg16, ssgd, 2 workers, 1 server; arrived 5.00 s, started 55.0 s, "
          "target after 60.0 s",
          "<title>a: ", "<title>b: "}) {
        EXPECT_THAT(picture, HasSubstr(words));
    }
    // Two devices of each node are taken; the job that comes when they are free has the first ones:
    // no device is at a third row of 4 units below the top at 6.
    EXPECT_THAT(picture, HasSubstr("y=\"10\""));
    EXPECT_THAT(picture, Not(HasSubstr("y=\"14\"")));
    EXPECT_EQ(picture.find("job c1"), picture.find("job c")) << "the colour of the second workload";
}

TEST(FleetPage, BeginsWithTheVerdictAndNamesWhatDiffers) {
    const std::string page =
        report_html({.files = std::vector<std::string>(6, "x/fleet.json"), .results = six()});
    EXPECT_THAT(page, StartsWith(kPageStart));
    EXPECT_THAT(
        page,
        HasSubstr(
            "<main>\n<h1 class=\"sentence\">adaptive: mean time to accuracy 40 % [40, 40] below"));
    EXPECT_THAT(page, HasSubstr("<b>adaptive</b>, seed 2: <code>defaults.mode=adaptive</code>"));
    EXPECT_THAT(page, HasSubstr("<code>cluster.nodes=2 </code>")) << "shared";
    EXPECT_THAT(page, HasSubstr("adaptive, time to accuracy: -40 % [-40, -40], p95 -40 %"));
    EXPECT_THAT(page, Not(testing::ContainsRegex("<script|<link|<img|https?:|src=|href=|nan|inf")));
    for (const std::string tag : {"g", "svg", "details", "ul", "li", "table", "section"}) {
        const auto count = [&page](const std::string& text) {
            std::size_t found = 0;
            for (auto at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) {
                ++found;
            }
            return found;
        };
        EXPECT_EQ(count("<" + tag + ">") + count("<" + tag + " "), count("</" + tag + ">")) << tag;
    }
}

TEST(FleetPage, JobsThatNeverStartedDoNotHarmIt) {
    FleetJobResult waiting = job("a", 0);
    waiting.start_s = waiting.end_s = waiting.target_s = std::nullopt;
    waiting.state = FleetJobState::kWaiting;
    FleetResult one = fleet("one", 1, {waiting});
    one.use.clear();
    one.makespan_s = 0;
    FleetResult two = one;
    two.label = "two";
    const FleetResults both{.files = {"a", "b"}, .results = {one, two}};
    EXPECT_THAT(report_html(both), HasSubstr("two: no job that ended here and under one."));
    EXPECT_THAT(report_markdown(both), HasSubstr("| one | - |"));
}

TEST(FleetPage, TheTableOfJobsHasALineEach) {
    const FleetResult result = fleet("ssgd, slow", 7, {job("a", 40), failed(job("b", 1))});
    const std::string text = fleet_jobs_csv({.files = {"x"}, .results = {result}});
    EXPECT_THAT(text, StartsWith("label,seed,job,workload,model,arch,mode,workers,servers,state,"
                                 "arrival_s,start_s,end_s,target_s,tta_s,completion_s,missed,"));
    EXPECT_THAT(text, HasSubstr("\n\"ssgd, slow\",7,a,vgg16,softmax,servers,ssgd,2,1,target,5,15,"
                                "55,55,50,50,0,"));
    EXPECT_THAT(text, HasSubstr(",2,1,failed,5,15,16,,,,0,"));
    FleetJobResult endless = missed(job("b", 1));
    endless.target_accuracy = 0;
    EXPECT_THAT(fleet_jobs_csv({.files = {"x"}, .results = {fleet("a", 7, {endless})}}),
                HasSubstr(",2,1,budget,5,15,16,,,11,0,"))
        << "no time to a target that it had not";
    EXPECT_THAT(text, EndsWith(",,,,0 1,1,\"loss, \"\"not finite\"\"\"\n"));
}

/// Of the hosts of real ranks only what is lent to jobs is known.
TEST(FleetPage, RealFleetsHaveNoUseOfProcessors) {
    FleetResult real = fleet("ssgd", 1, {job("a", 40), job("b", 60)});
    real.real = true;
    for (FleetUsePoint& point : real.use) {
        point.cores.clear();
        point.rx.clear();
        point.tx.clear();
    }
    const std::string lanes = draw_fleet_lanes(real, "lanes", {"vgg16"});
    EXPECT_THAT(lanes, HasSubstr("devices held"));
    EXPECT_THAT(lanes, Not(HasSubstr("processors")));
    EXPECT_THAT(said({real}).front(), HasSubstr("60.0 s"));
    EXPECT_THROW(static_cast<void>(said({real, fleet("asgd", 1, {job("a", 20), job("b", 50)})})),
                 UsageError);
}

}  // namespace
}  // namespace cohort
