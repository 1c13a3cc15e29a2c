// Whole jobs on rings, workers on threads and the real coordinator's flow: riders and switches.
// What the job has applied is done again by one process, to the last bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "sched/session/gradient_statistics.hpp"
#include "support/train/ring_replay.hpp"

namespace cohort {
namespace {

using test::expect_accounts;
using test::expect_replayed;
using test::ring_plan;
using test::RingJob;

int applied_of(const RingJob& job, int worker) {
    return static_cast<int>(std::count_if(
        job.books.outcomes.begin(), job.books.outcomes.end(),
        [worker](const PushOutcome& one) { return one.worker == worker && !one.returned; }));
}

/// As many parts are waited for as are sent: a rider does none.
TEST(RingUpdateDriver, MembersEvaluateBeforeTheFirstRound) {
    RingJob job("smallcnn", 3, ring_plan({0, 2}, {1}), 192);
    std::vector<EvaluatedPart> parts;
    job.on_other = [&parts](const Message& message) {
        if (message.kind == static_cast<std::uint16_t>(MessageKind::kEvaluated)) {
            parts.push_back(decode<EvaluatedPart>(message.body));
        }
    };
    job.begin({.evaluation = 5, .snapshot = {}});
    job.finish();
    job.until([&] { return parts.size() >= 2; });
    EXPECT_EQ(job.begin_parts, 2);
    EXPECT_EQ(parts.size(), 2U);
    expect_accounts(job, 192);
}

TEST(RingUpdateDriver, RidersAndMembersEqualOneProcess) {
    RingJob job("resnet20", 3, ring_plan({0, 1}, {2}), 192);
    job.begin();
    job.finish();
    EXPECT_GE(applied_of(job, 2), 1);
    expect_replayed(job, {0, 1});
    expect_accounts(job, 192);
    EXPECT_EQ(job.books.timed_samples[0] + job.books.timed_samples[1] + job.books.timed_samples[2],
              192);
}

TEST(RingUpdateDriver, ARiderLagsByTheRoundsThatDidNotWaitForIt) {
    RingJob job("smallcnn", 3, ring_plan({0, 1}, {2}), 960);
    job.job.options.inject = "rank=2,cpu=0.1";
    job.begin();
    job.finish();
    double lag = 0;
    for (const PushOutcome& outcome : job.books.outcomes) {
        lag = std::max(lag, outcome.lag);
        EXPECT_TRUE(outcome.worker == 2 || outcome.lag == 0) << "members are never late";
    }
    EXPECT_GT(lag, 1) << "more than a whole reference batch was applied meanwhile";
    EXPECT_GT(applied_of(job, 0), 2 * applied_of(job, 2)) << "nobody waits for the rider";
    expect_replayed(job, {0, 1});
    expect_accounts(job, 960);
}

TEST(RingUpdateDriver, ARingOfOneTakesGradientsOfRiders) {
    RingJob job("smallcnn", 2, ring_plan({1}, {0}), 288);
    job.begin();
    job.finish();
    EXPECT_GE(applied_of(job, 0), 1);
    expect_replayed(job, {1});
    expect_accounts(job, 288);
}

TEST(RingUpdateDriver, LookAheadIsWhatTheParentSends) {
    SyncPlan plan = ring_plan({0, 1}, {2});
    plan.look_ahead = true;
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
        RingJob job("smallcnn", 3, plan, 480);
        job.job.optimizer.kind = kind;
        job.job.options.inject = "rank=2,cpu=0.2";
        job.begin();
        job.finish();
        EXPECT_GT(std::ranges::max(job.books.outcomes, {}, &PushOutcome::lag).lag, 0);
        expect_replayed(job, {0, 1});
    }
}

/// ring <-> ring:2 <-> ring:3 in mid-run, with a rider at a fifth of the speed.
TEST(RingUpdateDriver, SwitchesInBothDirectionsLoseNothing) {
    RingJob job("smallcnn", 4, ring_plan({0, 1, 2, 3}), 96 * 1000);
    job.job.options.inject = "rank=3,cpu=0.2";
    job.begin();
    const std::vector<SyncPlan> plans{ring_plan({0, 1, 2}, {3}), ring_plan({0, 1, 2, 3}),
                                      ring_plan({0, 1}, {2, 3}), ring_plan({0, 1, 2, 3}),
                                      ring_plan({1, 2}, {0, 3}), ring_plan({0, 1, 2}, {3}),
                                      ring_plan({0, 1, 2, 3})};
    std::size_t updates = 3;
    for (const SyncPlan& plan : plans) {
        job.until_updates(updates);
        const std::size_t installs = job.books.plans.size();
        job.flow->install({plan, {}});
        job.until([&] { return job.books.plans.size() > installs; });
        EXPECT_EQ(job.books.plans.back(), plan.name);
        updates = job.books.updates.size() + 3;
    }
    job.books.session().stop();
    job.finish();
    expect_replayed(job, {0, 1, 2, 3});
    expect_accounts(job, job.books.applied());
    // Four members once; three, two and two others once each: switching back makes no ring.
    EXPECT_EQ(job.rounds.made(), 4 + 3 + 2 + 2);
}

TEST(RingUpdateDriver, OnlyTheNewestQueuedPlanCounts) {
    RingJob job("smallcnn", 4, ring_plan({0, 1}, {2, 3}), 960);
    job.begin();
    job.until_updates(2);
    job.flow->install({ring_plan({0, 1, 2, 3}), {}});
    job.flow->install({ring_plan({2, 3}, {0, 1}), {}});
    SyncPlan last = ring_plan({0, 3}, {1, 2});
    last.name = "last";
    job.flow->install({last, {}});
    job.finish();
    EXPECT_EQ(job.books.plans.back(), "last");
    EXPECT_GT(applied_of(job, 3), 0);
    expect_replayed(job, {0, 3});
    expect_accounts(job, 960);
}

/// The update after which a plan is in force that is installed after the third one.
std::size_t deterministic_switch(bool told_in_time) {
    RingJob job("smallcnn", 3, ring_plan({0, 1, 2}), 480);
    job.job.options.deterministic = true;
    job.job.options.inject = "rank=2,delay=50ms";  // orders overtake a round that is under way
    if (!told_in_time) {
        job.messenger.dropped.insert(static_cast<std::uint16_t>(RingMessageKind::kHalt));
    }
    job.begin();
    job.until_updates(3);
    const std::size_t installs = job.books.plans.size();
    SyncPlan next = ring_plan({0, 1, 2});
    next.name = "next";
    job.flow->install({next, {}});
    job.until([&] { return job.books.plans.size() > installs; });
    const std::size_t updates = job.books.updates.size();
    job.finish();
    expect_accounts(job, 480);
    return updates;
}

TEST(RingUpdateDriver, WhenADeterministicJobSwitchesIsNoMatterOfTime) {
    EXPECT_EQ(deterministic_switch(false), 3 + kGrantedRounds);
    EXPECT_EQ(deterministic_switch(true), 3 + kGrantedRounds);
}

/// A rider's gradient is on its way to the only member while another worker takes over; who was the
/// member says that it has it just before the rider answers that it has a new parent.
TEST(RingUpdateDriver, AGradientThatReachesAMemberThatHasLeftIsVoid) {
    RingJob job("smallcnn", 3, ring_plan({0}, {1, 2}), 16 * 100'000);
    constexpr auto kPushReceived = static_cast<std::uint16_t>(MessageKind::kPushReceived);
    constexpr auto kTaken = static_cast<std::uint16_t>(RingMessageKind::kRoleTaken);
    job.begin();
    job.until([&job] { return applied_of(job, 2) > 0; });
    job.holds = [](const Message& message) {
        return message.kind == kPushReceived ? decode<PushReceived>(message.body).push.worker == 2
                                             : message.kind == kTaken && message.from.rank == 2;
    };
    job.until([&job] { return !job.held.empty(); });
    job.flow->install({ring_plan({1}, {0, 2}), {}});
    job.until([&job] { return job.held.size() == 2; });
    ASSERT_EQ(job.books.plans.size(), 1U);
    job.release({kPushReceived, kTaken});
    const int applied = applied_of(job, 2);
    job.until([&] { return applied_of(job, 2) > applied; });
    job.books.session().stop();
    job.finish();
    EXPECT_TRUE(std::any_of(job.books.outcomes.begin(), job.books.outcomes.end(),
                            [](const PushOutcome& one) {
                                return one.worker == 2 && one.returned == ReturnReason::kLost;
                            }));
    expect_replayed(job, {1});
    expect_accounts(job, job.books.applied());
}

TEST(RingUpdateDriver, BatchesOfUnequalSizeFollowThePlan) {
    RingJob job("smallcnn", 2, ring_plan({0, 1}), 960);
    job.begin();
    job.until_updates(3);
    job.flow->install({ring_plan({0, 1}), {24, 8}});
    job.until([&] { return !job.books.plans.empty(); });
    job.finish();
    const auto counts = [&job](const test::AppliedUpdate& update) {
        std::vector<std::int64_t> all;
        for (const std::uint64_t lease : update.leases) {
            all.push_back(job.messenger.leases.at(lease).count);
        }
        return all;
    };
    const auto updates_of = [&](const std::vector<std::int64_t>& sizes) {
        return std::count_if(
            job.books.updates.begin(), job.books.updates.end(),
            [&](const test::AppliedUpdate& update) { return counts(update) == sizes; });
    };
    EXPECT_GE(updates_of({16, 16}), 3);
    EXPECT_GE(updates_of({24, 8}), 3);
    expect_replayed(job, {0, 1});
    expect_accounts(job, 960);
}

SyncPlan delta_plan(const std::vector<int>& members, int steps, int group) {
    SyncPlan plan = ring_plan(members);
    plan.name = "delta";
    plan.work = Work::kDelta;
    plan.local_steps = steps;
    plan.group = group;
    return plan;
}

/// All members hold the same after deltas, in groups too, and every sample counts once.
TEST(RingUpdateDriver, MembersAgreeOnDeltas) {
    for (const int group : {1, 2}) {
        RingJob job("smallcnn", 3, delta_plan({0, 1, 2}, 3, group), 960);
        job.begin();
        job.finish();
        expect_accounts(job, 960);
        const std::vector<float> first = job.gather(0);
        EXPECT_EQ(job.gather(1), first) << "groups of " << group;
        EXPECT_EQ(job.gather(2), first);
        EXPECT_GT(job.books.updates.front().fraction, 1.5) << "a lease is several batches long";
    }
}

/// One local step without momentum is a plain step: the mean of deltas is what one update does.
TEST(RingUpdateDriver, OneLocalStepWithoutMomentumIsAnUpdate) {
    const auto result = [](const SyncPlan& plan) {
        RingJob job("smallcnn", 2, plan, 96);
        job.job.optimizer.momentum = 0;
        job.begin();
        job.finish();
        return job.gather(0);
    };
    const std::vector<float> plain = result(ring_plan({0, 1}));
    const std::vector<float> deltas = result(delta_plan({0, 1}, 1, 1));
    ASSERT_EQ(plain.size(), deltas.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_NEAR(plain[i], deltas[i], 2e-6 * std::max(1.0F, std::abs(plain[i]))) << i;
    }
}

/// To deltas and back, with a rider whose gradient is on its way, and one that comes back
/// meanwhile.
TEST(RingUpdateDriver, GradientsAndDeltasFollowOneAnother) {
    RingJob job("smallcnn", 3, ring_plan({0, 1}, {2}), 96 * 1000);
    job.job.options.inject = "rank=2,cpu=0.2";
    job.begin();
    for (const SyncPlan& plan : {delta_plan({0, 1, 2}, 2, 2), ring_plan({0, 1}, {2}),
                                 delta_plan({0, 1, 2}, 4, 1), ring_plan({0, 1, 2})}) {
        const std::size_t installs = job.books.plans.size();
        job.flow->install({plan, {}});
        job.until([&] { return job.books.plans.size() > installs; });
        job.until_updates(job.books.updates.size() + 4);
        if (plan.local_steps == 4) {  // a gradient among deltas is an update of its own
            job.lose(2);
            job.until_updates(job.books.updates.size() + 2);
            job.come_back(2);
            job.until([&] {
                return std::any_of(job.books.updates.begin(), job.books.updates.end(),
                                   [&job](const test::AppliedUpdate& update) {
                                       const auto report = job.reports.find(update.leases.front());
                                       return update.leases.size() == 1 &&
                                              report != job.reports.end() &&
                                              report->second.ticket.id.incarnation == 1;
                                   });
            });
        }
    }
    job.books.session().stop();
    job.finish();
    expect_accounts(job, job.books.applied());
    const std::vector<float> first = job.gather(0);
    EXPECT_EQ(job.gather(1), first);
    EXPECT_EQ(job.gather(2), first);
}

TEST(RingUpdateDriver, WaitingForInputIsAMembersOwnTime) {
    constexpr double kInput = 1000;
    RingJob job("smallcnn", 2, ring_plan({0, 1}), 96);
    job.rounds.on_summary = [](std::uint64_t /*round*/, int rank, RoundSummary& summary) {
        summary.input_s = rank == 1 ? kInput : 0;
    };
    job.begin();
    job.finish();
    for (const IterationRecord& record : job.books.records) {
        const double own_s = record.input_s + record.compute_s;
        EXPECT_EQ(own_s > kInput, record.worker == 1) << own_s;
    }
}

/// As with servers: now and then, and halves of riders' mini-batches where updates mix versions.
TEST(RingUpdateDriver, MeasuresGradientsOnlyWhereSomebodyWantsThem) {
    for (const bool wants : {false, true}) {
        RingJob job("smallcnn", 2, ring_plan({0, 1}), 32 * 120, wants);
        job.begin();
        job.finish();
        EXPECT_EQ(job.books.gradients.empty(), !wants);
        const auto asked = std::count_if(job.messenger.rounds.begin(), job.messenger.rounds.end(),
                                         [](const auto& round) { return round.second.ask_norm; });
        constexpr int kOften = GradientStatistics::kFew * GradientStatistics::kOften;
        constexpr int kThen = (120 - kOften) / GradientStatistics::kEvery;
        EXPECT_EQ(asked, wants ? GradientStatistics::kFew + kThen : 0);
        if (wants) {
            EXPECT_GT(job.books.gradients.back().noise_scale, 0);
        }
        expect_replayed(job, {0, 1});
        expect_accounts(job, 32 * 120);
    }
}

TEST(RingUpdateDriver, RidersHalveTheirMiniBatchesWhereNoUpdateIsOfOneVersion) {
    RingJob job("smallcnn", 2, ring_plan({0}, {1}), 16 * 100'000, true);
    job.begin();
    // However many updates the member makes meanwhile without the rider.
    job.until([&job] {
        const auto halved = std::count_if(job.reports.begin(), job.reports.end(),
                                          [](const auto& report) { return report.second.halves; });
        return halved >= 5 && !job.books.gradients.empty() &&
               job.books.gradients.back().noise_scale > 0;
    });
    job.books.session().stop();
    job.finish();
    expect_accounts(job, job.books.applied());
}

/// Half a reference batch is worth more than half an update, once the noise scale is known.
TEST(RingUpdateDriver, AdaScaleUsesTheNoiseScaleThatIsMeasured) {
    SyncPlan plan = ring_plan({0, 1});
    plan.lr_unit = SyncPlan::LrUnit::kAdaScale;
    RingJob job("smallcnn", 2, plan, 32 * 60);
    job.begin();
    job.until_updates(20);
    job.flow->install({plan, {8, 8}});
    job.until([&] { return !job.books.plans.empty(); });
    job.finish();
    const test::AppliedUpdate& last = job.books.updates[job.books.updates.size() - 2];
    ASSERT_EQ(last.samples, 16);
    EXPECT_GT(last.fraction, 0.5);
    EXPECT_LT(last.fraction, 1);
    expect_replayed(job, {0, 1});
}

/// Rounds that come to nothing are asked about anew.
TEST(RingUpdateDriver, VoidAndLostRoundsAreNotMeasured) {
    RingJob job("smallcnn", 3, ring_plan({0, 1, 2}), 48 * 200, true);
    job.rounds.on_summary = [](std::uint64_t round, int rank, RoundSummary& summary) {
        summary.finite = summary.finite && !(round % 5 == 3 && rank == 1);
    };
    job.begin();
    job.until_updates(60);
    job.lose(2);
    job.finish();
    EXPECT_FALSE(job.books.dropped.empty());
    EXPECT_GT(job.books.gradients.back().noise_scale, 0);
    std::size_t asked = 0;
    std::size_t in_vain = 0;
    for (const auto& [number, round] : job.messenger.rounds) {
        asked += round.ask_norm ? 1 : 0;
        in_vain += round.ask_norm && round.round % 5 == 3 ? 1 : 0;
    }
    EXPECT_GT(in_vain, 0U);
    EXPECT_LE(job.books.gradients.size(), asked - in_vain);
    expect_accounts(job, 48 * 200);
}

TEST(RingUpdateDriver, AVoidRoundKeepsRidersGradientsForTheNext) {
    RingJob job("smallcnn", 3, ring_plan({0, 1}, {2}), 480);
    job.rounds.on_summary = [](std::uint64_t round, int rank, RoundSummary& summary) {
        summary.finite = summary.finite && !(round % 4 == 3 && rank == 1);
    };
    job.begin();
    job.finish();
    EXPECT_FALSE(job.books.dropped.empty());
    for (const PushOutcome& outcome : job.books.outcomes) {
        EXPECT_TRUE(outcome.worker != 2 || !outcome.returned);
    }
    expect_replayed(job, {0, 1});
    expect_accounts(job, 480);
}

/// Numbers that are not finite end the local steps early, also those of the others in the group:
/// the round is dropped, its leases are dealt again, and only those whose own numbers they are
/// returned for it.
TEST(RingUpdateDriver, ALossOfALocalStepThatIsNotFiniteDropsTheRound) {
    for (const int group : {1, 2}) {
        SyncPlan plan = ring_plan({0, 1, 2, 3});
        plan.work = Work::kDelta;
        plan.local_steps = 2;
        plan.group = group;
        RingJob job("smallcnn", 4, plan, 960);
        std::atomic<bool> bad{true};
        job.rounds.on_summary = [&bad](std::uint64_t /*round*/, int rank, RoundSummary& summary) {
            if (rank == 2 && bad) {
                summary.finite = false;  // of each step, where there are groups; else of the round
            }
        };
        job.begin();
        job.until([&job] { return job.books.dropped.size() >= 3; });
        bad = false;
        for (const NonFiniteBatch& dropped : job.books.dropped) {
            EXPECT_EQ(dropped.result.samples, 4 * 2 * 16);
            EXPECT_TRUE(dropped.others_finite);
            EXPECT_EQ(dropped.because.find("worker 2"), 0U) << dropped.because;
            EXPECT_EQ(dropped.leases.size(), 1U) << "of one of the four";
        }
        job.finish();
        expect_accounts(job, 960);
    }
}

}  // namespace
}  // namespace cohort
