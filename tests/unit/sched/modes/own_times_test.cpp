// What is known of workers' own times: levels that are no chance, changes, batches of other sizes,
// iterations that are still running, and draws of what may come.
#include "support/sched/own_times.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "sched/modes/batch_balance.hpp"

namespace cohort {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kBatch = 64;

/// Workers whose iterations are recorded one after the other.
class Records {
public:
    explicit Records(int workers = 8)
        : history_(workers, kBatch),
          running_(workers),
          times(workers, kBatch, 0),
          live_(static_cast<std::size_t>(workers)) {
        std::iota(live_.begin(), live_.end(), 0);
        view_.history = &history_;
        view_.running = &running_;
    }

    /// Each worker's next iterations. @param seconds  of a worker's iteration; 0: it is at none
    void iterate(int count, const std::function<double(int)>& seconds,
                 std::int64_t samples = kBatch, double push_s = 0, int steps = 1) {
        for (int i = 0; i < count; ++i) {
            ++iteration_;
            for (const int worker : live_) {
                if (const double took_s = seconds(worker); took_s > 0) {
                    history_.add({.worker = worker,
                                  .iteration = iteration_,
                                  .samples = samples,
                                  .steps = steps,
                                  .arrived_s = static_cast<double>(iteration_),
                                  .compute_s = took_s,
                                  .push_s = push_s});
                }
            }
        }
        look(static_cast<double>(iteration_));
    }
    void look(double now_s) { times.look(view_, live_, now_s); }
    [[nodiscard]] ActiveIterations& running() { return running_; }
    [[nodiscard]] double expected_s(int worker, std::int64_t samples = kBatch) const {
        return times.estimate().own_s(static_cast<std::size_t>(worker), samples);
    }
    [[nodiscard]] std::vector<std::int64_t> balanced() const {
        return balanced_batches(times.estimate().cost, kBatch);
    }

private:
    TelemetryHistory history_;
    ActiveIterations running_;
    LoadView view_;

public:
    OwnTimes times;

private:
    std::vector<int> live_;
    std::int64_t iteration_ = 0;
};

/// Mean 1, a coefficient of variation of about `sigma`.
std::function<double(int)> noise(double sigma, unsigned seed,
                                 const std::function<double(int)>& level) {
    auto dice = std::make_shared<std::mt19937_64>(seed);
    return [=](int worker) {
        return level(worker) * std::exp(std::normal_distribution<>(0, sigma)(*dice));
    };
}

double alike(int /*worker*/) {
    return 1;
}

TEST(OwnTimes, LuckIsNoLevel) {
    int moved = 0;
    for (unsigned seed = 1; seed <= 50; ++seed) {
        for (const double sigma : {0.1, 0.25, 0.5}) {
            Records records;
            const auto noisy = noise(sigma, seed, alike);
            for (int look = 0; look < 40; ++look) {
                records.iterate(5, noisy);
                for (const std::int64_t samples : records.balanced()) {
                    moved += std::abs(samples - kBatch) > kBatch / 16 ? 1 : 0;
                }
            }
        }
    }
    EXPECT_LE(moved, 50 * 3 * 40 * 8 / 1000) << "of 48,000 batches";
}

TEST(OwnTimes, AThirdSlowerIsSeenUnderAQuarterOfNoiseWithinFortyIterations) {
    int seen = 0;
    for (unsigned seed = 1; seed <= 40; ++seed) {
        Records records;
        records.iterate(40, noise(0.25, seed, [](int worker) { return worker == 3 ? 1.3 : 1; }));
        seen += records.balanced()[3] < kBatch ? 1 : 0;
    }
    EXPECT_GE(seen, 36);
}

TEST(OwnTimes, AJumpIsSeenAtOnceAndItsEndToo) {
    Records records;
    records.iterate(60, noise(0.02, 5, alike));
    EXPECT_EQ(records.times.state_age(), 59) << "all but the first iteration, which was cold";
    records.iterate(1, [](int worker) { return worker == 3 ? 5 : 1; });
    EXPECT_NEAR(records.expected_s(3), 5, 0.3);
    EXPECT_THAT(records.times.slow(), ElementsAre(3));
    EXPECT_EQ(records.times.state_age(), 1);
    records.iterate(9, [](int worker) { return worker == 3 ? 5 : 1; });
    EXPECT_EQ(records.times.state_age(), 10);
    records.iterate(1, alike);
    EXPECT_NEAR(records.expected_s(3), 1, 0.1);
    EXPECT_THAT(records.times.slow(), IsEmpty());
}

TEST(OwnTimes, WorkIsProportionalUntilBatchesDiffer) {
    Records records;
    records.iterate(10, alike);
    EXPECT_NEAR(records.expected_s(0, kBatch / 2), 0.5, 0.01);
}

TEST(OwnTimes, WhatIsFixedShowsWhenTheBatchChanges) {
    for (const double fixed : {0.0, 0.5, 1.0}) {
        Records records;
        const auto takes = [fixed](double batches) { return fixed + (1 - fixed) * batches; };
        records.iterate(20, alike);
        records.iterate(
            4, [&](int) { return takes(0.5); }, kBatch / 2);
        EXPECT_NEAR(records.expected_s(0), 1, 0.06) << fixed;
        EXPECT_NEAR(records.expected_s(0, kBatch / 2), takes(0.5), 0.06) << fixed;
    }
}

/// A worker that slows down in the moment when its batch changes teaches nothing about batches.
TEST(OwnTimes, AChangeOfSpeedIsNoFixedPart) {
    Records records;
    records.iterate(20, alike);
    records.iterate(
        4, [](int) { return 3; }, kBatch / 2);
    EXPECT_NEAR(records.expected_s(0), 6, 0.3);
}

TEST(OwnTimes, TransfersDoNotShrinkWithTheBatch) {
    Records records;
    records.iterate(20, alike, kBatch, 0.5);
    EXPECT_NEAR(records.expected_s(0), 1.5, 0.01);
    EXPECT_NEAR(records.expected_s(0, kBatch / 2), 1, 0.02);
}

TEST(OwnTimes, LocalStepsAreSeenAsSteps) {
    Records records;
    records.iterate(
        20, [](int) { return 4.0; }, 4 * kBatch, 0.5, 4);
    const LoadEstimate load = records.times.estimate();
    EXPECT_NEAR(load.own_s(0, kBatch), 1.5, 1e-6) << "a gradient";
    EXPECT_NEAR(load.own_s(0, kBatch, 4), 4.5, 1e-6);
    EXPECT_NEAR(load.own_s(0, kBatch / 2, 4), 2.5, 1e-6);
}

TEST(OwnTimes, WhoComesBackCountsFromTheStart) {
    Records records(2);
    records.iterate(20, [](int worker) { return worker == 0 ? 1 : 3; });
    records.times.forget(1);
    records.look(21);
    EXPECT_NEAR(records.expected_s(1), 3, 0.1) << "its records are still in the history";
}

TEST(OwnTimes, OfWhomNothingIsKnownIsLikeTheOthers) {
    Records records;
    records.iterate(5, [](int worker) { return worker == 7 ? 0 : 2; });
    EXPECT_TRUE(records.times.ready());
    EXPECT_NEAR(records.expected_s(7), 2, 0.01);
}

// --- iterations that are still running
// ------------------------------------------------------------

TEST(OwnTimes, AnIterationThatLastsTooLongCountsAsTwiceAsLong) {
    Records records;
    records.iterate(30, alike);
    for (int worker = 0; worker < 8; ++worker) {
        records.running().begun(worker, 100, kBatch);
    }
    const double wake_s = *records.times.wake_at(records.running());
    EXPECT_NEAR(wake_s, 100 + std::exp(0.4), 0.01) << "four deviations of a tenth";
    for (const int worker : {0, 1, 2, 4, 5, 6, 7}) {
        records.running().stopped(worker);
    }
    records.look(wake_s);
    EXPECT_THAT(records.times.slow(), ElementsAre(3));
    EXPECT_NEAR(records.times.slowness(3), 2 * std::exp(0.4), 0.05);
    EXPECT_NEAR(*records.times.wake_at(records.running()), 100 + 1.5 * std::exp(0.4), 0.01);
}

TEST(OwnTimes, WhenMostAreLateItIsNobodysFault) {
    Records records;
    records.iterate(30, alike);
    for (int worker = 0; worker < 8; ++worker) {
        records.running().begun(worker, 100, kBatch);
    }
    records.look(105);
    EXPECT_THAT(records.times.slow(), IsEmpty());
}

/// Each time that the alarm rings it is set later: an alarm in the past would ring for ever.
TEST(OwnTimes, TheAlarmIsNeverSetIntoThePast) {
    std::mt19937_64 dice(3);
    Records records;
    records.iterate(30, noise(0.3, 1, alike));
    for (int round = 0; round < 200; ++round) {
        const double now_s = 100.0 * (round + 1);
        for (int worker = 0; worker < 8; ++worker) {
            if (dice() % 4 != 0) {
                records.running().begun(worker, now_s, kBatch >> dice() % 3);
            }
        }
        records.iterate(1, noise(0.3, static_cast<unsigned>(round),
                                 [&](int) { return dice() % 5 == 0 ? 4.0 : 1.0; }));
        double at_s = now_s;
        for (int ring = 0; ring < 20; ++ring) {
            const std::optional<double> next_s = records.times.wake_at(records.running());
            if (!next_s) {
                break;
            }
            at_s = std::max(at_s, *next_s);
            records.look(at_s);
            ASSERT_GT(records.times.wake_at(records.running()).value_or(1e18), at_s) << round;
        }
    }
}

// --- draws
// ----------------------------------------------------------------------------------------

double mean_of(const TimeDraws& draws, int from, int to, std::size_t worker, std::size_t workers) {
    double sum = 0;
    for (int replicate = 0; replicate < draws.replicates; ++replicate) {
        for (int i = from; i < to; ++i) {
            sum += draws.factor(replicate, i, worker, workers);
        }
    }
    return sum / (draws.replicates * (to - from));
}

TEST(TimeDraws, ConstantTimesAreDrawnAsTheyAre) {
    Records records;
    records.iterate(50, [](int worker) { return 1 + worker; });
    EXPECT_THAT(records.times.draw(4, 16, 1).factors, Each(testing::FloatNear(1, 1e-5F)));
}

/// Variation and what workers have in common are those of the records.
TEST(TimeDraws, KeepWhatWorkersHaveInCommon) {
    std::mt19937_64 dice(2);
    std::normal_distribution<> normal;
    Records records(2);
    for (int i = 0; i < 128; ++i) {
        const double common = normal(dice);
        records.iterate(1, [&](int) { return std::exp(0.3 * common + 0.1 * normal(dice)); });
    }
    const TimeDraws draws = records.times.draw(64, 32, 1);
    double products = 0;
    double squares = 0;
    for (std::size_t at = 0; at < draws.factors.size(); at += 2) {
        const double a = std::log(draws.factors[at]);
        const double b = std::log(draws.factors[at + 1]);
        products += a * b;
        squares += (a * a + b * b) / 2;
    }
    EXPECT_NEAR(products / squares, 0.9, 0.05);
    EXPECT_NEAR(std::sqrt(2 * squares / static_cast<double>(draws.factors.size())), std::sqrt(0.1),
                0.04);
}

/// Who has been slow for three iterations is slow for three more, and then as it used to be.
TEST(TimeDraws, AStateLastsAsLongAgain) {
    Records records;
    records.iterate(100, alike);
    records.iterate(3, [](int worker) { return worker == 3 ? 8 : 1; });
    const TimeDraws draws = records.times.draw(200, 10, 1);
    EXPECT_NEAR(mean_of(draws, 0, 3, 3, 8), 1, 0.1) << "times a level of eight";
    EXPECT_LT(mean_of(draws, 3, 10, 3, 8), 0.25);
}

TEST(TimeDraws, LocalStepsTakeTheMeanOfTheirIterations) {
    const TimeDraws draws{.replicates = 2,
                          .iterations = 4,
                          .factors = {1, 2, 3, 4, 5, 6, 7, 8,  //
                                      8, 7, 6, 5, 4, 3, 2, 1}};
    const TimeDraws halves = draws.averaged(2, 2);
    EXPECT_EQ(halves.iterations, 2);
    EXPECT_THAT(halves.factors, ElementsAre(2, 3, 6, 7, 7, 6, 3, 2));
    EXPECT_THAT(draws.averaged(8, 2).factors, ElementsAre(4, 5, 5, 4)) << "twice round";
}

TEST(TimeDraws, AreRepeatable) {
    Records records;
    records.iterate(60, noise(0.3, 9, alike));
    EXPECT_EQ(records.times.draw(3, 20, 1).factors, records.times.draw(3, 20, 1).factors);
    EXPECT_NE(records.times.draw(3, 20, 1).factors, records.times.draw(3, 20, 2).factors);
}

/// Where pushes vary, their recent mean is longer than the level of whole iterations at times: a
/// local step, which moves nothing, takes the time of its computing all the same.
TEST(OwnTimes, LocalStepsTakeTimeWhereTransfersVary) {
    Records records;
    for (int i = 0; i < 40; ++i) {
        records.iterate(
            1, [](int) { return 0.1; }, kBatch, i % 2 == 0 ? 0.02 : 1);
    }
    EXPECT_GT(records.times.estimate().own_s(3, kBatch, 16), 16 * 0.1 / 2);
}

}  // namespace
}  // namespace cohort
