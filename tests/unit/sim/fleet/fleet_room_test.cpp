// Jobs of a fleet that make room for each other: what they need, and what becomes of grants.
#include "sim/fleet/fleet_room.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tuple>

#include "sched/servers/shard_shares.hpp"
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
                    "no-train = true\nrebalance-servers = \"off\"\nsamples = 64000\ntime-as = "
                    "\"{}\"\n[[job]]\nname = \"a\"\n"
                    "{}\n",
                    placement, workload, job));
                const FleetResult result = run_fleet(plan, {});
                const FleetParts parts(plan);
                const FleetJobResult& ran = result.jobs[0];
                const JobSpec spec =
                    parts.spec(0, {.workers = ran.worker_nodes, .servers = ran.server_nodes});
                const JobNeeds needs = needs_of(
                    spec, parts.profile(), plan.nodes,
                    {.nodes = ran.server_nodes, .shares = equal_shares(ran.server_nodes.size())},
                    ModeController(spec.choice, spec.setting, 0).start());
                const bool free = ran.mode == "asgd";  // its transfers meet at random
                EXPECT_NEAR(needs.samples_s / *ran.alone_samples_s, 1, free ? 0.25 : 0.15)
                    << placement << ' ' << workload << ' ' << job;
            }
        }
    }
}

/// Jobs that transfer much and little, with all servers on node 0.
std::string crowd(const std::string& rule, const std::string& mode = "ssgd") {
    std::string text = fmt::format(
        "[cluster]\nnodes = 5\n[fleet]\nserver-placement = \"star\"\nmake-room = \"{}\"\n"
        "[defaults]\nno-train = true\nservers = 1\nmode = \"{}\"\n",
        rule, mode);
    for (const auto& [name, workload, workers, samples] :
         {std::tuple("a", "vgg16", 8, 4000), std::tuple("b", "resnet56", 8, 600000),
          std::tuple("c", "alexnet", 2, 10000), std::tuple("d", "resnet152", 2, 20000)}) {
        text +=
            fmt::format("[[job]]\nname = \"{}\"\ntime-as = \"{}\"\nworkers = {}\nsamples = {}\n",
                        name, workload, workers, samples);
    }
    return text;
}

TEST(FleetRoom, GrantsAreGivenAndAllOfThemReturned) {
    const FleetResult off = run_fleet(plan_of(crowd("off")), {});
    EXPECT_FALSE(off.grants);
    EXPECT_FALSE(off.jobs[0].grants);
    for (const std::string rule : {"progress", "shortest", "star"}) {
        const FleetResult result = run_fleet(plan_of(crowd(rule)), {});
        ASSERT_TRUE(result.grants);
        EXPECT_GT(result.grants->granted, 0) << rule;
        EXPECT_EQ(result.grants->granted, result.grants->returned);
        EXPECT_EQ(result.grants->granted, std::ssize(result.grants->list));
        double gained_s = 0;
        double given_s = 0;
        for (const FleetGrant& grant : result.grants->list) {
            EXPECT_GT(grant.weight, 1);
            EXPECT_LE(grant.from_s, grant.to_s);
            EXPECT_LE(grant.to_s, *result.jobs[static_cast<std::size_t>(grant.job)].end_s);
            gained_s += grant.gained_s;
            for (const auto& [giver, seconds] : grant.given_s) {
                EXPECT_NE(giver, grant.job);
                given_s += seconds;
            }
        }
        if (rule != "star") {
            EXPECT_GT(gained_s, given_s) << "the sum of progress is predicted to grow";
            EXPECT_NE(result.digest, off.digest) << "weights reach the network";
        }
        double taken_s = 0;
        for (std::size_t job = 0; job < result.jobs.size(); ++job) {
            const FleetJobResult& one = result.jobs[job];
            EXPECT_EQ(one.state, FleetJobState::kBudget);
            taken_s += *one.room_taken_s;
            EXPECT_GT(1 / *one.slowdown(), 0.97 * std::min(0.7, 1 / *off.jobs[job].slowdown()))
                << rule << ": nobody is pushed below the limit";
        }
        EXPECT_DOUBLE_EQ(taken_s, gained_s);
        EXPECT_EQ(run_fleet(plan_of(crowd(rule)), {}).digest, result.digest);
    }
}

TEST(FleetRoom, AChooserDoesNotGetAPlanThatDoesNotFit) {
    for (const std::string rule : {"progress", "shortest"}) {
        const FleetResult result = run_fleet(plan_of(crowd(rule, "adaptive")), {});
        for (const FleetRefusal& refusal : result.grants->refused_plans) {
            const FleetJobResult& asker = result.jobs[static_cast<std::size_t>(refusal.job)];
            EXPECT_LE(refusal.at_s, *asker.end_s);
            EXPECT_NE(refusal.from, refusal.to);
            EXPECT_FALSE(refusal.losses.contains(refusal.job));
            EXPECT_TRUE(refusal.gain < 0 || !refusal.losses.empty())
                << refusal.to << " gains " << refusal.gain << " and costs nobody anything";
        }
        EXPECT_FALSE(result.grants->refused_plans.empty()) << rule;
        FleetPlan again = plan_of(crowd(rule, "adaptive"));
        again.alone = false;
        EXPECT_EQ(run_fleet(again, {}).digest, result.digest) << rule;
    }
}

/// Two jobs that would fill the card of node 0 alone: the one that ends first gets nearly all of
/// it, and the other one has it back afterwards.
TEST(FleetRoom, WhoHasLessLeftGoesFirstAndNobodyEndsLater) {
    const auto run = [](const char* rule) {
        return run_fleet(
            plan_of(fmt::format("[cluster]\nnodes = 3\n[fleet]\nserver-placement = \"star\"\n"
                                "make-room = \"{}\"\n[defaults]\nno-train = true\nservers = 1\n"
                                "workers = 8\ntime-as = \"vgg16\"\n"
                                "[[job]]\nname = \"on node 0\"\nsamples = 600\n"
                                "[[job]]\nname = \"long\"\nsamples = 40000\n"
                                "[[job]]\nname = \"short\"\nsamples = 10000\n",
                                rule)),
            {});
    };
    const FleetResult off = run("off");
    const FleetResult room = run("shortest");
    EXPECT_NEAR(*off.jobs[2].slowdown(), 2, 0.2);
    EXPECT_NEAR(*room.jobs[2].slowdown(), 1, 0.05);
    EXPECT_LE(*room.jobs[1].end_s, *off.jobs[1].end_s);
    ASSERT_EQ(room.grants->granted, 1);
    EXPECT_EQ(room.grants->list[0].to_s, *room.jobs[2].end_s) << "it ends with its job";
}

/// Learns nothing; its first update after so many fails.
class LaterFailing final : public Learner {
public:
    explicit LaterFailing(int updates) : left_(updates) {}
    double apply(const UpdateOrder& update, std::span<const WorkId> works) override {
        if (--left_ == 0) {
            throw std::runtime_error("the disk burns");
        }
        return Learner::apply(update, works);
    }

private:
    int left_;
};

TEST(FleetRoom, AJobThatDiesReturnsItsGrants) {
    const FleetPlan plan = plan_of(crowd("shortest"));
    const FleetParts parts(plan);
    const FleetResult result = FleetRun(plan, parts, [](std::size_t job) {
                                   return std::make_unique<LaterFailing>(job == 1 ? 40 : 0);
                               }).run({});
    EXPECT_EQ(result.jobs[1].error, "the disk burns");
    ASSERT_GT(*result.jobs[1].grants, 0);
    EXPECT_EQ(result.grants->granted, result.grants->returned);
    for (const FleetGrant& grant : result.grants->list) {
        EXPECT_TRUE(grant.job != 1 || grant.to_s <= *result.jobs[1].end_s);
    }
    EXPECT_EQ(result.jobs[0].state, FleetJobState::kBudget);
}

}  // namespace
}  // namespace cohort
