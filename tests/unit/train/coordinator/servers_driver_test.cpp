// The coordinator's flow of updates with servers, in all orders in which its messages can come.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/core/message_of.hpp"
#include "support/train/flow_rig.hpp"

namespace cohort {
namespace {

using test::FlowRig;
using testing::ElementsAre;
using testing::HasSubstr;
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
    EXPECT_EQ(rig.run.leases().accounts().outstanding, 0);
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
        while (!rig.run.stopping()) {
            ASSERT_TRUE(rig.any_step(random, 0.01)) << "nobody can go on";
        }
        EXPECT_EQ(rig.run.applied(), kSamples);
        rig.finish();
        expect_clean(rig);
    }
}

/// Shards are to move, unless they do already. Otherwise something was lost: an update asks for a
/// push that no server has, or nobody can go on.
void move_shards(FlowRig& rig, int draw) {
    try {
        (void)rig.flow->servers(draw % 2 == 0 ? "1:3" : "2:1");
    } catch (const UsageError&) {  // under way
    }
}

/// Plans and shards change and workers come and go at random; with a tree they pass parameters on.
void random_run(unsigned seed, const std::string& push_tree, std::size_t& passed_on) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) {
        return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    const int workers = 2 + draw(4);
    constexpr std::int64_t kSamples = 3000;
    const std::vector<SyncPlan> plans = all_plans(workers);
    const int servers = 1 + draw(2);
    FlowRig rig(servers, workers, kSamples, plans[seed % plans.size()], kBatch, false, push_tree);
    std::set<int> away;
    rig.flow->begin({}, {});
    while (!rig.run.stopping()) {
        const int what = draw(400);
        if (what == 0) {
            const bool other_sizes = draw(2) == 0;
            const std::vector<std::int64_t> batches(static_cast<std::size_t>(workers),
                                                    kBatch + draw(8));
            rig.flow->install(
                {plans[static_cast<std::size_t>(draw(static_cast<int>(plans.size())))],
                 other_sizes ? batches : std::vector<std::int64_t>()});
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
                rig.lose(worker, push_tree != "off" && draw(2) == 0);
            }
        } else if (what == 6 && rig.servers.size() == 2) {
            move_shards(rig, draw(2));
        } else if (what < 6 && !away.empty()) {
            rig.come_back(*away.begin());
            away.erase(away.begin());
        } else if (!rig.any_step(random, 0.005)) {
            ASSERT_FALSE(away.empty()) << "nobody can go on: " << rig.describe();
            rig.come_back(*away.begin());
            away.erase(away.begin());
        }
    }
    EXPECT_EQ(rig.run.applied(), kSamples);
    passed_on += rig.servers[0].stops;
    rig.finish();
}

TEST(FlowServers, ShardsStayInAJobWithATree) {
    FlowRig rig(2, 2, 100, all_plans(2).front(), kBatch);
    rig.job.options.push_tree = "auto";
    EXPECT_THAT(test::message_of<UsageError>([&] { (void)rig.flow->servers("1:3"); }),
                HasSubstr("shards do not move in a job with --push-tree"));
    EXPECT_THAT(rig.flow->servers(""), HasSubstr("layout 0"));
}

/// Whatever the plan, and although a worker is lost while the servers move what they own.
TEST(FlowServers, ShardsMoveAtAFenceAlthoughAWorkerIsLost) {
    constexpr int kWorkers = 4;
    constexpr std::int64_t kSamples = 2400;
    for (const SyncPlan& plan : all_plans(kWorkers)) {
        SCOPED_TRACE(plan.name);
        std::mt19937 random(7);
        FlowRig rig(2, kWorkers, kSamples, plan, kBatch);
        rig.flow->begin({}, {});
        const auto until = [&](const auto& reached) {
            while (!reached()) {
                ASSERT_TRUE(rig.any_step(random)) << "nobody can go on: " << rig.describe();
            }
        };
        until([&] { return rig.run.applied() >= kSamples / 4; });
        EXPECT_NE(rig.flow->servers("1:3").find("0.250:0.750"), std::string::npos);
        EXPECT_THROW((void)rig.flow->servers("3:1"), UsageError) << "one after the other";
        until([&] { return rig.servers[0].layout == 1; });
        EXPECT_THAT(rig.servers[0].staged, IsEmpty());
        EXPECT_FALSE(rig.run.stopping());
        rig.lose(1);
        until([&] { return rig.run.applied() >= kSamples / 2; });
        rig.come_back(1);
        until([&] { return rig.run.stopping(); });
        EXPECT_EQ(rig.run.applied(), kSamples);
        for (const FlowRig::Worker& worker : rig.workers) {
            EXPECT_EQ(worker.layout, 1U);
        }
        EXPECT_NE(rig.flow->servers("").find("layout 1"), std::string::npos);
        rig.finish();
        expect_clean(rig);
    }
}

TEST(FlowServers, PlansAndMembersChangeAtAnyTime) {
    std::size_t passed_on = 0;  // parameters, by workers
    for (unsigned seed = 0; seed < 45 && !testing::Test::HasFatalFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        random_run(seed, seed < 30 ? "off" : "auto", passed_on);
        EXPECT_TRUE(seed >= 30 || passed_on == 0);
    }
    EXPECT_GT(passed_on, 300U);
}

/// Halves of 9/5 and 1 around a mean of 1: numbers that say something.
TEST(FlowServers, MeasuresGradientsOnlyWhereSomebodyWantsThem) {
    for (const bool wants : {false, true}) {
        FlowRig rig(1, 3, 200 * kBatch, alone_plan(3), kBatch, wants);
        rig.flow->begin({}, {});
        rig.run_until([&] { return rig.run.updates.size() == 150; });
        ASSERT_FALSE(testing::Test::HasFatalFailure());
        EXPECT_EQ(rig.run.gradients.empty(), !wants);
        if (wants) {
            EXPECT_GE(rig.run.gradients.size(), 10U) << "every eighth lease";
            EXPECT_LE(rig.run.gradients.size(), 50U);
            EXPECT_GT(rig.run.gradients.back().noise_scale, 0);
        }
    }
}

TEST(FlowServers, AnUpdateSaysWhatItIsMadeOf) {
    SyncPlan plan = quorum_plan(2, 2);
    plan.delay_compensation = 0.25;
    FlowRig rig(1, 2, 320, plan, kBatch);
    rig.flow->begin({}, {});
    rig.run_until([&] { return rig.run.updates.size() == 3; });
    ASSERT_GE(rig.servers[0].fires.size(), 3U);
    const FireOrder& fire = rig.servers[0].fires[2];  // the first one only releases
    EXPECT_EQ(fire.update.version, 2);
    EXPECT_EQ(fire.update.work, Work::kGradient);
    EXPECT_EQ(fire.update.delay_compensation, 0.25);
    EXPECT_DOUBLE_EQ(fire.update.fraction, 1);
    ASSERT_EQ(fire.update.terms.size(), 2U);
    EXPECT_EQ(fire.update.terms[0].coefficient, 0.5);
    EXPECT_EQ(fire.update.terms[0].version, 1);
    EXPECT_FALSE(fire.update.ask_norm);
    ASSERT_EQ(rig.run.records.size(), rig.run.outcomes.size() + 0U);
    EXPECT_GE(rig.run.records[0].own_s(), 3) << "input and computing, not the exchange";
    EXPECT_LT(rig.run.records[0].own_s() - rig.run.records[0].transfer_s(), 4);
    EXPECT_EQ(rig.run.outcomes[0].samples, kBatch);
    EXPECT_FALSE(rig.run.outcomes[0].returned);
}

TEST(FlowServers, ADeltaCountsAsItsStepsShareOfAReferenceBatch) {
    FlowRig rig(1, 2, 2000, delta_plan(2, 5, 1), 20);
    rig.flow->begin({}, {});
    rig.run_until([&] { return rig.run.updates.size() == 2; });
    const FireOrder& fire = rig.servers[0].fires[1];
    EXPECT_EQ(fire.update.work, Work::kDelta);
    EXPECT_DOUBLE_EQ(fire.update.fraction, 5) << "reference batches";
    ASSERT_EQ(fire.update.terms.size(), 2U);
    EXPECT_EQ(fire.update.terms[0].coefficient, 0.5) << "the mean of both";
    EXPECT_EQ(fire.update.terms[1].coefficient, 0.5);
    // Alone, after the plan has changed, it moves half as far as both together.
    rig.run_until([&] { return rig.workers[0].computing && rig.workers[1].computing; });
    const std::size_t before = rig.run.updates.size();
    rig.flow->install({alone_plan(2), {}});
    rig.run_until([&] { return rig.run.updates.size() > before; });
    const FireOrder& alone = rig.servers[0].fires.back();
    EXPECT_EQ(alone.update.work, Work::kDelta);
    ASSERT_EQ(alone.update.terms.size(), 1U);
    EXPECT_EQ(alone.update.terms[0].coefficient, 0.5);
}

TEST(FlowServers, APlanComesIntoForceAtOnceAndLeasesOfItsKindAreDealt) {
    FlowRig rig(1, 2, 100 * kBatch, quorum_plan(2, 2), kBatch);
    rig.flow->begin({}, {});
    rig.run_until([&] { return rig.workers[0].computing && rig.workers[1].computing; });
    const std::uint64_t begun = rig.workers[0].computing->order.lease;
    rig.flow->install({delta_plan(2, 2, 1), {}});
    EXPECT_THAT(rig.run.plans, ElementsAre("deltas"));
    EXPECT_EQ(rig.run.leases().held_leases(0).front(), begun) << "what is begun is used";
    EXPECT_GT(rig.run.engine().accounts().returned_for(ReturnReason::kInterrupted), 0);
    rig.run_until([&] { return rig.run.updates.size() == 4; });
    EXPECT_EQ(rig.servers[0].fires.back().update.work, Work::kDelta);
    const auto leases = rig.run.leases().held_leases(1);
    rig.flow->install({delta_plan(2, 2, 1), {kBatch, 2 * kBatch}});
    EXPECT_EQ(rig.run.leases().held_leases(1), leases) << "another size only: used up";
    rig.run_until([&] { return rig.run.updates.size() == 20; });
    EXPECT_EQ(rig.run.leases().find(rig.run.leases().held_leases(0).back())->count, 2 * kBatch);
    EXPECT_EQ(rig.run.leases().find(rig.run.leases().held_leases(1).back())->count, 4 * kBatch);
    rig.run_until([&] { return rig.run.stopping(); });
    EXPECT_EQ(rig.run.applied(), 100 * kBatch);
    rig.finish();
    expect_clean(rig);
}

TEST(FlowServers, OfPlansAskedForInAnUpdateTheNewestFollowsIt) {
    FlowRig rig(1, 3, 50 * kBatch, quorum_plan(3, 3), kBatch);
    rig.run.on_update = [&](const UpdateOrder& /*update*/) {
        if (rig.run.updates.size() == 2) {
            rig.flow->install({alone_plan(3), std::vector<std::int64_t>(3, 8)});
            rig.flow->install({quorum_plan(3, 2), {}});
            EXPECT_THAT(rig.run.plans, IsEmpty()) << "in the middle of an update";
        }
    };
    rig.flow->begin({}, {});
    rig.run_until([&] { return rig.run.stopping(); });
    EXPECT_THAT(rig.run.plans, ElementsAre("quorum 2"));
    EXPECT_EQ(rig.run.updates.back().samples % 8, 0);
    EXPECT_EQ(rig.run.updates[rig.run.updates.size() / 2].samples, 16)
        << "two of the batches that were asked for first";
    rig.finish();
}

/// One slow worker among fast ones, in a plan that interrupts who lags too far behind.
TEST(FlowServers, WhoLagsTooOftenGetsAShorterLeaseWhosePushIsApplied) {
    constexpr double kBound = 1;
    FlowRig rig(1, 4, 400 * kBatch, bounded_plan(4, kBound, SyncPlan::LagAction::kRefresh), kBatch);
    rig.flow->begin({}, {});
    std::int64_t least = kBatch;
    for (int round = 0; !rig.run.stopping(); ++round) {
        (void)rig.coordinator();
        (void)rig.serve(0);
        for (int worker = 0; worker < 4; ++worker) {
            (void)rig.deliver_down(0, worker);
            (void)rig.deliver_up(worker, 0);
            (void)rig.order(worker);
            if (worker != 3 || round % 60 == 0) {
                (void)rig.work(worker);
            }
        }
        if (rig.workers[3].computing) {
            least = std::min(least, rig.workers[3].computing->order.count);
        }
    }
    EXPECT_EQ(least, kBatch / 8);
    int interrupted = 0;
    int slow = 0;
    for (const PushOutcome& outcome : rig.run.outcomes) {
        if (outcome.returned) {
            EXPECT_EQ(outcome.worker, 3) << "only the slow one is disturbed";
            ++interrupted;
        } else {
            EXPECT_TRUE(outcome.lag <= kBound + 1e-9 || outcome.over_bound);
            EXPECT_TRUE(!outcome.over_bound || outcome.weight < 1);
            slow += outcome.worker == 3 ? 1 : 0;
        }
    }
    EXPECT_GT(interrupted, 1);
    EXPECT_GT(slow, 0) << "it takes part";
    rig.finish();
    expect_clean(rig);
}

TEST(FlowServers, WhoIsLostIsNotWaitedForAndBeginsAnewWhenItComesBack) {
    FlowRig rig(2, 3, 100 * kBatch, quorum_plan(3, 3), kBatch);
    rig.flow->begin({}, {});
    rig.run_until([&] { return rig.run.updates.size() == 4 && rig.workers[2].computing; });
    rig.lose(2);
    EXPECT_THAT(rig.run.leases().held_leases(2), IsEmpty());
    rig.run_until([&] { return rig.run.updates.size() == 8; });
    ASSERT_EQ(rig.run.updates.size(), 8U) << "two are enough now";
    rig.come_back(2);
    rig.run_until([&] { return rig.run.updates.size() == 16; });
    EXPECT_EQ(rig.run.updates.back().samples, 3 * kBatch);
    EXPECT_EQ(rig.workers[2].incarnation, 1U);
    rig.run_until([&] { return rig.run.stopping(); });
    rig.finish();
    expect_clean(rig);
}

TEST(FlowServers, TheEndReturnsWhatWasNotUsedAndEvaluatesOnWhoIsLeft) {
    FlowRig rig(1, 3, 1000 * kBatch, alone_plan(3), kBatch);
    rig.flow->begin({}, {});
    rig.run_until([&] { return rig.run.updates.size() == 10; });
    rig.lose(1);
    rig.run.session().stop();
    rig.run.leases().return_all();
    EXPECT_EQ(rig.flow->request({.evaluation = 5, .snapshot = {}}), 2);
    (void)rig.sweep();
    const auto& releases = rig.servers[0].fires.back().releases;
    ASSERT_EQ(releases.size(), 2U);
    EXPECT_EQ(releases[1].worker, 2);
    EXPECT_EQ(releases[1].evaluation.part, 1);
    EXPECT_EQ(releases[1].evaluation.parts, 2);
    while (rig.sweep()) {
    }
    EXPECT_EQ(rig.run.updates.size(), 10U);
    EXPECT_FALSE(rig.workers[0].computing) << "no lease is left to work on";
    expect_clean(rig);
}

TEST(FlowServers, AReferenceIsComputedAgainEvenIfItHasEverythingRefused) {
    SyncPlan plan = validating_plan(2);
    plan.accept = [](const PushTicket& ticket) { return ticket.reference_norm == 0; };
    FlowRig rig(1, 2, 1000 * kBatch, plan, kBatch);
    rig.flow->begin({}, {});
    std::set<std::uint64_t> references;
    for (int step = 0; step < 600; ++step) {
        (void)rig.sweep();
        if (rig.servers[0].reference) {
            references.insert(rig.servers[0].reference->sequence);
        }
    }
    EXPECT_GT(references.size(), 3U);
    EXPECT_GT(rig.run.engine().accounts().returned_for(ReturnReason::kDropped), 0);
}

}  // namespace
}  // namespace cohort
