// STAR's rules as modes: what they change and when, and that they do not flap.
#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "cohort/sched/policy.hpp"
#include "support/sched/random_plans.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kBatch = 128;

/// A policy and workers of which each pushes once a round.
class StarRun {
public:
    explicit StarRun(std::string_view mode, int workers = 8,
                     Architecture architecture = Architecture::kServers)
        : policy_(
              make_policy(mode, {.architecture = architecture,
                                 .live = std::vector<bool>(static_cast<std::size_t>(workers), true),
                                 .batch = kBatch,
                                 .own_seconds = {}})),
          clocks_(static_cast<std::size_t>(workers)) {
        telemetry_.workers.resize(clocks_.size());
        telemetry_.budget_samples = 1'000'000;
        plan_ = *policy_->start().plan;
    }

    /// @param own_s  of (round, worker)
    /// @return how often the plan changed
    int rounds(int count, const std::function<double(int, std::size_t)>& own_s) {
        int changes = 0;
        for (int i = 0; i < count; ++i, ++round_) {
            for (std::size_t worker = 0; worker < clocks_.size(); ++worker) {
                if (telemetry_.workers[worker].live) {
                    clocks_[worker].add(own_s(round_, worker));
                    telemetry_.workers[worker].own_s = clocks_[worker].seconds();
                    ++telemetry_.workers[worker].pushes;
                    changes += ask() ? 1 : 0;
                }
            }
        }
        return changes;
    }
    /// Rounds until the plan changes; -1: not within 100.
    int until_change(const std::function<double(int, std::size_t)>& own_s) {
        for (int i = 1; i <= 100; ++i) {
            if (rounds(1, own_s) > 0) {
                return i;
            }
        }
        return -1;
    }
    bool ask() {
        ++telemetry_.updates;
        Decision decision = policy_->decide(telemetry_);
        EXPECT_TRUE(decision.batches.empty());
        EXPECT_EQ(decision.plan.has_value(), decision.record.has_value());
        if (decision.plan) {
            check_plan(*decision.plan, static_cast<int>(clocks_.size()), live());
            plan_ = *decision.plan;
            record_ = *decision.record;
            EXPECT_EQ(record_.reason, decision.reason);
        }
        return decision.plan.has_value();
    }
    void lose(std::size_t worker) {
        telemetry_.workers[worker].live = false;
        EXPECT_TRUE(ask());
    }
    void look_at(const LoadView* load) { telemetry_.load = load; }
    [[nodiscard]] const SyncPlan& plan() const { return plan_; }
    [[nodiscard]] const DecisionRecord& record() const { return record_; }

private:
    [[nodiscard]] std::vector<bool> live() const {
        std::vector<bool> live;
        for (const WorkerReport& worker : telemetry_.workers) {
            live.push_back(worker.live);
        }
        return live;
    }

    std::unique_ptr<ModePolicy> policy_;
    std::vector<OwnTime> clocks_;
    Telemetry telemetry_;
    SyncPlan plan_;
    DecisionRecord record_;
    int round_ = 0;
};

double healthy(int /*round*/, std::size_t /*worker*/) {
    return 0.1;
}
double one_slow(int /*round*/, std::size_t worker) {
    return worker == 7 ? 0.2 : 0.1;
}
double two_groups(int /*round*/, std::size_t worker) {
    return worker < 5 ? 0.1 : 0.35;
}

class StarModes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Names, StarModes, testing::Values("star-h", "star-h-exact"));

TEST_P(StarModes, LeaveANoisyHealthyClusterAlone) {
    test::Dice dice(3);
    StarRun run(GetParam());
    EXPECT_EQ(run.rounds(3000, [&](int, std::size_t) { return 0.095 + 1e-4 * dice.below(100); }),
              0);
    EXPECT_EQ(run.plan().name, "ssgd");
}

TEST_P(StarModes, AnswerAPersistentStragglerWithinFiveIterations) {
    StarRun run(GetParam());
    EXPECT_EQ(run.rounds(20, healthy), 0);
    const int answer = run.until_change(one_slow);
    EXPECT_GE(answer, 2);
    EXPECT_LE(answer, 5);
    EXPECT_NE(run.plan().name, "ssgd");
    EXPECT_THAT(run.record().stragglers, ElementsAre(7));
    EXPECT_THAT(run.record().reason, HasSubstr("worker 7 is predicted to take"));
    EXPECT_LE(run.rounds(500, one_slow), 1) << "its predicted time may still rise";
    EXPECT_GE(run.rounds(30, healthy), 1);
    EXPECT_EQ(run.plan().name, "ssgd");
    EXPECT_EQ(run.rounds(500, healthy), 0);
}

TEST_P(StarModes, FlickeringIsNotFollowed) {
    for (const int period : {2, 4, 6, 8, 12, 16}) {
        StarRun run(GetParam());
        const auto flicker = [period](int round, std::size_t worker) {
            return worker == 7 && round % period < period / 2 ? 0.3 : 0.1;
        };
        const int first = run.rounds(1000, flicker);
        const int second = run.rounds(1000, flicker);
        EXPECT_LE(first, 5) << period;
        EXPECT_LE(second, 2) << period;
    }
}

TEST_P(StarModes, WhoIsLeftGetsAPlan) {
    StarRun run(GetParam());
    run.rounds(40, one_slow);
    run.lose(7);
    EXPECT_EQ(run.plan().name, "ssgd");
    EXPECT_THAT(run.record().reason, HasSubstr("7 workers live, 8 before"));
    StarRun other(GetParam());
    other.rounds(40, one_slow);
    other.lose(2);
    EXPECT_NE(other.plan().name, "ssgd");
}

TEST(StarPolicy, TakesThePublishedOrder) {
    StarRun run("star-h");
    run.rounds(60, one_slow);
    EXPECT_EQ(run.plan().name, "static:7");
    const auto& listed = run.record().candidates;
    ASSERT_THAT(listed, SizeIs(9));  // eight orders and the groups
    EXPECT_EQ(listed.front().plan, "static:7");
    EXPECT_TRUE(std::is_sorted(listed.begin(), listed.end(),
                               [](const auto& a, const auto& b) { return a.rate > b.rate; }));
    for (const Candidate& one : listed) {
        EXPECT_NEAR(one.rate, one.samples_s * one.batch_efficiency, 1e-6 * one.rate);
    }
    const auto ssgd =
        std::find_if(listed.begin(), listed.end(), [](const auto& c) { return c.plan == "ssgd"; });
    ASSERT_NE(ssgd, listed.end());
    EXPECT_NEAR(ssgd->samples_s, 8 * kBatch / 0.2, 200);
    EXPECT_NEAR(ssgd->rate, ssgd->samples_s, 1e-6 * ssgd->rate);
}

TEST(StarPolicy, ExactComparesGroupsWithSimulatedTimes) {
    StarRun run("star-h-exact");
    run.rounds(60, two_groups);
    EXPECT_EQ(run.plan().name, "dynamic");
    ASSERT_THAT(run.plan().cohorts, SizeIs(2));
    EXPECT_THAT(run.plan().cohorts[0].members, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(run.plan().cohorts[1].members, ElementsAre(5, 6, 7));
    EXPECT_TRUE(run.plan().look_ahead);
    StarRun one_cut("star-h-exact:100");  // all in one group
    one_cut.rounds(60, two_groups);
    EXPECT_NE(one_cut.plan().name, "dynamic");
}

TEST(StarPolicy, RingsGiveTheFastestTheRing) {
    StarRun run("star-h", 8, Architecture::kRing);
    EXPECT_EQ(run.rounds(20, healthy), 0);
    EXPECT_EQ(run.plan().name, "ring");
    run.rounds(60, one_slow);
    EXPECT_EQ(run.plan().name, "ring:7");
    EXPECT_THAT(run.plan().cohorts.at(0).riders, ElementsAre(7));
    // Another one is slow: it changes places.
    run.rounds(200, [](int, std::size_t worker) { return worker == 3 ? 0.2 : 0.1; });
    EXPECT_THAT(run.plan().cohorts.at(0).riders, ElementsAre(3));
    run.rounds(200, healthy);
    EXPECT_EQ(run.plan().name, "ring");
}

TEST(StarPolicy, TwoModes) {
    StarRun run("ssgd-or-asgd");
    EXPECT_EQ(run.rounds(100, healthy), 0);
    EXPECT_EQ(run.plan().name, "ssgd");
    run.rounds(20, one_slow);
    EXPECT_EQ(run.plan().name, "asgd");
    ASSERT_THAT(run.record().candidates, SizeIs(2));
    EXPECT_EQ(run.record().candidates.front().plan, "asgd");
    EXPECT_EQ(run.rounds(200, one_slow), 0);
    run.rounds(60, healthy);
    EXPECT_EQ(run.plan().name, "ssgd");
}

/// Of every iteration to come.
LoadView forecast_of(const std::vector<float>& own_s) {
    LoadView load;
    for (const float one : own_s) {
        load.forecast.own_s.emplace_back(kMaxHorizon, one);
    }
    return load;
}

TEST(StarPolicy, ForecastsCountMoreThanWhatWas) {
    StarRun run("star-h");
    run.rounds(20, healthy);
    const LoadView load = forecast_of({.1F, .1F, .1F, .1F, .2F, .2F, .2F, .2F});
    run.look_at(&load);
    EXPECT_LE(run.until_change(healthy), 3);
    EXPECT_EQ(run.plan().name, "static:4");
    EXPECT_THAT(run.record().stragglers, ElementsAre(4, 5, 6, 7));
}

TEST(StarPolicy, TheNoiseScaleDecidesTheOrder) {
    // The tail pattern: order 5 with a large noise scale, 4 with a small one.
    for (const auto& [noise_scale, plan] :
         {std::pair{1389.58, "static:5"}, std::pair{185.8, "static:4"}}) {
        StarRun run("star-h");
        LoadView load = forecast_of({.1F, .102F, .098F, .101F, .099F, .15F, .22F, .4F});
        load.gradients.noise_scale = noise_scale;
        run.look_at(&load);
        run.rounds(20, healthy);
        EXPECT_EQ(run.plan().name, plan);
    }
}

TEST(StarPolicy, WithoutTimesNothingIsKnownAndNothingChanges) {
    for (const char* mode : {"star-h", "star-h-exact", "ssgd-or-asgd"}) {
        StarRun run(mode);
        EXPECT_EQ(run.rounds(50, [](int, std::size_t) { return 0.0; }), 0) << mode;
    }
}

}  // namespace
}  // namespace cohort
