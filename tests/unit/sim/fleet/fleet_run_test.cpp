// Whole fleets: what jobs share, how they end, and that a run repeats itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "cohort/core/error.hpp"
#include "sim/fleet/fleet_run.hpp"
#include "support/sim/fleet_text.hpp"
#include "support/sim/learner_run.hpp"

namespace cohort {
namespace {

using test::plan_of;

/// A cluster on which nothing takes time but bytes on network cards, 1 MB/s.
std::string slow_network(const TempFolder& folder) {
    const std::string path = folder.file("slow.toml");
    replace_text_file(path,
                      "cores = 100\nnic_bytes_per_s = 1e6\nlocal_bytes_per_s = 1e15\n"
                      "memory_bytes_per_s = 1e15\ndevices_per_node = 2\n"
                      "[workloads.work]\ndevice_s_per_sample = 0\ndevice_s = 1e-5\n"
                      "parameter_bytes = 1e6\n");
    return path;
}

std::string ring_job(const std::string& name) {
    return fmt::format("[[job]]\nname = \"{}\"\nworkers = 3\n", name);
}

/// The first ring is on nodes 0, 0 and 1, the second one on 1, 2 and 2: each round moves
/// 2 (3-1)/3 MB in each direction over each of their cards.
TEST(FleetRun, TwoJobsOnOneCardRunAtHalfTheirPace) {
    const TempFolder folder;
    const std::string head = fmt::format(
        "[cluster]\nprofile = \"{}\"\nnodes = 3\n[defaults]\nno-train = true\ntime-as = \"work\"\n"
        "arch = \"ring\"\nbatch = 10\nsamples = 600\n",
        slow_network(folder));
    const FleetResult alone = run_fleet(plan_of(head + ring_job("a")), {});
    const FleetResult both = run_fleet(plan_of(head + ring_job("a") + ring_job("b")), {});
    EXPECT_EQ(alone.jobs[0].worker_nodes, (std::vector<int>{0, 0, 1}));
    EXPECT_EQ(both.jobs[1].worker_nodes, (std::vector<int>{1, 2, 2}));
    const double rounds = 600 / (3 * 10);
    EXPECT_NEAR(*alone.jobs[0].end_s, rounds * 4 / 3, 0.01 * rounds);
    EXPECT_NEAR(*both.jobs[0].end_s, 2 * rounds * 4 / 3, 0.02 * rounds);
    EXPECT_NEAR(*both.jobs[1].end_s, 2 * rounds * 4 / 3, 0.02 * rounds);
    EXPECT_NEAR(*both.jobs[0].slowdown(), 2, 0.02);
    EXPECT_DOUBLE_EQ(*alone.jobs[0].slowdown(), 1);
    const FleetUsePoint& use = both.use.front();
    EXPECT_NEAR(use.tx[1], 1, 0.01);
    EXPECT_NEAR(use.tx[0], 0.5, 0.01);
    EXPECT_DOUBLE_EQ(use.devices[1], 1);
    EXPECT_NEAR(summarise(both).network, 2.0 / 3, 0.01);
}

std::string trained_fleet(const std::string& more) {
    return fmt::format(
        "[cluster]\nnodes = 2\n[defaults]\ndata = \"{}\"\nmodel = \"smallcnn\"\nbatch = 10\n"
        "samples = 900\nlr = 0.02\neval-every-samples = 300\ntime-as = \"resnet50\"\n{}",
        test::tiny_file(), more);
}

/// The same options, for `cohort simulate` on so many nodes.
SimulationResult simulated(const FleetPlan& plan, int nodes) {
    SimulateOptions options = plan.jobs[0].options;
    options.nodes = nodes;
    return simulate(options, {});
}

TEST(FleetRun, AJobAloneIsWhatSimulateMakesOfIt) {
    for (const char* job :
         {"mode = \"adaptive\"\nservers = 2\nworkers = 4",
          "mode = \"asgd\"\nworkers = 16\nservers = 2", "mode = \"localsgd:4\"\nworkers = 4",
          "arch = \"ring\"\nmode = \"adaptive\"\nworkers = 16"}) {
        const FleetPlan plan =
            plan_of(trained_fleet(fmt::format("[[job]]\nname = \"alone\"\n{}\n", job)));
        const FleetResult fleet = run_fleet(plan, {});
        const int nodes = plan.jobs[0].options.workers > 8 ? 2 : 1;
        const SimulationResult single = simulated(plan, nodes);
        ASSERT_EQ(fleet.jobs[0].error, "") << job;
        EXPECT_EQ(fleet.jobs[0].digest, single.digest) << job;
        EXPECT_EQ(fleet.jobs[0].end_s, single.virtual_s) << job;
        EXPECT_EQ(fleet.jobs[0].accuracy, single.accuracy) << job;
        EXPECT_EQ(fleet.jobs[0].updates, single.updates) << job;
    }
}

/// Each on a node of its own: threads, samples and engines are all that they share.
TEST(FleetRun, JobsThatShareNoNodeDoNotChangeEachOther) {
    const FleetPlan plan = plan_of(trained_fleet(
        "[[job]]\nname = \"a\"\nworkers = 8\nmode = \"asgd\"\nseed = 5\n"
        "[[job]]\nname = \"b\"\nworkers = 8\nmode = \"localsgd:3\"\nmodel = \"mlp\"\n"));
    const FleetResult fleet = run_fleet(plan, {});
    EXPECT_EQ(fleet.jobs[0].worker_nodes, std::vector<int>(8, 0));
    EXPECT_EQ(fleet.jobs[1].worker_nodes, std::vector<int>(8, 1));
    for (std::size_t job = 0; job < 2; ++job) {
        SimulateOptions options = plan.jobs[job].options;
        options.nodes = 1;
        const SimulationResult single = simulate(options, {});
        EXPECT_EQ(fleet.jobs[job].digest, single.digest) << job;
        EXPECT_EQ(fleet.jobs[job].end_s, single.virtual_s) << job;
        EXPECT_DOUBLE_EQ(*fleet.jobs[job].slowdown(), 1) << job;
    }
}

const std::string kFourJobs = R"([[job]]
name = "a"
workers = 12
mode = "asgd"
[[job]]
name = "b"
workers = 8
mode = "adaptive"
servers = 2
[[job]]
name = "c"
workers = 4
model = "mlp"
arrival = 0.5
mode = "localsgd:3"
[[job]]
name = "d"
workers = 16
arch = "ring"
target-accuracy = 0.3
arrival = 1
)";

TEST(FleetRun, RepeatsItselfWhateverTheThreads) {
    FleetPlan plan = plan_of(trained_fleet(kFourJobs));
    plan.threads = 1;
    const FleetResult first = run_fleet(plan, {});
    plan.threads = 2;
    const FleetResult second = run_fleet(plan, {});
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.events, second.events);
    for (std::size_t job = 0; job < 4; ++job) {
        EXPECT_EQ(first.jobs[job].error, "");
        EXPECT_EQ(first.jobs[job].digest, second.jobs[job].digest);
        EXPECT_EQ(first.jobs[job].end_s, second.jobs[job].end_s);
    }
    // 12, then 4 beside it; 8 wait for 12, and 16 for all.
    EXPECT_EQ(first.jobs[0].start_s, 0);
    EXPECT_EQ(first.jobs[2].start_s, 0.5);
    EXPECT_EQ(first.jobs[1].start_s, first.jobs[0].end_s);
    EXPECT_GE(*first.jobs[3].start_s, *first.jobs[1].end_s);
    plan.jobs[0].options.seed = 9;
    EXPECT_NE(run_fleet(plan, {}).digest, first.digest);
}

/// Learns nothing; its n-th update fails.
class FailingLearner final : public Learner {
public:
    explicit FailingLearner(int updates) : left_(updates) {}
    double apply(const UpdateOrder& update, std::span<const WorkId> works) override {
        if (--left_ == 0) {
            throw std::runtime_error("the disk burns");
        }
        return Learner::apply(update, works);
    }

private:
    int left_;
};

TEST(FleetRun, AJobThatFailsEndsAloneAndTheOthersGoOn) {
    for (const char* arch : {"servers", "ring"}) {
        const FleetPlan plan = plan_of(fmt::format(
            "[cluster]\nnodes = 2\n[defaults]\nno-train = true\ntime-as = \"resnet50\"\n"
            "arch = \"{}\"\nsamples = 12800\nworkers = 8\n[[job]]\nname = \"a\"\n"
            "[[job]]\nname = \"b\"\n[[job]]\nname = \"c\"\nworkers = 16\n[[job]]\nname = \"d\"\n",
            arch));
        const FleetParts parts(plan);
        std::size_t told = 0;
        const FleetResult result =
            FleetRun(plan, parts, [](std::size_t job) -> std::unique_ptr<Learner> {
                if (job == 3) {
                    throw std::runtime_error("no memory");
                }
                return std::make_unique<FailingLearner>(job == 1 ? 5 : 0);
            }).run([&](const FleetProgress& now) {
                told += now.ended != nullptr && now.ended->state == FleetJobState::kFailed;
                return false;
            });
        EXPECT_EQ(result.jobs[1].state, FleetJobState::kFailed);
        EXPECT_EQ(result.jobs[1].error, "the disk burns");
        EXPECT_LT(*result.jobs[1].end_s, *result.jobs[0].end_s);
        EXPECT_EQ(result.jobs[3].error, "no memory");
        EXPECT_EQ(result.jobs[0].state, FleetJobState::kBudget);
        EXPECT_EQ(result.jobs[0].samples, 12800);
        EXPECT_EQ(result.jobs[2].state, FleetJobState::kBudget) << "it got all devices";
        EXPECT_EQ(result.jobs[2].samples, 12800);
        EXPECT_EQ(told, 2U);
        EXPECT_EQ(summarise(result).failed, 2U);
    }
}

TEST(FleetRun, TrainingThatDivergesIsAFailure) {
    const FleetResult result =
        run_fleet(plan_of(trained_fleet("[[job]]\nname = \"wild\"\nworkers = 2\nlr = 1e30\n"
                                        "[[job]]\nname = \"calm\"\nworkers = 2\n")),
                  {});
    EXPECT_EQ(result.jobs[0].state, FleetJobState::kFailed);
    EXPECT_THAT(result.jobs[0].error, testing::HasSubstr("diverged"));
    EXPECT_EQ(result.jobs[1].state, FleetJobState::kBudget);
}

TEST(FleetRun, MayBeStopped) {
    const FleetPlan plan = plan_of(
        "[cluster]\nnodes = 1\n[defaults]\nno-train = true\ntime-as = \"resnet50\"\nworkers = 8\n"
        "samples = 64000\n[[job]]\nname = \"a\"\n[[job]]\nname = \"b\"\n");
    const FleetResult result =
        run_fleet(plan, [](const FleetProgress& now) { return now.events > 2000; });
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(result.jobs[0].state, FleetJobState::kStopped);
    EXPECT_GT(result.jobs[0].samples, 0);
    EXPECT_LT(result.jobs[0].samples, 64000);
    EXPECT_EQ(result.jobs[1].state, FleetJobState::kWaiting);
    EXPECT_EQ(result.jobs[1].start_s, std::nullopt);
}

TEST(FleetRun, RefusesBeforeAnythingRuns) {
    EXPECT_THROW((void)run_fleet(plan_of(trained_fleet("[[job]]\nname = \"a\"\nworkers = 2\n"
                                                       "data = \"missing.h5\"\n")),
                                 {}),
                 FileError);
    try {
        (void)run_fleet(plan_of(trained_fleet("[[job]]\nname = \"a\"\nworkers = 2\n"
                                              "batch = 100000\n")),
                        {});
        FAIL() << "a batch larger than the data set";
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("job 'a']"));
    }
}

}  // namespace
}  // namespace cohort
