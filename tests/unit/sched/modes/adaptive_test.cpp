// The adaptive chooser: what it answers, how soon, and what it leaves alone.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cohort/core/error.hpp"
#include "support/sched/chooser_run.hpp"

namespace cohort::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

/// Repeatable noise: mean 1, uniform within `width` of it.
class Noise {
public:
    explicit Noise(double width) : width_(width) {}
    double next() {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return 1 + width_ * (2 * static_cast<double>(state_ >> 40) / (1 << 24) - 1);
    }

private:
    double width_;
    std::uint64_t state_ = 11;
};

/// Worker 3 is slower by `slowness` while `slow` says so.
ChooserRun::Parts slow_third(double slowness, std::function<bool(double)> slow, double noise = 0) {
    return [=, dice = std::make_shared<Noise>(noise)](int worker, double begin_s,
                                                      std::int64_t samples) {
        const double factor = worker == 3 && slow(begin_s) ? slowness : 1;
        return second_of_work(factor * dice->next(), samples);
    };
}

std::string changes_of(const ChooserRun& run) {
    std::string text;
    for (const ChooserRun::Change& change : run.changes) {
        text += fmt::format("\n{:8.2f} {} ({}): {}", change.at_s, change.to,
                            fmt::join(change.batches, " "), change.decision.reason);
    }
    return text;
}

double pace(const std::string& mode, ChooserRun::Parts parts, double end_s, int workers = 8) {
    ChooserRun run(mode, workers, std::move(parts));
    run.until(end_s);
    return static_cast<double>(run.samples) / end_s;
}

/// Of workers that are alike, seven of eight are waited for: samples of more and smaller updates
/// are worth more.
TEST(Adaptive, BeginsWithWhatIsBestForWorkersThatAreAlike) {
    const ModeSetting eight{.live = std::vector<bool>(8, true), .own_seconds = {}};
    EXPECT_EQ(make_policy("adaptive", eight)->start().plan->name, "quorum:7");
    ModeSetting ring = eight;
    ring.architecture = Architecture::kRing;
    EXPECT_EQ(make_policy("adaptive", ring)->start().plan->name, "ring");
    ModeSetting adascale = eight;  // whose rates say what small updates are worth
    adascale.lr_rule = SyncPlan::LrUnit::kAdaScale;
    EXPECT_EQ(make_policy("adaptive", adascale)->start().plan->name, "ssgd");
}

TEST(Adaptive, APersistentStragglerIsAnsweredWithinFiveIterations) {
    for (const double slowness : {1.34, 2.0, 5.0}) {
        const auto slow = [](double at_s) { return at_s >= 100; };
        ChooserRun run("adaptive", 8, slow_third(slowness, slow));
        const double answered_s = 100 + 5 * slowness;
        run.until(answered_s);
        const double best = (7 + 1 / slowness) * 64;
        const double before = static_cast<double>(run.samples);
        run.until(600);
        EXPECT_GT((static_cast<double>(run.samples) - before) / (600 - answered_s), 0.9 * best)
            << slowness;
    }
}

/// Half of the workers, more than the first plan leaves behind, are slow from `from_s` on.
ChooserRun::Parts slow_half(double from_s) {
    return [=](int worker, double begin_s, std::int64_t samples) {
        return second_of_work(worker < 4 && begin_s >= from_s ? 3 : 1, samples);
    };
}

TEST(Adaptive, AChangeComesWithinFiveIterations) {
    ChooserRun run("adaptive", 8, slow_half(100));
    run.until(115);
    ASSERT_THAT(run.changes, SizeIs(Ge(1U)));
    EXPECT_GE(run.changes.front().at_s, 100);
}

/// With 10 % of noise the slowest of eight takes 14 % longer than they do on average: not to wait
/// for it pays. Each kind of plan is tried once at most.
TEST(Adaptive, ANoisyHealthyHourIsAnsweredSoonAndForGood) {
    ChooserRun run("adaptive", 8,
                   slow_third(
                       1, [](double) { return false; }, 0.1));
    run.until(3600);
    EXPECT_THAT(run.changes, SizeIs(Le(3U))) << changes_of(run);
    EXPECT_THAT(run.plan, testing::StartsWith("quorum:"));
    EXPECT_TRUE(run.changes.empty() || run.changes.back().at_s < 60) << changes_of(run);
}

TEST(Adaptive, FlickeringFasterThanAChangePaysIsNotAnswered) {
    for (const double period : {2.0, 3.0, 4.0, 6.0}) {
        for (const double slowness : {2.0, 5.0}) {
            const auto slow = [=](double at_s) { return std::fmod(at_s, 2 * period) < period; };
            ChooserRun run("adaptive", 8, slow_third(slowness, slow));
            run.until(1000);
            EXPECT_LE(run.changes.size(), 4U) << period << " " << slowness << changes_of(run);
            EXPECT_GE(static_cast<double>(run.samples) / 1000,
                      0.95 * pace("ssgd", slow_third(slowness, slow), 1000));
        }
    }
}

class Flicker : public testing::TestWithParam<const char*> {
protected:
    /// Two decide in star-ml, each of whom leaves it alone: when the lead changes hands, the second
    /// may try it, too.
    [[nodiscard]] static std::size_t most(std::string_view mode) {
        return mode == "star-ml" ? 6 : 4;
    }
};

/// The same with noise, and forecasts of a predictor that finds the rhythm.
TEST_P(Flicker, IsLeftAloneWithNoiseAndForecastsToo) {
    for (const double period : {2.0, 3.0, 6.0}) {
        for (const double slowness : {2.0, 5.0}) {
            const auto slow = [=](double at_s) { return std::fmod(at_s, 2 * period) < period; };
            ChooserRun run(GetParam(), 8, slow_third(slowness, slow, 0.05));
            run.predict_by("auto");
            run.until(1000);
            EXPECT_LE(run.changes.size(), most(GetParam()))
                << period << " " << slowness << changes_of(run);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Choosers, Flicker,
                         testing::Values("adaptive", "star-ml", "star-h", "star-h-exact",
                                         "ssgd-or-asgd"));

TEST(Adaptive, ADelayIsNotBalancedAway) {
    const auto parts = [](int worker, double, std::int64_t samples) {
        return second_of_work(1, samples, worker == 3 ? 1 : 0);
    };
    ChooserRun run("adaptive", 8, parts);
    run.until(300);
    EXPECT_GT(static_cast<double>(run.samples) / 300, 0.9 * 7.5 * 64);
}

/// Most of an iteration does not depend on the batch, the first one is cold, and from 60 s on
/// another worker is the slow one: batches are not what helps, and what they are does not hide
/// that.
TEST(Adaptive, TimesThatDoNotDependOnTheBatchAreKnownSoon) {
    const auto dice = std::make_shared<Noise>(0.01);
    ChooserRun run("adaptive", 8, [=](int worker, double begin_s, std::int64_t samples) {
        const double cold_s = begin_s == 0 ? 5 : 0;
        const double late_s = worker == (begin_s < 60 ? 5 : 2) ? 2 : 0;
        return second_of_work(0.05, samples, 0.95 * dice->next() + cold_s + late_s);
    });
    run.predict_by("auto");
    for (const double from_s : {30.0, 80.0, 130.0}) {
        run.until(from_s);
        const auto before = static_cast<double>(run.samples);
        run.until(from_s + 30);
        EXPECT_GT((static_cast<double>(run.samples) - before) / 30, 0.9 * 7.3 * 64)
            << from_s << changes_of(run);
    }
}

TEST(Adaptive, AfterAStragglerEverybodyGetsEqualBatchesAgain) {
    const auto slow = [](double at_s) { return at_s >= 50 && at_s < 150; };
    ChooserRun run("adaptive", 8, slow_third(3, slow));
    run.until(400);
    EXPECT_THAT(run.batches, Each(ChooserRun::kBatch));
    const double before = static_cast<double>(run.samples);
    run.until(500);
    EXPECT_NEAR((static_cast<double>(run.samples) - before) / 100, 8 * 64, 8);
}

TEST(Adaptive, WorkersMayLeaveAndCome) {
    for (const std::string mode : {"adaptive", "star-ml"}) {
        ChooserRun run(mode, 6, slow_third(2, [](double at_s) { return at_s >= 20; }));
        run.until(50);
        run.lose(3);
        run.until(100);
        double before = static_cast<double>(run.samples);
        run.until(150);
        EXPECT_NEAR((static_cast<double>(run.samples) - before) / 50, 5 * 64, 10) << mode;
        run.join(3);
        run.until(250);
        before = static_cast<double>(run.samples);
        run.until(350);
        EXPECT_GT((static_cast<double>(run.samples) - before) / 100, 5 * 64) << mode;
    }
}

/// A forecast of nonsense: own times between a fifth and five times what they are.
Forecast lies(const TelemetryHistory& history) {
    static Noise dice(1);
    Forecast forecast;
    for (int worker = 0; worker < history.workers(); ++worker) {
        const double now_s =
            history.size(worker) > 0 ? history.record(worker, 0).own_s(history.batch()) : 1;
        const auto lie = static_cast<float>(now_s * std::exp(1.6 * (dice.next() - 1)));
        forecast.own_s.emplace_back(kMaxHorizon, lie);
    }
    return forecast;
}

TEST(Adaptive, WrongPredictionsAreSurvived) {
    for (const double slowness : {1.0, 3.0}) {
        const auto slow = [](double at_s) { return std::fmod(at_s, 200) > 100; };
        ChooserRun run("adaptive", 8, slow_third(slowness, slow));
        run.forecast_by(lies);
        run.until(1000);
        EXPECT_GT(static_cast<double>(run.samples) / 1000,
                  0.7 * pace("ssgd", slow_third(slowness, slow), 1000))
            << slowness;
    }
}

TEST(Adaptive, ADecisionTellsWhatWasWeighed) {
    ChooserRun run("adaptive", 8, slow_half(10));
    run.until(40);
    ASSERT_THAT(run.changes, SizeIs(Ge(1U)));
    const Decision& decision = run.changes.front().decision;
    ASSERT_TRUE(decision.record);
    EXPECT_EQ(decision.record->chooser, "adaptive");
    EXPECT_THAT(decision.record->candidates, SizeIs(AllOf(Ge(5U), Le(20U))));
    EXPECT_EQ(decision.record->candidates.front().plan, decision.plan->name);
    for (std::size_t i = 1; i < decision.record->candidates.size(); ++i) {
        EXPECT_GE(decision.record->candidates[i - 1].rate, decision.record->candidates[i].rate);
    }
}

TEST(Adaptive, ADeterministicRunIsLeftToSsgd) {
    const auto policy =
        make_policy("adaptive", {.live = {true, true, true}, .own_seconds = {}, .measured = false});
    EXPECT_EQ(policy->start().plan->name, "ssgd");
    Telemetry telemetry;
    telemetry.workers.resize(3);
    const Decision decision = policy->decide(telemetry);
    EXPECT_FALSE(decision.plan);
    EXPECT_THAT(decision.batches, IsEmpty());
}

TEST(Adaptive, RingsAreBalancedOrRideTheirStragglers) {
    ModeSetting ring{.architecture = Architecture::kRing, .live = {}, .own_seconds = {}};
    ChooserRun slow("adaptive", 8, slow_third(2, [](double at_s) { return at_s >= 10; }), ring);
    slow.until(100);
    const double before = static_cast<double>(slow.samples);
    slow.until(200);
    EXPECT_GT((static_cast<double>(slow.samples) - before) / 100, 0.9 * 7.5 * 64);
    ChooserRun late(
        "adaptive", 8,
        [](int worker, double, std::int64_t samples) {
            return second_of_work(1, samples, worker == 3 ? 3 : 0);
        },
        ring);
    late.until(100);
    EXPECT_TRUE(late.plan.starts_with("ring:7")) << late.plan;
}

/// Within the same noise now the regressor errs less, now the timing model.
TEST(StarMl, DecidesOnRingsToo) {
    ModeSetting ring{.architecture = Architecture::kRing, .live = {}, .own_seconds = {}};
    ChooserRun run("star-ml", 8, slow_third(4, [](double at_s) { return at_s >= 10; }), ring);
    run.until(500);
    ASSERT_THAT(run.changes, SizeIs(Ge(1U)));
    const double before = static_cast<double>(run.samples);
    run.until(600);
    EXPECT_GT((static_cast<double>(run.samples) - before) / 100, 0.8 * 7 * 64) << changes_of(run);
}

TEST(StarMl, TakesTheLeadWhenItErrsLessAndHandsItBack) {
    const auto slow = [](double at_s) { return std::fmod(at_s, 200) > 100; };
    ChooserRun run("star-ml", 8, slow_third(3, slow, 0.05));
    run.until(6000);
    std::string leads;
    for (const DecisionRecord& record : run.told) {
        if (record.reason.find(" decides from now on") != std::string::npos) {
            leads += record.reason.starts_with("the regressor") ? 'r' : 'h';
        }
    }
    EXPECT_THAT(leads, testing::StartsWith("rh"));
    EXPECT_LE(leads.size(), 12U) << "it must not flap";
}

TEST(StarMl, WeightsThatAreNoneAreRefused) {
    ModeSetting setting;
    setting.chooser.rate_weights = std::make_shared<const NamedWeights>(
        NamedWeights{.trained_on = "", .terms = {"moon"}, .weights = {1}});
    EXPECT_THROW(ChooserRun("star-ml", 8, slow_third(2, [](double) { return false; }), setting),
                 FileError);
}

/// Whatever decides, what its plans achieve can be measured beside it.
TEST(RecordedRates, ComeFromAnyMode) {
    const auto slow = slow_third(2, [](double) { return true; });
    ModeSetting recording;
    recording.chooser.record_rates = true;
    for (const std::string mode : {"ssgd", "static:6", "asgd", "backup:1", "dynamic", "lb-bsp",
                                   "star-h-exact", "adaptive"}) {
        ChooserRun plain(mode, 8, slow);
        ChooserRun recorded(mode, 8, slow, recording);
        plain.until(300);
        recorded.until(300);
        EXPECT_THAT(plain.windows, IsEmpty()) << mode;
        EXPECT_EQ(recorded.samples, plain.samples) << mode << ": recording changes nothing";
        ASSERT_THAT(recorded.windows, SizeIs(Ge(10U))) << mode;
        const RateWindow& last = recorded.windows.back();
        EXPECT_NEAR(last.log_rate, RateRegressor().predict(last.features), 0.11)
            << mode << ", " << last.plan
            << ": without noise the timing model is right, but for an update more or less";
    }
}

TEST(StarMl, LeavesTheLeadToTheHeuristicUntilItKnowsBetter) {
    const auto slow = [](double at_s) { return std::fmod(at_s, 200) > 100; };
    ChooserRun run("star-ml", 8, slow_third(2, slow, 0.05));
    run.until(1000);
    EXPECT_GT(static_cast<double>(run.samples) / 1000,
              pace("ssgd", slow_third(2, slow, 0.05), 1000));
}

/// Whoever shares nodes among jobs has the last word.
TEST(Choosers, KeepTheirPlanUntilAnotherIsAdmitted) {
    for (const std::string mode : {"ssgd-or-asgd", "star-h", "star-ml", "adaptive"}) {
        bool open = false;
        int refused = 0;
        ModeSetting setting;
        setting.admits = [&](const SyncPlan& wanted, double worth) {
            EXPECT_NE(wanted.name, "ssgd");
            EXPECT_GT(worth, 0);
            refused += open ? 0 : 1;
            return open;
        };
        ChooserRun run(mode, 8, slow_third(5, [](double at_s) { return at_s >= 20; }), setting);
        run.until(200);
        EXPECT_GT(refused, 0) << mode;
        EXPECT_EQ(run.plan, "ssgd") << mode;
        EXPECT_THAT(run.changes, IsEmpty()) << mode;
        open = true;
        run.until(300);
        EXPECT_NE(run.plan, "ssgd") << mode;
    }
}

TEST(Adaptive, TakesTheBestPlanThatIsAdmitted) {
    std::string first;
    ModeSetting setting;
    setting.admits = [&](const SyncPlan& wanted, double /*worth*/) {
        first = first.empty() ? wanted.name : first;
        return wanted.name != first;
    };
    ChooserRun run("adaptive", 8, slow_third(5, [](double at_s) { return at_s >= 20; }), setting);
    run.until(200);
    EXPECT_NE(run.plan, "ssgd");
    EXPECT_NE(run.plan, first);
}

}  // namespace
}  // namespace cohort::test
