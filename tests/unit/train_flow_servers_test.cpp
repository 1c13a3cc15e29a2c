// The coordinator's flow of updates with servers, in all orders in which its messages can come.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "noise_scale.hpp"
#include "push_arrivals.hpp"
#include "support/flow_rig.hpp"
#include "validation_desk.hpp"

namespace cohort {
namespace {

using test::FlowRig;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kBatch = 16;

std::vector<int> all_workers(int count) {
    std::vector<int> workers(static_cast<std::size_t>(count));
    std::iota(workers.begin(), workers.end(), 0);
    return workers;
}

SyncPlan quorum_plan(int workers, int quorum) {
    SyncPlan plan;
    plan.name = "quorum " + std::to_string(quorum);
    plan.cohorts = {{.members = all_workers(workers), .riders = {}, .quorum = quorum}};
    return plan;
}

SyncPlan alone_plan(int workers) {
    SyncPlan plan;
    plan.name = "alone";
    for (int worker = 0; worker < workers; ++worker) {
        plan.cohorts.push_back({.members = {worker}, .riders = {}, .quorum = 1});
    }
    return plan;
}

SyncPlan bounded_plan(int workers, double bound, SyncPlan::LagAction action) {
    SyncPlan plan = alone_plan(workers);
    plan.name = "bounded";
    plan.lag_rule = SyncPlan::LagRule{bound, action};
    return plan;
}

SyncPlan interrupting_plan(int workers, int quorum) {
    SyncPlan plan = quorum_plan(workers, quorum);
    plan.name = "interrupting";
    plan.cohorts.front().fresh_only = true;
    plan.late = SyncPlan::Late::kDrop;
    plan.others = SyncPlan::Others::kInterrupt;
    return plan;
}

SyncPlan arrival_plan(int workers, int pushes, SyncPlan::Others others) {
    SyncPlan plan = quorum_plan(workers, pushes);
    plan.name = "on arrival";
    plan.cohorts.front().count = CohortSpec::Count::kPushes;
    plan.cohorts.front().fresh_only = others == SyncPlan::Others::kInterrupt;
    plan.others = others;
    plan.release = SyncPlan::Release::kOnArrival;
    plan.window = 2;
    return plan;
}

SyncPlan gated_plan(int workers, std::int64_t bound) {
    SyncPlan plan = alone_plan(workers);
    plan.name = "gated";
    plan.clock_bound = bound;
    return plan;
}

SyncPlan delta_plan(int workers, int steps, int group) {
    SyncPlan plan = quorum_plan(workers, workers);
    plan.name = "deltas";
    plan.work = Work::kDelta;
    plan.local_steps = steps;
    plan.group = group;
    return plan;
}

SyncPlan validating_plan(int workers) {
    SyncPlan plan = alone_plan(workers);
    plan.name = "validating";
    plan.validate_every = 3;
    plan.accept = [](const PushTicket& ticket) {
        return ticket.reference_norm == 0 || ticket.id.sequence % 5 != 0;
    };
    return plan;
}

std::vector<SyncPlan> all_plans(int workers) {
    using Action = SyncPlan::LagAction;
    return {quorum_plan(workers, workers),
            quorum_plan(workers, (workers + 1) / 2),
            alone_plan(workers),
            bounded_plan(workers, 0.5, Action::kRefresh),
            bounded_plan(workers, 1.2, Action::kRefresh),
            bounded_plan(workers, 0.4, Action::kDrop),
            bounded_plan(workers, 0.4, Action::kDiscount),
            interrupting_plan(workers, (workers + 1) / 2),
            arrival_plan(workers, workers, SyncPlan::Others::kContinue),
            arrival_plan(workers, workers, SyncPlan::Others::kInterrupt),
            gated_plan(workers, 1),
            delta_plan(workers, 3, 1),
            delta_plan(workers, 2, 2),
            delta_plan(workers, 2, 3),
            validating_plan(workers)};
}

/// Nothing is left over when all has come to rest.
void expect_clean(FlowRig& rig) {
    for (const FlowRig::Server& server : rig.servers) {
        EXPECT_THAT(server.staged, IsEmpty());
    }
    EXPECT_EQ(rig.books.leases().accounts().outstanding, 0);
}

TEST(FlowServers, EveryPlanComesToItsEndInAnyOrder) {
    constexpr int kWorkers = 4;
    constexpr std::int64_t kSamples = 2400;
    int index = 0;
    for (const SyncPlan& plan : all_plans(kWorkers)) {
        SCOPED_TRACE(plan.name + " at " + std::to_string(index));
        std::mt19937 random(static_cast<unsigned>(100 + index++));
        FlowRig rig(2, kWorkers, kSamples, plan, kBatch);
        rig.flow->begin({}, {});
        while (!rig.books.stopping()) {
            ASSERT_TRUE(rig.any_step(random, 0.01)) << "nobody can go on";
        }
        EXPECT_EQ(rig.books.samples_applied(), kSamples);
        rig.finish();
        expect_clean(rig);
    }
}

/// Plans change and workers come and go at random.
void random_run(unsigned seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) {
        return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    const int workers = 2 + draw(4);
    constexpr std::int64_t kSamples = 3000;
    const std::vector<SyncPlan> plans = all_plans(workers);
    FlowRig rig(1 + draw(2), workers, kSamples, plans[seed % plans.size()], kBatch);
    std::set<int> away;
    rig.flow->begin({}, {});
    while (!rig.books.stopping()) {
        const int what = draw(400);
        if (what == 0) {
            const bool other_sizes = draw(2) == 0;
            const std::vector<std::int64_t> batches(static_cast<std::size_t>(workers),
                                                    kBatch + draw(8));
            rig.flow->install(plans[static_cast<std::size_t>(draw(static_cast<int>(plans.size())))],
                              other_sizes ? batches : std::vector<std::int64_t>());
        } else if (what == 1 && static_cast<int>(away.size()) + 1 < workers) {
            const int worker = draw(workers);
            if (away.insert(worker).second) {
                auto& up = rig.workers[static_cast<std::size_t>(worker)].up;
                if (draw(2) == 0) {
                    up[static_cast<std::size_t>(draw(static_cast<int>(up.size())))].clear();
                }
                for (auto& server : rig.servers) {
                    if (draw(2) == 0) {
                        server.down[static_cast<std::size_t>(worker)].clear();
                    }
                }
                rig.lose(worker);
            }
        } else if (what < 6 && !away.empty()) {
            rig.come_back(*away.begin());
            away.erase(away.begin());
        } else if (!rig.any_step(random, 0.005)) {
            ASSERT_FALSE(away.empty()) << "nobody can go on: " << rig.describe();
            rig.come_back(*away.begin());
            away.erase(away.begin());
        }
    }
    EXPECT_EQ(rig.books.samples_applied(), kSamples);
    rig.finish();
}

TEST(FlowServers, PlansAndMembersChangeAtAnyTime) {
    for (unsigned seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_run(seed);
        if (testing::Test::HasFatalFailure()) {
            return;
        }
    }
}

}  // namespace
}  // namespace cohort
