// Policies: what they change and when, and that they leave a healthy cluster alone.
#include "cohort/sched/policy.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "sched/modes/batch_balance.hpp"
#include "sched/modes/policy_base.hpp"
#include "support/sched/scalar_training.hpp"

namespace cohort {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

constexpr std::int64_t kBatch = 64;

/// A policy and the workers it is told about: each round of `rounds` every live worker pushes once
/// and takes its own time, within `noise` of it.
class PolicyRun {
public:
    PolicyRun(std::string_view mode, std::vector<double> seconds,
              Architecture architecture = Architecture::kServers)
        : seconds_(std::move(seconds)),
          clocks_(seconds_.size()),
          policy_(make_policy(mode, {.architecture = architecture,
                                     .live = std::vector<bool>(seconds_.size(), true),
                                     .batch = kBatch,
                                     .own_seconds = {}})) {
        telemetry_.budget_samples = 100'000;
        telemetry_.workers.resize(seconds_.size());
        take(policy_->start());
    }

    /// Returns how often the policy changed something.
    int rounds(int count, double noise = 0) {
        int changes = 0;
        for (int round = 0; round < count; ++round) {
            for (std::size_t i = 0; i < seconds_.size(); ++i) {
                if (telemetry_.workers[i].live && (!skipped_ || *skipped_ != i)) {
                    push(i, noise);
                    changes += ask() ? 1 : 0;
                }
            }
        }
        return changes;
    }
    bool ask() {
        ++telemetry_.updates;
        const Decision decision = policy_->decide(telemetry_);
        EXPECT_EQ(decision.plan || !decision.batches.empty(), !decision.reason.empty());
        return take(decision);
    }
    void budget(std::int64_t samples) { telemetry_.budget_samples = samples; }
    void set(std::size_t worker, double seconds) { seconds_[worker] = seconds; }
    void skip(std::optional<std::size_t> worker) { skipped_ = worker; }
    void noise_scale(double samples) {
        load_.gradients.noise_scale = samples;
        telemetry_.load = &load_;
    }
    void live(std::size_t worker, bool yes) { telemetry_.workers[worker].live = yes; }

    SyncPlan plan;
    std::vector<std::int64_t> batches;
    std::string reason;

private:
    void push(std::size_t i, double noise) {
        dice_ = dice_ * 6364136223846793005ULL + 1442695040888963407ULL;
        const double uniform = static_cast<double>(dice_ >> 40) / (1 << 24);
        clocks_[i].add(seconds_[i] * (1 + noise * (2 * uniform - 1)));
        telemetry_.workers[i].own_s = clocks_[i].seconds();
        telemetry_.workers[i].last_own_s = clocks_[i].last();
        ++telemetry_.workers[i].pushes;
        telemetry_.samples_applied += kBatch;
    }
    bool take(const Decision& decision) {
        if (decision.plan) {
            std::vector<bool> live;
            for (const WorkerReport& worker : telemetry_.workers) {
                live.push_back(worker.live);
            }
            EXPECT_NO_THROW(check_plan(*decision.plan, static_cast<int>(seconds_.size()), live));
            plan = *decision.plan;
        }
        if (!decision.batches.empty()) {
            EXPECT_THAT(decision.batches, SizeIs(seconds_.size()));
            batches = decision.batches;
        }
        if (!decision.reason.empty()) {
            reason = decision.reason;
        }
        return decision.plan || !decision.batches.empty();
    }

    std::vector<double> seconds_;
    std::vector<OwnTime> clocks_;
    std::unique_ptr<ModePolicy> policy_;
    LoadView load_;
    Telemetry telemetry_;
    std::optional<std::size_t> skipped_;
    std::uint64_t dice_ = 7;
};

std::vector<std::vector<int>> members(const SyncPlan& plan) {
    std::vector<std::vector<int>> groups;
    for (const CohortSpec& cohort : plan.cohorts) {
        groups.push_back(cohort.members);
    }
    return groups;
}

TEST(PlainMode, ChangesOnlyWithItsWorkers) {
    PolicyRun run("static:3", {1, 1, 1, 9});
    EXPECT_EQ(run.plan.name, "static:3");
    EXPECT_EQ(run.rounds(20, 0.3), 0);
    run.live(1, false);
    run.live(3, false);
    EXPECT_TRUE(run.ask());
    EXPECT_EQ(run.reason, "2 workers live, 4 before");
    EXPECT_THAT(run.plan.cohorts.at(0).members, ElementsAre(0, 2));
    EXPECT_EQ(run.plan.cohorts[0].quorum, 2);
    EXPECT_FALSE(run.ask());
    run.live(3, true);
    EXPECT_TRUE(run.ask());
    EXPECT_EQ(run.plan.cohorts[0].quorum, 3);
}

TEST(PlainMode, StartsWithTheBatchesOfTheRunWhateverAnotherPolicyLeft) {
    for (const char* mode : {"asgd", "dynamic", "cutoff", "lb-bsp", "sync-switch:1"}) {
        EXPECT_THAT(PolicyRun(mode, {1, 1, 1}).batches, ElementsAre(kBatch, kBatch, kBatch));
    }
}

TEST(PlainMode, WithNobodyLeftThereIsNothingToDecide) {
    PolicyRun run("asgd", {1, 1});
    run.live(0, false);
    run.live(1, false);
    EXPECT_FALSE(run.ask());
    run.live(1, true);
    EXPECT_TRUE(run.ask());
    EXPECT_EQ(members(run.plan), (std::vector<std::vector<int>>{{1}}));
}

TEST(HealthyClusters, AreLeftAlone) {
    for (const char* mode : {"dynamic", "cutoff", "lb-bsp", "sync-switch:1", "flexrr"}) {
        PolicyRun run(mode, std::vector<double>(8, 0.1));
        run.budget(1'000'000);
        EXPECT_EQ(run.rounds(400, 0.15), 0) << mode << ": " << run.reason;
    }
    PolicyRun ring("ring:6", std::vector<double>(8, 0.1), Architecture::kRing);
    EXPECT_EQ(ring.rounds(400, 0.15), 0);
}

TEST(Dynamic, GivesAStragglerAGroupOfItsOwnAndTakesItBack) {
    PolicyRun run("dynamic", {1, 1, 1, 1, 1, 1, 1, 1});
    EXPECT_TRUE(is_synchronous(run.plan));
    run.rounds(10, 0.1);
    run.set(5, 4);
    EXPECT_EQ(run.rounds(20, 0.1), 1);
    EXPECT_EQ(members(run.plan), (std::vector<std::vector<int>>{{0, 1, 2, 3, 4, 6, 7}, {5}}));
    EXPECT_EQ(run.reason, "grouped by own time: [0 1 2 3 4 6 7] [5]");
    EXPECT_EQ(run.rounds(100, 0.1), 0);
    run.set(5, 1);
    EXPECT_EQ(run.rounds(20, 0.1), 1);
    EXPECT_TRUE(is_synchronous(run.plan));
}

TEST(Dynamic, TimesThatHoverAtTheThresholdDoNotFlap) {
    PolicyRun run("dynamic", {1, 1, 1, 1, 1.3, 1.3, 1.3, 1.3});
    EXPECT_LE(run.rounds(400, 0.15), 1);
}

TEST(Dynamic, FollowsAStragglerThatMoves) {
    PolicyRun run("dynamic", {1, 1, 1, 4});
    run.rounds(10);
    EXPECT_EQ(members(run.plan), (std::vector<std::vector<int>>{{0, 1, 2}, {3}}));
    run.set(3, 1);
    run.set(0, 4);
    run.rounds(20);
    EXPECT_EQ(members(run.plan), (std::vector<std::vector<int>>{{1, 2, 3}, {0}}));
    run.live(0, false);
    EXPECT_TRUE(run.ask());
    EXPECT_EQ(members(run.plan), (std::vector<std::vector<int>>{{1, 2, 3}}));
}

TEST(Ring, ThePlacesGoToTheFastest) {
    PolicyRun run("ring:3", {1, 1, 1, 1}, Architecture::kRing);
    EXPECT_THAT(run.plan.cohorts.at(0).riders, ElementsAre(3));
    run.set(1, 1.15);
    EXPECT_EQ(run.rounds(50), 0) << "not slow enough";
    run.set(1, 2);
    EXPECT_EQ(run.rounds(50), 1);
    EXPECT_THAT(run.plan.cohorts[0].members, ElementsAre(0, 2, 3));
    EXPECT_EQ(run.reason, "the fastest form the ring: 0 2 3");
    run.set(1, 1);
    EXPECT_EQ(run.rounds(50), 0) << "as fast as the members is no reason to change";
    run.live(0, false);
    EXPECT_TRUE(run.ask());
    EXPECT_THAT(run.plan.cohorts[0].members, ElementsAre(1, 2, 3));
}

TEST(Cutoff, LeavesOutWhoCostsMoreThanItAdds) {
    PolicyRun run("cutoff", {1, 1, 1, 1});
    EXPECT_EQ(run.plan.name, "ksync:4");
    run.set(2, 3);
    run.rounds(6);
    EXPECT_EQ(run.plan.name, "ksync:3");
    EXPECT_EQ(run.reason, "most work per second with 3 of 4");
}

TEST(Cutoff, WaitsForAllOnceInAWhileAndSeesThatSomebodyRecovered) {
    PolicyRun run("cutoff", {1, 1, 1, 3});
    run.rounds(4);
    ASSERT_EQ(run.plan.name, "ksync:3");
    run.skip(3);  // interrupted every time: never measured
    EXPECT_EQ(run.rounds(10), 0);
    int waited = 0;
    for (int round = 0; round < 80; ++round) {
        run.skip(run.plan.name == "ksync:4" ? std::nullopt : std::optional<std::size_t>(3));
        waited += run.rounds(1) > 0 ? 1 : 0;
    }
    EXPECT_THAT(waited, testing::AllOf(Ge(2), Le(10)));
    run.set(3, 1);
    for (int round = 0; round < 60; ++round) {
        run.skip(run.plan.name == "ksync:4" ? std::nullopt : std::optional<std::size_t>(3));
        run.rounds(1);
    }
    EXPECT_EQ(run.plan.name, "ksync:4");
    run.skip(std::nullopt);
    EXPECT_EQ(run.rounds(100), 0);
}

TEST(LbBsp, BatchesFollowSpeedAndTheirSumStays) {
    PolicyRun run("lb-bsp", {1, 1, 1, 1});
    EXPECT_EQ(run.plan.name, "ssgd");
    run.set(3, 4);
    EXPECT_EQ(run.rounds(10), 1);
    EXPECT_THAT(run.batches, ElementsAre(80, 80, 80, 16));
    EXPECT_EQ(std::accumulate(run.batches.begin(), run.batches.end(), 0), 4 * kBatch);
    EXPECT_EQ(run.rounds(200, 0.02), 0);
    run.set(3, 1);
    EXPECT_EQ(run.rounds(10), 1);
    EXPECT_THAT(run.batches, Each(kBatch));
}

/// 4 x 64 samples by 3.25 workers: 78.8 each and 19.7 for the slow one. In pieces of two nobody
/// takes longer than 80; in pieces of eight it is done with 16, and one of the others with 80 too.
TEST(LbBsp, CanHaveFinerPieces) {
    PolicyRun run("lb-bsp:32", {1, 1, 1, 1});
    EXPECT_EQ(run.plan.name, "ssgd");
    run.set(3, 4);
    EXPECT_EQ(run.rounds(10), 1);
    EXPECT_EQ(std::accumulate(run.batches.begin(), run.batches.end(), 0), 4 * kBatch);
    EXPECT_THAT(run.batches, ElementsAre(80, 80, 78, 18));
    EXPECT_EQ(PolicyRun("lb-bsp:8", {1, 1}).plan.name, "ssgd");
}

TEST(LbBsp, WhoIsLeftSharesByItsTimes) {
    PolicyRun run("lb-bsp", {1, 1, 1, 3});
    run.rounds(10);
    run.live(0, false);
    EXPECT_TRUE(run.ask());
    EXPECT_THAT(run.plan.cohorts.at(0).members, ElementsAre(1, 2, 3));
    EXPECT_EQ(run.batches.at(1) + run.batches.at(2) + run.batches.at(3), 3 * kBatch);
    EXPECT_LT(run.batches.at(3), run.batches.at(1));
    EXPECT_EQ(run.batches.at(0), kBatch);
}

TEST(Batches, AreWholePiecesAndTheRestIsTheFastest) {
    EXPECT_THAT(proportional_batches({1, 1, 1}, 64), Each(64));
    EXPECT_THAT(proportional_batches({1, 3}, 64), ElementsAre(96, 32));
    EXPECT_THAT(proportional_batches({1, 100}, 64), ElementsAre(120, 8)) << "at least a piece";
    EXPECT_THAT(proportional_batches({1, 100, 100}, 64), ElementsAre(128, 32, 32)) << "at most two";
    EXPECT_THAT(proportional_batches({2, 1}, 4), ElementsAre(3, 5)) << "pieces of one";
    EXPECT_THAT(proportional_batches({5}, 100), ElementsAre(100));
    const std::vector<std::int64_t> uneven = proportional_batches({1, 2, 4}, 100);
    EXPECT_EQ(std::accumulate(uneven.begin(), uneven.end(), 0), 300);
    EXPECT_THAT(uneven, Each(Ge(12)));
}

TEST(Flexrr, AWorkerMoreThanAFifthBehindIsHelped) {
    PolicyRun run("flexrr:2", {1, 1, 1, 1.15});
    EXPECT_EQ(run.plan.clock_bound, 2);
    EXPECT_EQ(run.rounds(50), 0) << "15 % behind";
    run.set(3, 2);
    EXPECT_GE(run.rounds(40), 1);
    EXPECT_THAT(run.batches, ElementsAre(72, 72, 72, 40));
    EXPECT_EQ(run.rounds(100, 0.02), 0);
    run.set(3, 1);
    EXPECT_EQ(run.rounds(20), 1);
    EXPECT_THAT(run.batches, Each(kBatch));
}

/// R - 1 updates of b samples may come in between, R = phi/b rounded up; at least a reference
/// batch.
TEST(SapsAuto, TheBoundIsThatOfRingmasterInReferenceBatches) {
    EXPECT_DOUBLE_EQ(lag_bound_of(64 * 25, 64, 512), 3);        // R = 25
    EXPECT_DOUBLE_EQ(lag_bound_of(64 * 24.5, 64, 512), 3);      // the same
    EXPECT_DOUBLE_EQ(lag_bound_of(64 * 25.5, 64, 512), 3.125);  // R = 26
    EXPECT_DOUBLE_EQ(lag_bound_of(500, 64, 512), 1) << "R = 8 workers";
    EXPECT_DOUBLE_EQ(lag_bound_of(0, 64, 512), 1);
}

TEST(SapsAuto, TheBoundFollowsTheNoiseScale) {
    PolicyRun run("saps:auto", std::vector<double>(8, 1.0));
    EXPECT_EQ(run.plan.name, "saps:auto");
    EXPECT_EQ(run.plan.lag_rule->bound, 2);
    EXPECT_EQ(run.rounds(20), 0) << "nothing is known yet";
    run.noise_scale(64 * 33);
    EXPECT_EQ(run.rounds(20), 1);
    EXPECT_EQ(run.plan.lag_rule->bound, 4);
    EXPECT_EQ(run.plan.lag_rule->action, SyncPlan::LagAction::kRefresh);
    EXPECT_THAT(run.reason, HasSubstr("noise scale 2112 samples: lag bound 4.00"));
    run.noise_scale(64 * 37);
    EXPECT_EQ(run.rounds(20), 0) << "an eighth more";
    run.noise_scale(10);
    EXPECT_EQ(run.rounds(20), 1);
    EXPECT_EQ(run.plan.lag_rule->bound, 1);
    run.live(2, false);
    EXPECT_TRUE(run.ask());
    EXPECT_EQ(run.plan.lag_rule->bound, 1) << "who is left keeps it";
}

TEST(SapsAuto, AsksForGradientsAndANumberDoesNot) {
    const ModeSetting setting{.live = {true, true}, .batch = kBatch, .own_seconds = {}};
    EXPECT_TRUE(make_policy("saps:auto", setting)->wants_gradients());
    EXPECT_FALSE(make_policy("saps:2", setting)->wants_gradients());
    EXPECT_EQ(make_policy("saps:auto:drop", setting)->start().plan->lag_rule->action,
              SyncPlan::LagAction::kDrop);
}

TEST(AdaptivePolicy, AsksForGradientsWhereTheirNoiseSetsTheSizeOfUpdates) {
    ModeSetting setting{.live = {true, true}, .batch = kBatch, .own_seconds = {}};
    for (const auto rule : {SyncPlan::LrUnit::kPerSample, SyncPlan::LrUnit::kAdaScale}) {
        setting.lr_rule = rule;
        const auto policy = make_policy("adaptive", setting);
        (void)policy->start();
        EXPECT_EQ(policy->wants_gradients(), rule == SyncPlan::LrUnit::kAdaScale);
        const auto learned = make_policy("star-ml", setting);
        (void)learned->start();
        EXPECT_TRUE(learned->wants_gradients()) << "its regressor looks at the noise scale";
    }
}

TEST(SyncSwitch, IsSsgdForItsShareThenAsgd) {
    PolicyRun run("sync-switch:0.25", {1, 1});
    EXPECT_EQ(run.plan.name, "ssgd");
    EXPECT_EQ(run.rounds(195), 0);  // 24,960 of 25,000 samples
    EXPECT_EQ(run.rounds(1), 1);
    EXPECT_EQ(run.plan.name, "asgd");
    EXPECT_EQ(run.reason, "the synchronous share is done");
    run.set(0, 5);
    EXPECT_EQ(run.rounds(100), 0);
}

/// 10,000 of 100,000 samples are its share: what another mode applied before is not part of it.
TEST(SyncSwitch, CountsItsOwnSamples) {
    ModeSetting setting{.live = {true, true}, .batch = 64, .own_seconds = {}};
    setting.samples_before = 50'000;
    const auto policy = make_policy("sync-switch:0.1", setting);
    (void)policy->start();
    Telemetry telemetry{.samples_applied = 59'999, .budget_samples = 100'000, .workers = {}};
    telemetry.workers.resize(2);
    EXPECT_FALSE(policy->decide(telemetry).plan);
    telemetry.samples_applied = 60'000;
    EXPECT_TRUE(policy->decide(telemetry).plan);
}

TEST(SyncSwitch, AStragglerMakesItAsgdWhileItLasts) {
    PolicyRun run("sync-switch:0.5", {1, 1, 1, 1});
    run.rounds(10);
    run.set(1, 3);
    EXPECT_EQ(run.rounds(10), 1);
    EXPECT_EQ(run.plan.name, "asgd");
    EXPECT_EQ(run.reason, "a worker straggles");
    EXPECT_EQ(run.rounds(150), 0);  // these samples are not part of the share
    run.set(1, 1);
    EXPECT_EQ(run.rounds(10), 1);
    EXPECT_EQ(run.plan.name, "ssgd");
    EXPECT_EQ(run.rounds(150), 0);
    EXPECT_EQ(run.rounds(100), 1);
    EXPECT_EQ(run.plan.name, "asgd");
}

TEST(SyncSwitch, AWorkerAFifthSlowerIsAStraggler) {
    PolicyRun run("sync-switch:0.5", {1, 1, 1, 1, 1, 1, 1, 1.18});
    EXPECT_EQ(run.rounds(20), 0);
    run.set(7, 1.34);
    EXPECT_EQ(run.rounds(20), 1);
    EXPECT_EQ(run.plan.name, "asgd");
}

/// ssgd with the learning rate that is meant for all samples, asgd with a worker's part of it.
TEST(SyncSwitch, UnderThePublishedRuleAPushMovesByItsPartOfTheLearningRate) {
    const auto theta = [](SyncPlan::LrUnit rule) {
        test::ScalarTraining run("sync-switch:0", 4, {.eta = 1, .momentum = 0, .lr_rule = rule});
        run.pushes({1});  // g = -2
        return run.theta();
    };
    EXPECT_EQ(theta(SyncPlan::LrUnit::kPublished), 0.5);
    EXPECT_EQ(theta(SyncPlan::LrUnit::kPerSample), 0.5);
    const SyncPlan asgd =
        test::ScalarTraining::plan("sync-switch:0", 4, {.lr_rule = SyncPlan::LrUnit::kPublished});
    EXPECT_EQ(asgd.published_unit, test::ScalarTraining::kBatch)
        << "momentum counts pushes, as published";
}

TEST(SyncSwitch, OfNoShareIsAsgd) {
    PolicyRun run("sync-switch:0", {1, 1});
    EXPECT_EQ(run.plan.name, "asgd");
    EXPECT_EQ(run.rounds(20), 0);
}

TEST(OwnTime, IsAMeanThatStartsAnewAfterAJump) {
    OwnTime time;
    EXPECT_EQ(time.seconds(), 0);
    time.add(1);
    EXPECT_EQ(time.seconds(), 1);
    time.add(1.4);
    EXPECT_DOUBLE_EQ(time.seconds(), 1.08);
    EXPECT_EQ(time.last(), 1.4);
    time.add(5);
    time.add(5);
    EXPECT_LT(time.seconds(), 2.7);
    time.add(5);
    EXPECT_EQ(time.seconds(), 5) << "three times in a row";
    time.add(1);
    time.add(5);  // not in a row
    time.add(1);
    time.add(1);
    EXPECT_GT(time.seconds(), 2);
    time.add(1);
    EXPECT_EQ(time.seconds(), 1);
}

}  // namespace
}  // namespace cohort
