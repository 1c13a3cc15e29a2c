// Timing model: times between updates that are known, limits that are shared, times that vary, and
// that its two ways of running a plan agree.
#include "cohort/sched/timing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>

#include "cohort/sched/modes.hpp"
#include "sched/cost/timing_runs.hpp"
#include "support/sched/random_plans.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 64;

/// The mean of chooser goldens: milliseconds in, seconds out.
std::vector<double> milliseconds(std::vector<double> values) {
    for (double& value : values) {
        value /= 1000;
    }
    return values;
}

const std::vector<double> kOneSlow = milliseconds({100, 100, 100, 100, 100, 100, 100, 200});
const std::vector<double> kHalfSlow = milliseconds({100, 100, 100, 100, 200, 200, 200, 200});
const std::vector<double> kTail = milliseconds({100, 102, 98, 101, 99, 150, 220, 400});
const std::vector<double> kSpread = milliseconds({100, 110, 150, 200, 300, 500, 800, 1000});

SyncPlan plan_of(const std::string& mode, const std::vector<double>& own_s,
                 Architecture architecture = Architecture::kServers) {
    return make_plan(mode, {.architecture = architecture,
                            .live = std::vector<bool>(own_s.size(), true),
                            .batch = kBatch,
                            .own_seconds = own_s});
}

PlanTiming timing_of(const SyncPlan& plan, const std::vector<double>& own_s) {
    const std::vector<std::int64_t> batches(own_s.size(), kBatch);
    return time_plan(plan, own_s, batches, kBatch * static_cast<std::int64_t>(own_s.size()));
}

PlanTiming timing_of(const std::string& mode, const std::vector<double>& own_s) {
    return timing_of(plan_of(mode, own_s), own_s);
}

struct StaticGolden {
    std::vector<double> own_s;
    std::vector<double> update_ms;  ///< x = 1..8
};
class StaticGoldens : public testing::TestWithParam<StaticGolden> {};
INSTANTIATE_TEST_SUITE_P(
    Patterns, StaticGoldens,
    testing::Values(StaticGolden{kOneSlow, {13.333, 28.571, 50, 66.667, 100, 100, 100, 200}},
                    StaticGolden{kHalfSlow, {16.667, 33.333, 50, 66.667, 100, 100, 200, 200}},
                    StaticGolden{kTail, {15.7, 33.9, 55, 87.3, 100, 110, 173.3, 400}},
                    StaticGolden{kSpread, {26.1, 57.5, 96.5, 134.4, 197.1, 333.3, 500, 1000}}));

TEST_P(StaticGoldens, TimeBetweenUpdates) {
    for (int x = 1; x <= 8; ++x) {
        const double golden = GetParam().update_ms[static_cast<std::size_t>(x) - 1] / 1000;
        EXPECT_NEAR(static_update_s(GetParam().own_s, x), golden, 0.005 * golden) << "x = " << x;
    }
}

TEST(Timing, EndsOfStaticAreKnown) {
    double sum = 0;
    for (const double tau : kSpread) {
        sum += 1 / tau;
    }
    EXPECT_NEAR(static_update_s(kSpread, 1), 1 / sum, 0.002 / sum);
    EXPECT_DOUBLE_EQ(static_update_s(kSpread, 8), 1.0);
    const std::vector<double> alone{0.25};
    EXPECT_DOUBLE_EQ(static_update_s(alone, 1), 0.25);
}

TEST(Timing, SsgdGoesWithTheSlowestAndHasNoLag) {
    const PlanTiming timing = timing_of("ssgd", kSpread);
    EXPECT_DOUBLE_EQ(timing.update_s, 1.0);
    EXPECT_DOUBLE_EQ(timing.samples_s, 8 * kBatch);
    EXPECT_EQ(timing.mean_lag, 0);
    EXPECT_EQ(timing.max_lag, 0);
    EXPECT_EQ(timing.used, 1);
}

TEST(Timing, AsgdGoesAtEverybodysOwnPace) {
    const PlanTiming timing = timing_of("asgd", kOneSlow);
    EXPECT_NEAR(timing.samples_s, 75 * kBatch, 1e-6);
    EXPECT_NEAR(timing.update_s, 1.0 / 75, 1e-9);
    // A fast one's push lags by 6 of the fast and half a slow one; the slow one's by 14.
    EXPECT_NEAR(timing.mean_lag, (70 * 6.5 + 5 * 14) / 75 / 8, 2e-3);
    // Of two pushes of a fast one, one lags by 6 and one by 7.
    EXPECT_NEAR(timing.mean_square_lag, (35 * 36 + 35 * 49 + 5 * 14 * 14) / 75.0 / 64, 2e-2);
    EXPECT_NEAR(timing.max_lag, 14.0 / 8, 1e-9);
}

TEST(Timing, GroupsGoAtTheirOwnPace) {
    const PlanTiming timing = timing_of("dynamic", kHalfSlow);  // two groups of four
    EXPECT_NEAR(timing.update_s, 1.0 / 15, 1e-9);
    EXPECT_NEAR(timing.samples_s, 60 * kBatch, 1e-6);
    // Four of 0.5 for the fast, 2 x 0.5 for the slow, by pushes 2 : 1.
    EXPECT_NEAR(timing.mean_lag, (2 * 0.25 + 1.0) / 3, 5e-3);
    // Of two of a fast group's updates, one lags by nothing and one by a slow group's.
    EXPECT_NEAR(timing.mean_square_lag, (2 * 0.125 + 1.0) / 3, 5e-3);
    EXPECT_NEAR(timing.max_lag, 1, 1e-9);
}

TEST(Timing, StaticLagsByTheOthersUpdates) {
    for (const std::vector<double>& own_s : {kOneSlow, kHalfSlow, kTail, kSpread}) {
        for (int x = 1; x < 8; ++x) {
            const PlanTiming timing = timing_of(fmt::format("static:{}", x), own_s);
            // N/x - 1 updates of x/N reference batches.
            EXPECT_NEAR(timing.mean_lag, 1 - x / 8.0, 0.01)
                << x << ' ' << fmt::to_string(fmt::join(own_s, " "));
            EXPECT_EQ(timing.used, 1);
        }
    }
}

TEST(Timing, UnevenBatchesCountWithTheirSamples) {
    const std::vector<double> own_s(4, 0.1);  // everybody takes equally long for its batch
    const std::vector<std::int64_t> batches{80, 80, 64, 32};
    const PlanTiming timing = time_plan(plan_of("ssgd", own_s), own_s, batches, 256);
    EXPECT_NEAR(timing.update_s, 0.1, 1e-9);
    EXPECT_NEAR(timing.samples_s, 2560, 1e-6);
}

TEST(Timing, BackupsThatComeTooLateAreNotUsed) {
    // Seven make an update every 100 ms; the eighth's push comes every second one, too late.
    const PlanTiming timing = timing_of("backup:1", kOneSlow);
    EXPECT_NEAR(timing.update_s, 0.1, 1e-3);
    EXPECT_NEAR(timing.samples_s, 70 * kBatch, 0.01 * 70 * kBatch);
    EXPECT_NEAR(timing.used, 70.0 / 75, 0.01);
    EXPECT_EQ(timing.max_lag, 0);
}

TEST(Timing, InterruptedWorkIsNotUsed) {
    // Four of 100 ms are the quorum; four of 200 ms are interrupted half way.
    const PlanTiming timing = timing_of("ksync:4", kHalfSlow);
    EXPECT_NEAR(timing.update_s, 0.1, 1e-3);
    EXPECT_NEAR(timing.used, 4 / (4 + 4 * 0.5), 0.01);
}

TEST(Timing, GateHoldsTheFastToTheSlowest) {
    const PlanTiming free = timing_of("asgd", kOneSlow);
    const PlanTiming gated = timing_of("ssp:3", kOneSlow);
    EXPECT_NEAR(gated.samples_s, 8 * 5 * kBatch, 0.01 * 8 * 5 * kBatch);
    EXPECT_LT(gated.samples_s, free.samples_s);
    EXPECT_NEAR(timing_of("ssp:0", kTail).samples_s, timing_of("ssgd", kTail).samples_s, 1);
}

TEST(Timing, RidersJoinWithoutBeingWaitedFor) {
    std::vector<double> own_s = kOneSlow;
    own_s.back() = 0.19;  // joins every second round
    const SyncPlan plan = plan_of("ring:7", own_s, Architecture::kRing);
    const PlanTiming timing = timing_of(plan, own_s);
    EXPECT_NEAR(timing.update_s, 0.1, 1e-3);
    EXPECT_NEAR(timing.samples_s, 75 * kBatch, 0.01 * 75 * kBatch);
}

TEST(Timing, LagBoundCutsOffWhoIsTooSlow) {
    std::vector<double> own_s = kOneSlow;
    EXPECT_NEAR(timing_of("saps:2", own_s).samples_s, timing_of("asgd", own_s).samples_s, 1e-6);
    own_s.back() = 0.5;  // would lag by 35 pushes, 4.4 reference batches
    const PlanTiming bound = timing_of("saps:2", own_s);
    EXPECT_LT(bound.used, 0.99);
    EXPECT_LT(bound.max_lag, 4.4);
}

TEST(Timing, WhoHasNoPlaceTakesNoPart) {
    SyncPlan plan;
    plan.cohorts.push_back({.members = {1, 2}, .riders = {}, .quorum = 2});
    const std::vector<double> own_s{0, 0.1, 0.2};
    const std::vector<std::int64_t> batches{0, 10, 20};
    const PlanTiming timing = time_plan(plan, own_s, batches, 30);
    EXPECT_NEAR(timing.samples_s, 150, 1e-6);
}

TEST(Timing, WhoIsVerySlowIsNotForgotten) {
    std::vector<double> own_s(8, 0.001);
    own_s.back() = 10;
    const PlanTiming timing = timing_of("asgd", own_s);
    EXPECT_NEAR(timing.max_lag, 70'000.0 / 8, 10);
}

// --- the two ways of running a plan --------------------------------------------------------

TimingJob random_job(test::Dice& dice) {
    const int workers = 1 + dice.below(12);
    TimingJob job{.plan = {},
                  .own_s = {},
                  .own = {},
                  .batches = {},
                  .reference_batch = 64 * workers,
                  .tick_s = 1e-9,
                  .first = {},
                  .drawn_as = {}};
    job.plan.cohorts = test::random_cohorts(
        dice, workers, std::vector<bool>(static_cast<std::size_t>(workers), true));
    for (CohortSpec& cohort : job.plan.cohorts) {
        cohort.count = CohortSpec::Count::kWorkers;
        cohort.fresh_only = false;
        const auto members = static_cast<int>(cohort.members.size());
        cohort.quorum = std::min(cohort.quorum, members);
    }
    // Those without a place of their own make a cohort.
    std::vector<bool> placed(static_cast<std::size_t>(workers));
    for (const CohortSpec& cohort : job.plan.cohorts) {
        for (const auto& list : {cohort.members, cohort.riders}) {
            for (const int worker : list) {
                placed[static_cast<std::size_t>(worker)] = true;
            }
        }
    }
    for (int worker = 0; worker < workers; ++worker) {
        if (!placed[static_cast<std::size_t>(worker)]) {
            job.plan.cohorts.push_back({.members = {worker}, .riders = {}});
        }
        const Ticks own = 20'000'000 + dice.below(dice.one_in(4) ? 200'000'000 : 20'000'000);
        job.own.push_back(own);
        job.own_s.push_back(static_cast<double>(own) * 1e-9);
        job.batches.push_back(dice.one_in(2) ? 64 : 8 + dice.below(100));
    }
    return job;
}

void expect_same(const PlanTiming& a, const PlanTiming& b, double tolerance) {
    EXPECT_NEAR(a.samples_s, b.samples_s, tolerance * b.samples_s);
    EXPECT_NEAR(a.update_s, b.update_s, tolerance * b.update_s);
    EXPECT_NEAR(a.mean_lag, b.mean_lag, 2 * tolerance * (0.1 + b.mean_lag));
    EXPECT_EQ(a.used, b.used);
}

TEST(TimingRuns, LoopAndEngineAreTheSame) {
    test::Dice dice(7);
    for (int i = 0; i < 300; ++i) {
        SCOPED_TRACE(i);
        const TimingJob job = random_job(dice);
        expect_same(time_by_loop(job), time_by_engine(job), 0.01);
    }
}

// --- times that vary ----------------------------------------------------------------------------

/// Independent exponential times of mean 1.
TimeDraws exponential_draws(int workers, int replicates, int iterations) {
    std::mt19937_64 dice(17);
    std::exponential_distribution<> exponential;
    TimeDraws draws{.replicates = replicates, .iterations = iterations, .factors = {}};
    for (int i = 0; i < replicates * iterations * workers; ++i) {
        draws.factors.push_back(static_cast<float>(exponential(dice)));
    }
    return draws;
}

PlanTiming drawn(const std::string& mode, const TimeDraws& draws, int workers) {
    const std::vector<double> own_s(static_cast<std::size_t>(workers), 1.0);
    const std::vector<std::int64_t> batches(own_s.size(), 1);
    return time_plan(plan_of(mode, own_s), own_s, batches, workers, draws);
}

double harmonic(int from, int to) {
    double sum = 0;
    for (int i = from; i <= to; ++i) {
        sum += 1.0 / i;
    }
    return sum;
}

/// The times between updates are order statistics: of N exponential times the k-th is
/// sum(1/i, i = N-k+1..N) in the mean, and who goes on has as long to go as who begins.
TEST(TimingOnDraws, ExponentialTimesHaveClosedForms) {
    constexpr int kN = 8;
    const TimeDraws draws = exponential_draws(kN, 8, 4000);
    const double updates = 8 * 4000.0;  // ssgd's; the others have more
    const double ssgd_s = harmonic(1, kN);
    const double deviation = std::sqrt(harmonic(1, kN));  // above that of the maximum
    const PlanTiming ssgd = drawn("ssgd", draws, kN);
    EXPECT_NEAR(ssgd.update_s, ssgd_s, 4 * deviation / std::sqrt(updates));
    EXPECT_NEAR(ssgd.samples_s, kN / ssgd_s, 4 * deviation / std::sqrt(updates));
    EXPECT_EQ(ssgd.mean_lag, 0);
    for (const int x : {2, 4, 6}) {
        const double static_s = harmonic(kN - x + 1, kN);
        const PlanTiming timing = drawn(fmt::format("static:{}", x), draws, kN);
        EXPECT_NEAR(timing.update_s, static_s, 0.02 * static_s) << x;
        EXPECT_NEAR(timing.samples_s, x / static_s, 0.02 * x / static_s) << x;
        EXPECT_NEAR(timing.mean_lag, 1 - x / 8.0, 0.01) << x;
    }
    const PlanTiming asgd = drawn("asgd", draws, kN);
    EXPECT_NEAR(asgd.samples_s, kN, 0.02 * kN);
    EXPECT_NEAR(asgd.mean_lag, 7.0 / 8, 0.01);
}

/// Loop and engine see the same draws, also of a plan in which late pushes are updates of their
/// own.
TEST(TimingOnDraws, LoopAndEngineAreTheSame) {
    constexpr int kN = 8;
    const TimeDraws draws = exponential_draws(kN, 1, 500);
    for (const std::string mode : {"ssgd", "static:5", "quorum:7", "quorum:4", "asgd"}) {
        const std::vector<double> own_s(kN, 1.0);
        TimingJob job{.plan = plan_of(mode, own_s),
                      .own_s = own_s,
                      .own = std::vector<Ticks>(kN, 1'000'000),
                      .batches = std::vector<std::int64_t>(kN, 1),
                      .reference_batch = kN,
                      .tick_s = 1e-6,
                      .draws = &draws,
                      .first = {},
                      .drawn_as = {0, 1, 2, 3, 4, 5, 6, 7},
                      .drawn_workers = kN};
        expect_same(time_by_loop(job), time_by_engine(job), 1e-3);
    }
}

TEST(TimingOnDraws, ConstantDrawsAreConstantTimes) {
    const TimeDraws ones{
        .replicates = 2, .iterations = 400, .factors = std::vector<float>(6400, 1)};
    const std::vector<std::int64_t> batches(8, kBatch);
    for (const std::vector<double>& own_s : {kOneSlow, kHalfSlow, kTail, kSpread}) {
        for (const std::string mode : {"ssgd", "static:6", "quorum:6", "quorum:4", "asgd"}) {
            const PlanTiming constant = timing_of(mode, own_s);
            const PlanTiming timing =
                time_plan(plan_of(mode, own_s), own_s, batches, 8 * kBatch, ones);
            EXPECT_NEAR(timing.samples_s, constant.samples_s, 0.01 * constant.samples_s) << mode;
            EXPECT_NEAR(timing.mean_lag, constant.mean_lag, 0.02) << mode;
            EXPECT_THAT(timing.replicates, testing::SizeIs(2));
        }
    }
}

/// Workers have begun their first iteration with the batches that they had.
TEST(TimingOnDraws, TheFirstIterationIsTheOneUnderWay) {
    const TimeDraws ones{.replicates = 1, .iterations = 4, .factors = std::vector<float>(32, 1)};
    const std::vector<double> own_s(8, 0.1);
    const std::vector<std::int64_t> batches(8, kBatch);
    std::vector<double> first_s = own_s;
    first_s[3] = 0.5;
    const PlanTiming timing =
        time_plan(plan_of("ssgd", own_s), own_s, batches, 8 * kBatch, ones, first_s);
    EXPECT_NEAR(timing.samples_s, 4 * 8 * kBatch / 0.8, 1e-6);
}

}  // namespace
}  // namespace cohort
