// Jobs of a fleet that make room for each other: what they need, and what becomes of grants.
#include "sim/fleet/fleet_room.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "sim/fleet/fleet_run.hpp"
#include "sim/learner/learner_pool.hpp"
#include "support/sim/fleet_text.hpp"

namespace cohort {
namespace {

using test::plan_of;

/// The closed form against the same job on a cluster of its own.
TEST(FleetRoom, NeedsAreThoseOfTheJobAlone) {
    for (const char* placement : {"beside", "even", "packed"}) {
        for (const char* workload : {"resnet50", "vgg16", "resnet20"}) {
            for (const char* job :
                 {"workers = 4\nservers = 1", "workers = 16\nservers = 2",
                  "workers = 12\nservers = 4", "workers = 8\nservers = 2\nmode = \"asgd\"",
                  "workers = 16\nservers = 4\nmode = \"asgd\"",
                  "workers = 8\nservers = 2\nmode = \"static:4\"",
                  "workers = 8\nservers = 2\nmode = \"localsgd:4\"",
                  "workers = 16\narch = \"ring\""}) {
                const FleetPlan plan = plan_of(fmt::format(
                    "[cluster]\nnodes = 3\n[fleet]\nserver-placement = \"{}\"\n[defaults]\n"
                    "no-train = true\nsamples = 64000\ntime-as = \"{}\"\n[[job]]\nname = \"a\"\n"
                    "{}\n",
                    placement, workload, job));
                const FleetResult result = run_fleet(plan, {});
                const FleetParts parts(plan);
                const FleetJobResult& ran = result.jobs[0];
                const JobSpec spec =
                    parts.spec(0, {.workers = ran.worker_nodes, .servers = ran.server_nodes});
                const JobNeeds needs =
                    needs_of(spec, parts.profile(), plan.nodes, ran.servers, ran.server_nodes,
                             ModeController(spec.choice, spec.setting, 0).start());
                const bool free = ran.mode == "asgd";  // its transfers meet at random
                fmt::print("{:.3f} {} {} {}\n", needs.samples_s / *ran.alone_samples_s, placement,
                           workload, job);
                EXPECT_NEAR(needs.samples_s / *ran.alone_samples_s, 1, free ? 0.35 : 0.12)
                    << placement << ' ' << workload << ' ' << job;
            }
        }
    }
}

/// Two jobs that transfer much and two that transfer little, with all servers on one node.
std::string crowd(const std::string& rule) {
    std::string text = fmt::format(
        "[cluster]\nnodes = 5\n[fleet]\nserver-placement = \"star\"\nmake-room = \"{}\"\n"
        "[defaults]\nno-train = true\nworkers = 8\nservers = 1\n",
        rule);
    for (const auto& [name, workload, samples] :
         {std::tuple("a", "vgg16", 40000), std::tuple("b", "resnet50", 200000),
          std::tuple("c", "vgg16", 40000), std::tuple("d", "resnet152", 200000)}) {
        text += fmt::format("[[job]]\nname = \"{}\"\ntime-as = \"{}\"\nsamples = {}\n", name,
                            workload, samples);
    }
    return text;
}

TEST(FleetRoom, GrantsAreGivenAndAllOfThemReturned) {
    const FleetResult off = run_fleet(plan_of(crowd("off")), {});
    EXPECT_FALSE(off.grants);
    EXPECT_FALSE(off.jobs[0].grants);
    for (const char* rule : {"progress", "star"}) {
        const FleetResult result = run_fleet(plan_of(crowd(rule)), {});
        ASSERT_TRUE(result.grants);
        EXPECT_GT(result.grants->granted, 0) << rule;
        EXPECT_EQ(result.grants->granted, result.grants->returned + result.grants->expired);
        std::int64_t grants = 0;
        for (const FleetJobResult& job : result.jobs) {
            EXPECT_EQ(job.state, FleetJobState::kBudget);
            grants += *job.grants;
        }
        EXPECT_EQ(grants, result.grants->granted);
        EXPECT_NE(result.digest, off.digest) << "weights reach the network";
        EXPECT_EQ(run_fleet(plan_of(crowd(rule)), {}).digest, result.digest);
        fmt::print("{}: {} granted\n", rule, grants);
        for (std::size_t job = 0; job < 4; ++job) {
            fmt::print("  {:.1f} s, off {:.1f} s; {} grants, taken {:.2f} s, given {:.2f} s\n",
                       *result.jobs[job].end_s, *off.jobs[job].end_s, *result.jobs[job].grants,
                       *result.jobs[job].room_taken_s, *result.jobs[job].room_given_s);
        }
    }
}

/// Learns nothing; its first update after so many fails.
class LaterFailing final : public Learner {
public:
    explicit LaterFailing(int updates) : left_(updates) {}
    GradientAnswer apply(const Update& update) override {
        if (--left_ == 0) {
            throw std::runtime_error("the disk burns");
        }
        return Learner::apply(update);
    }

private:
    int left_;
};

TEST(FleetRoom, AJobThatDiesReturnsItsGrants) {
    const FleetPlan plan = plan_of(crowd("progress"));
    const FleetParts parts(plan);
    const FleetResult result = FleetRun(plan, parts, [](std::size_t job) {
                                   return std::make_unique<LaterFailing>(job % 2 == 1 ? 40 : 0);
                               }).run({});
    EXPECT_EQ(result.jobs[1].error, "the disk burns");
    EXPECT_GT(*result.jobs[1].grants + *result.jobs[3].grants, 0);
    EXPECT_EQ(result.grants->granted, result.grants->returned + result.grants->expired);
    EXPECT_EQ(result.jobs[0].state, FleetJobState::kBudget);
}

}  // namespace
}  // namespace cohort
