// What a fleet's file says, and how a wrong one is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cohort/core/error.hpp"
#include "support/sim/fleet_text.hpp"

namespace cohort {
namespace {

using test::plan_of;
using testing::HasSubstr;

const std::string kFleet = R"([cluster]
profile = "8gpu-10g"
nodes = 2

[fleet]
server-placement = "even"

[defaults]
no-train = true
samples = 6400
time-as = "resnet50"
workers = 4

[[job]]
name = "late"
arrival = 60
mode = "asgd"

[[job]]
name = "early"
workers = 16
arch = "ring"
)";

const std::string kDrawn = R"([defaults]
no-train = true
samples = 6400

[arrivals]
jobs = 30
rate = 60
workers = [2, 4]
weights = [0, 1]
length-sigma = 1
length-most = 2
workloads = ["vgg16"]
)";

/// The message of the error that a file gives, after the folder of the file.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
        (void)plan_of(text, overrides);
    } catch (const UsageError& error) {
        const std::string message = error.what();
        const std::size_t file = message.find("fleet.toml");
        return file == std::string::npos ? message : message.substr(file);
    }
    return "accepted";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(FleetFile, JobsHaveTheDefaultsAndTheirOwnOptionsInOrderOfArrival) {
    const FleetPlan plan = plan_of(kFleet);
    EXPECT_EQ(plan.nodes, 2);
    EXPECT_EQ(plan.devices_per_node, 8);
    EXPECT_EQ(plan.server_placement, PlacementRule::kEven);
    ASSERT_EQ(plan.jobs.size(), 2U);
    EXPECT_EQ(plan.jobs[0].name, "early");
    EXPECT_EQ(plan.jobs[0].options.workers, 16);
    EXPECT_EQ(plan.jobs[0].options.servers, 0);
    EXPECT_EQ(plan.jobs[0].options.arch, Architecture::kRing);
    EXPECT_EQ(plan.jobs[1].name, "late");
    EXPECT_EQ(plan.jobs[1].arrival_s, 60);
    EXPECT_EQ(plan.jobs[1].options.workers, 4);
    EXPECT_EQ(plan.jobs[1].options.servers, 1);
    EXPECT_EQ(plan.jobs[1].options.mode, "asgd");
    EXPECT_EQ(plan.jobs[1].options.time_as, "resnet50");
}

TEST(FleetFile, JobsMayBeDrawnAndListed) {
    const FleetPlan plan =
        plan_of(kDrawn + "[[job]]\nname = \"listed\"\narrival = 1\ntime-as = \"lenet\"\n");
    ASSERT_EQ(plan.jobs.size(), 31U);
    int cut = 0;
    for (std::size_t i = 1; i < plan.jobs.size(); ++i) {
        EXPECT_LE(plan.jobs[i - 1].arrival_s, plan.jobs[i].arrival_s);
    }
    for (const FleetJob& job : plan.jobs) {
        if (job.name != "listed") {
            EXPECT_EQ(job.options.workers, 4);
            EXPECT_EQ(job.options.time_as, "vgg16");
            EXPECT_GE(job.options.samples, 1);
            EXPECT_LE(job.options.samples, 12800);
            cut += job.options.samples == 12800 ? 1 : 0;
        }
    }
    EXPECT_GT(cut, 0);
    EXPECT_LT(cut, 20);
}

TEST(FleetFile, TheCommandLineReplacesKeys) {
    const FleetPlan plan = plan_of(kFleet, {"defaults.mode=lb-bsp:32", "cluster.nodes=3",
                                            "defaults.lr=0.25", "fleet.label=another one"});
    EXPECT_EQ(plan.nodes, 3);
    EXPECT_EQ(plan.label, "another one");
    EXPECT_EQ(plan.jobs[0].options.lr, 0.25);
    EXPECT_EQ(plan.jobs[0].options.mode, "lb-bsp:32");
    EXPECT_EQ(plan.jobs[1].options.mode, "asgd") << "its own option";
    EXPECT_EQ(
        plan_of(kDrawn, {"arrivals.workers=[2]", "arrivals.weights=[1]"}).jobs[0].options.workers,
        2);
    EXPECT_EQ(plan_of(kDrawn, {"arrivals.servers=[1, 2]"}).jobs[0].options.servers, 2);
    EXPECT_EQ(
        plan_of(kDrawn, {"arrivals.servers=[1, 2]", "defaults.arch=ring"}).jobs[0].options.servers,
        0);
    EXPECT_THAT(plan.settings, testing::Contains(testing::Pair("defaults.mode", "lb-bsp:32")));
}

TEST(FleetFile, RefusesByFileLineJobAndKey) {
    EXPECT_EQ(refusal(with(kFleet, "workers = 16", "workers = 17")),
              "fleet.toml, line 19, job 'early'] the job can never start; expected at most 16 "
              "workers, a device each, got 17");
    EXPECT_EQ(refusal(with(kFleet, "arrival = 60", "arrival = -1")),
              "fleet.toml, line 16, job 'late', arrival] the value cannot be used; expected a "
              "number, 0 to 1000000000 (seconds), got -1");
    EXPECT_THAT(refusal(with(kFleet, "time-as = \"resnet50\"", "time-as = \"resnet51\"")),
                HasSubstr("job 'late'] [profile 8gpu-10g] it has no such workload"));
    EXPECT_THAT(refusal(with(kFleet, "\"asgd\"", "\"asdg\"")),
                HasSubstr("fleet.toml, line 14, job 'late'] [--mode]"));
    EXPECT_EQ(refusal(with(kFleet, "nodes = 2", "nodes = 0")),
              "fleet.toml, line 3, cluster.nodes] the value cannot be used; expected a whole "
              "number, 1 to 4096, got 0");
    EXPECT_THAT(refusal(with(kFleet, "nodes = 2", "cards = 2")),
                HasSubstr("line 3, cluster.cards] not a key of [cluster]; expected profile, nodes, "
                          "devices-per-node, got cards"));
    EXPECT_THAT(refusal(with(kFleet, "\"8gpu-10g\"", "\"9gpu\"")),
                HasSubstr("fleet.toml, line 2, cluster.profile] "));
    EXPECT_THAT(refusal(with(kFleet, "\"even\"", "\"odd\"")),
                HasSubstr("line 6, fleet.server-placement] the value cannot be used; expected "
                          "waits, utilisation, even, packed, random, beside, star, got odd"));
    EXPECT_THAT(refusal(with(kFleet, "\"even\"", "\"even\"\nmake-room = \"much\"")),
                HasSubstr("line 7, fleet.make-room] the value cannot be used; expected off, "
                          "progress, shortest, star, got much"));
    EXPECT_EQ(refusal(with(kFleet, "name = \"early\"", "name = \"late\"")).substr(0, 60),
              std::string("fleet.toml, line 19, job 'late'] two jobs of one name; expected another")
                  .substr(0, 60));
    for (const char* name : {"../../x", "a/b", "..", "fleet.json"}) {
        EXPECT_THAT(refusal(with(kFleet, "\"early\"", fmt::format("\"{}\"", name))),
                    HasSubstr(fmt::format("job '{}'] the name cannot be that of a folder", name)));
    }
    EXPECT_THAT(refusal(with(kFleet, "name = \"early\"\n", "")), HasSubstr("a job without a name"));
    EXPECT_THAT(refusal(with(kFleet, "samples = 6400", "samples = 6400.5")),
                HasSubstr("line 10, samples] the value cannot be used; expected a whole number"));
    EXPECT_THAT(refusal(with(kFleet, "arch = \"ring\"", "speed = 3")),
                HasSubstr("line 22, job 'early', speed] not an option of cohort simulate"));
    EXPECT_THAT(refusal(with(kFleet, "arch = \"ring\"", "pattern = \"storm\"")),
                HasSubstr("job 'early', pattern] not an option of a job of a fleet"));
    EXPECT_THAT(refusal("[cluster]\nnodes = \n"),
                HasSubstr("line 2] the line cannot be understood"));
    EXPECT_THAT(refusal("[cluster]\nnodes = 2\n"), HasSubstr("fleet.toml] no jobs"));
    EXPECT_THAT(refusal("cluster = 3\n"), HasSubstr("line 1, cluster] not a table"));
    EXPECT_THAT(refusal(kFleet, {"defaults.modes=3"}), HasSubstr("not an option of cohort"));
    EXPECT_THAT(refusal(kFleet, {"mode=3"}), HasSubstr("[--set] not a key of the file"));
    EXPECT_THAT(refusal(kFleet, {"defaults.predictor=oracle"}),
                HasSubstr("nobody knows what other jobs will do"));
    EXPECT_THAT(refusal(kFleet, {"defaults.push-tree=0,1"}),
                HasSubstr("a job's nodes are chosen when it starts"));
}

TEST(FleetFile, RefusesWrongArrivals) {
    EXPECT_THAT(refusal(with(kDrawn, "jobs = 30\n", "")),
                HasSubstr("line 5, arrivals] a key is missing; expected jobs"));
    EXPECT_THAT(refusal(with(kDrawn, "rate = 60", "rate = -60")),
                HasSubstr("arrivals.rate] the value cannot be used; expected a number, above 0"));
    EXPECT_THAT(refusal(with(kDrawn, "[0, 1]", "[1]")),
                HasSubstr("arrivals.weights] another length than workers; expected 2 numbers"));
    EXPECT_THAT(refusal(with(kDrawn, "[0, 1]", "[0, 0]")), HasSubstr("no size has a weight"));
    EXPECT_THAT(refusal(with(kDrawn, "[2, 4]", "[2, 400]")),
                HasSubstr("[arrivals], job 'drawn-001'] the job can never start"));
    EXPECT_THAT(refusal(with(kDrawn, "[\"vgg16\"]", "[]")), HasSubstr("not a list"));
    EXPECT_THAT(refusal(with(kDrawn, "samples = 6400\n", "data = \"x.h5\"\n")),
                HasSubstr("lengths multiply a number of samples"));
    EXPECT_THAT(refusal(with(kDrawn, "rate = 60", "speed = 60")),
                HasSubstr("arrivals.speed] not a key of [arrivals]"));
}

}  // namespace
}  // namespace cohort
