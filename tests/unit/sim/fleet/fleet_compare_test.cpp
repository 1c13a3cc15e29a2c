// Fleets of several labels, job by job.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "cohort/core/error.hpp"
#include "cohort/sim/fleet.hpp"

namespace cohort {
namespace {

/// Jobs that take `times` as long as drawn by the seed; every third one misses its target.
FleetResult fleet(const std::string& label, std::uint64_t seed, double times, int jobs = 20) {
    FleetResult result;
    result.label = label;
    result.seed = seed;
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    for (int i = 0; i < jobs; ++i) {
        const double arrival = 10.0 * i;
        const double took = times * std::uniform_real_distribution<double>(50, 150)(random);
        FleetJobResult job{.name = "job " + std::to_string(i), .target_accuracy = 0.8};
        job.arrival_s = arrival;
        job.start_s = arrival;
        job.end_s = arrival + took;
        if (i % 3 != 0) {
            job.target_s = arrival + took;
        }
        job.state = i % 3 != 0 ? FleetJobState::kTarget : FleetJobState::kBudget;
        result.jobs.push_back(job);
    }
    return result;
}

TEST(FleetCompare, RatiosAreThoseOfTheSameJobs) {
    std::vector<FleetResult> results;
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
        results.push_back(fleet("slow", seed, 1));
        results.push_back(fleet("fast", seed, 0.5));
    }
    const auto compared = compare_fleets(results);
    ASSERT_EQ(compared.size(), 2U);
    EXPECT_EQ(compared[0].label, "slow");
    EXPECT_DOUBLE_EQ(compared[0].tta.value, 1);
    EXPECT_EQ(compared[1].label, "fast");
    EXPECT_EQ(compared[1].pairs, 80U);
    EXPECT_EQ(compared[1].seeds, 4U);
    EXPECT_EQ(compared[1].missed, 28U);
    EXPECT_NEAR(compared[1].tta.value, 0.5, 1e-12);
    EXPECT_NEAR(compared[1].tta.low, 0.5, 1e-12) << "the same ratio in each seed";
    EXPECT_NEAR(compared[1].completion.high, 0.5, 1e-12);
}

TEST(FleetCompare, TheIntervalHoldsWhatDiffersFromSeedToSeed) {
    const std::vector<double> times{0.4, 0.5, 0.6, 0.7, 0.8};
    std::vector<FleetResult> results;
    for (std::size_t i = 0; i < times.size(); ++i) {
        results.push_back(fleet("slow", i, 1));
        results.push_back(fleet("other", i, times[i]));
    }
    const FleetComparison other = compare_fleets(results)[1];
    EXPECT_NEAR(other.tta.value, 0.6, 0.02);
    EXPECT_LT(other.tta.low, 0.55);
    EXPECT_GT(other.tta.low, 0.4);
    EXPECT_GT(other.tta.high, 0.65);
    EXPECT_LT(other.tta.high, 0.8);
}

TEST(FleetCompare, TimesToAccuracyAreThoseOfJobsWithATarget) {
    FleetResult first = fleet("a", 1, 1, 6);
    FleetResult second = fleet("b", 1, 2, 6);
    for (FleetResult* result : {&first, &second}) {
        for (std::size_t i = 1; i < 6; ++i) {
            result->jobs[i].target_accuracy = 0;
        }
    }
    *second.jobs[1].end_s *= 100;
    const FleetComparison found = compare_fleets({first, second})[1];
    EXPECT_EQ(found.pairs, 6U);
    EXPECT_EQ(found.missed, 1U);
    EXPECT_NEAR(found.tta.value, 2, 1e-12);
    EXPECT_GT(found.completion.value, 3);
    first.jobs[0].target_accuracy = 0;
    EXPECT_EQ(compare_fleets({first, second})[1].tta.value, 0);
}

TEST(FleetCompare, CountsOnlyJobsThatEndedInBoth) {
    FleetResult first = fleet("a", 1, 1, 6);
    FleetResult second = fleet("b", 1, 2, 5);
    first.jobs[1].state = FleetJobState::kFailed;
    second.jobs[2].state = FleetJobState::kStopped;
    const FleetResult elsewhere = fleet("b", 9, 2, 5);
    const FleetComparison found = compare_fleets({first, second, elsewhere})[1];
    EXPECT_EQ(found.pairs, 3U);
    EXPECT_EQ(found.seeds, 1U) << "seed 9 has no partner";
    EXPECT_NEAR(found.tta.value, 2, 1e-12);
    EXPECT_EQ(compare_fleets({first, elsewhere})[1].pairs, 0U);
    EXPECT_THROW((void)compare_fleets({first, first}), UsageError);
    EXPECT_TRUE(compare_fleets({}).empty());
}

}  // namespace
}  // namespace cohort
