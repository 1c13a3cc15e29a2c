// Workers that are overdue: who is, from when on, and what the adaptive chooser does about it
// before their pushes come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/sched/chooser_run.hpp"

namespace cohort::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ActiveIterations, WhoWaitsIsAtNone) {
    ActiveIterations running(2);
    EXPECT_FALSE(running.begun_s(0));
    running.begun(0, 10, 64);
    running.begun(1, 11, 32);
    EXPECT_EQ(running.begun_s(0), 10);
    EXPECT_EQ(running.samples(1), 32);
    running.ended({.worker = 0, .samples = 64, .arrived_s = 12, .compute_s = 1});
    EXPECT_FALSE(running.begun_s(0));
    running.stopped(1);
    EXPECT_FALSE(running.begun_s(1));
}

/// What an iteration takes beside the worker's own time, and one with an evaluation in it.
TEST(ActiveIterations, MeasuresWhatIterationsTakeBeside) {
    ActiveIterations running(1);
    double now_s = 0;
    const auto iteration = [&](double beside_s) {
        running.begun(0, now_s, 64);
        now_s += 1 + beside_s;
        running.ended({.worker = 0, .samples = 64, .arrived_s = now_s, .compute_s = 1});
    };
    for (int i = 0; i < 20; ++i) {
        iteration(i % 2 == 0 ? 0.1 : 0.3);
    }
    EXPECT_NEAR(running.beside_s(0), 0.2, 0.03);
    EXPECT_NEAR(running.beside_noise_s(0), 0.1, 0.03);
    iteration(30);
    EXPECT_LT(running.beside_s(0), 0.4);
    running.forget(0);
    EXPECT_EQ(running.beside_s(0), 0);
}

/// Log-normal own times; worker 3, or so many from it on, are slower by `slowness` from `from_s` to
/// `to_s`.
ChooserRun::Parts workers_of(double sigma, double slowness = 1, double from_s = 0,
                             double to_s = 1e9, int slow_ones = 1) {
    return [=, dice = std::make_shared<std::mt19937_64>(7)](int worker, double begin_s,
                                                            std::int64_t samples) {
        const bool slow =
            worker >= 3 && worker < 3 + slow_ones && begin_s >= from_s && begin_s < to_s;
        std::normal_distribution<double> normal;
        return second_of_work((slow ? slowness : 1) * std::exp(sigma * normal(*dice)), samples);
    };
}

/// Nobody waits for them any more as soon as they are late; the first plan does not wait for one of
/// eight, so two need a change.
TEST(AdaptiveOverdue, FrozenWorkersHoldNobodyUpForLongerThanOneIteration) {
    for (const double sigma : {0.0, 0.05}) {
        for (const int frozen : {1, 2}) {
            ChooserRun run("adaptive", 8, workers_of(sigma, 1e6, 50, 1e9, frozen));
            run.until(54);
            ASSERT_TRUE(frozen == 1 || !run.changes.empty()) << sigma;
            const auto before = static_cast<double>(run.samples);
            run.until(154);
            EXPECT_GT((static_cast<double>(run.samples) - before) / 100, 0.8 * (8 - frozen) * 64)
                << sigma << ' ' << frozen;
        }
    }
}

/// While it stands still for long the others may arrange themselves anew.
TEST(AdaptiveOverdue, WhoSlowsDownDuringALongDetourIsAnswered) {
    const auto parts = [](int worker, double begin_s, std::int64_t samples) {
        const bool slow = worker == 5 && begin_s >= 80;
        return second_of_work(worker == 3 && begin_s >= 50 ? 1e6 : slow ? 3 : 1, samples);
    };
    ChooserRun run("adaptive", 8, parts);
    run.until(120);
    const auto before = static_cast<double>(run.samples);
    run.until(180);
    EXPECT_GT((static_cast<double>(run.samples) - before) / 60, 0.85 * (6 + 1.0 / 3) * 64);
}

TEST(AdaptiveOverdue, ALatePushStillCounts) {
    ChooserRun run("adaptive", 8, workers_of(0, 10, 50, 50.5));
    run.until(49.5);
    const std::int64_t before = run.samples;
    run.until(200);
    // Worker 3 is late once, by 9 s: what it computed then counts as what the others did.
    EXPECT_GT(run.samples - before, 64 * (7 * 147 + 135));
    EXPECT_THAT(run.batches, Each(ChooserRun::kBatch)) << "it is as fast again";
}

/// With more noise other batches may be wanted now and then, but nobody is late.
TEST(AdaptiveOverdue, InANoisyHealthyHourNobodyIsLate) {
    for (const double sigma : {0.03, 0.05, 0.08}) {
        for (const int workers : {8, 16}) {
            ChooserRun run("adaptive", workers, workers_of(sigma));
            run.until(3600 / 0.25);  // iterations of 0.25 s
            EXPECT_TRUE(sigma > 0.05 || run.woken <= 1)
                << sigma << ": once when most are done first";
            for (const ChooserRun::Change& change : run.changes) {
                EXPECT_THAT(change.decision.reason, HasSubstr("nobody is slow")) << sigma;
            }
            EXPECT_TRUE(sigma > 0.03 || run.changes.size() <= 3)
                << sigma << ": " << run.changes.size() << " changes, one for each kind of plan";
        }
    }
}

/// What it costs to ask: a few times for each iteration that is late.
TEST(AdaptiveOverdue, IsAskedSeldom) {
    ChooserRun run("adaptive", 8, workers_of(0, 1e6, 50));
    run.until(2000);
    EXPECT_GT(run.woken, 0);
    EXPECT_LE(run.woken, 20);
}

/// Who is late while too little is known of those who came back is not asked about over and over.
/// No plan is admitted but ssgd, under which the worker that came back waits.
TEST(AdaptiveOverdue, IsNotWokenAgainBeforeEnoughIsKnown) {
    const auto parts = [](int worker, double begin_s, std::int64_t samples) {
        return second_of_work(worker == 0 && begin_s >= 59 ? 10 : 1, samples);
    };
    ModeSetting setting;
    setting.admits = [](const SyncPlan&, double) { return false; };
    ChooserRun run("adaptive", 2, parts, setting);
    run.until(49.5);
    run.lose(1);
    run.until(59.5);
    run.join(1);
    run.until(68.5);
    EXPECT_LE(run.woken, 1);
    EXPECT_EQ(run.view().running->begun_s(0), 59) << "it has been late since 60.5";
}

TEST(AdaptiveOverdue, DeterministicRunsAreNotWoken) {
    const auto policy = make_policy("adaptive", {.live = {true, true}, .own_seconds = {}});
    (void)policy->start();
    ActiveIterations running(2);
    running.begun(0, 0, 64);
    Telemetry telemetry;
    telemetry.workers.resize(2);
    (void)policy->decide(telemetry);
    EXPECT_FALSE(policy->wake_at(running));
}

TEST(AdaptiveOverdue, ModesThatDoNotLookAreNotWoken) {
    for (const std::string mode : {"ssgd", "lb-bsp", "star-h", "star-ml", "dynamic"}) {
        ChooserRun run(mode, 8, workers_of(0, 20, 50));
        run.until(100);
        EXPECT_EQ(run.woken, 0) << mode;
    }
}

/// Recording asks a mode when it would be asked without.
TEST(AdaptiveOverdue, RecordedModesAreWokenAsTheyAreWithout) {
    const auto parts = [](int worker, double begin_s, std::int64_t samples) {
        const bool late = worker == 3 && begin_s >= 50 && std::fmod(begin_s, 60) < 1;
        return second_of_work(late ? 1.7 : 1, samples);
    };
    ModeSetting recording;
    recording.chooser.record_rates = true;
    for (const std::string mode : {"ssgd", "asgd", "adaptive"}) {
        ChooserRun plain(mode, 8, parts);
        ChooserRun recorded(mode, 8, parts, recording);
        plain.until(600);
        recorded.until(600);
        EXPECT_EQ(plain.woken > 0, mode == "adaptive");
        EXPECT_EQ(recorded.woken, plain.woken) << mode;
        EXPECT_EQ(recorded.samples, plain.samples) << mode;
    }
}

}  // namespace
}  // namespace cohort::test
