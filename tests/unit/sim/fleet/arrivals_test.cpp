// Jobs that are drawn: rates and shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "cohort/sim/fleet.hpp"

namespace cohort {
namespace {

FleetArrivals many() {
    return {.jobs = 20000,
            .per_hour = 120,
            .workers = {1, 4, 16},
            .weights = {6, 3, 1},
            .length_sigma = 0.8,
            .length_most = 100,
            .workloads = {"a", "b"},
            .seed = 3};
}

double deviation(std::vector<double> values, double mean) {
    double sum = 0;
    for (const double value : values) {
        sum += (value - mean) * (value - mean);
    }
    return std::sqrt(sum / static_cast<double>(values.size()));
}

/// A Poisson process: gaps have the mean of the rate, and deviate by as much.
TEST(FleetArrivals, ComeAtTheirRate) {
    const std::vector<DrawnJob> jobs = draw_arrivals(many());
    ASSERT_EQ(jobs.size(), 20000U);
    std::vector<double> gaps;
    double before = 0;
    for (const DrawnJob& job : jobs) {
        gaps.push_back(job.arrival_s - before);
        ASSERT_GE(gaps.back(), 0);
        before = job.arrival_s;
    }
    const double mean = before / 20000;
    EXPECT_NEAR(mean, 30, 1);
    EXPECT_NEAR(deviation(gaps, 30), 30, 1.5);
    EXPECT_NEAR(static_cast<double>(std::ranges::count_if(gaps, [](double g) { return g > 30; })),
                20000 * std::exp(-1), 300);
}

TEST(FleetArrivals, HaveTheSizesLengthsAndWorkloadsThatWereAskedFor) {
    std::map<int, int> sizes;
    std::map<std::string, int> workloads;
    std::vector<double> logarithms;
    for (const DrawnJob& job : draw_arrivals(many())) {
        ++sizes[job.workers];
        ++workloads[job.workload];
        logarithms.push_back(std::log(job.length));
    }
    EXPECT_NEAR(sizes[1], 12000, 250);
    EXPECT_NEAR(sizes[4], 6000, 250);
    EXPECT_NEAR(sizes[16], 2000, 200);
    EXPECT_NEAR(workloads["a"], 10000, 250);
    EXPECT_NEAR(workloads["b"], 10000, 250);
    EXPECT_NEAR(median(logarithms), 0, 0.02);
    EXPECT_NEAR(deviation(logarithms, 0), 0.8, 0.02);
    EXPECT_NEAR(quantile(logarithms, 0.95), 1.645 * 0.8, 0.05);
}

TEST(FleetArrivals, LengthsAreCut) {
    FleetArrivals arrivals = many();
    arrivals.length_most = 1.5;
    double longest = 0;
    for (const DrawnJob& job : draw_arrivals(arrivals)) {
        longest = std::max(longest, job.length);
    }
    EXPECT_EQ(longest, 1.5);
}

TEST(FleetArrivals, AnotherRateChangesTimesAlone) {
    FleetArrivals arrivals = many();
    arrivals.jobs = 100;
    const std::vector<DrawnJob> slow = draw_arrivals(arrivals);
    arrivals.per_hour *= 2;
    const std::vector<DrawnJob> fast = draw_arrivals(arrivals);
    arrivals.seed = 4;
    const std::vector<DrawnJob> other = draw_arrivals(arrivals);
    int same_workers = 0;
    for (std::size_t i = 0; i < slow.size(); ++i) {
        EXPECT_NEAR(slow[i].arrival_s, 2 * fast[i].arrival_s, 1e-6);
        EXPECT_EQ(slow[i].workers, fast[i].workers);
        EXPECT_EQ(slow[i].length, fast[i].length);
        EXPECT_EQ(slow[i].workload, fast[i].workload);
        EXPECT_EQ(slow[i].seed, fast[i].seed);
        EXPECT_NE(slow[i].seed, other[i].seed);
        same_workers += slow[i].workers == other[i].workers ? 1 : 0;
    }
    EXPECT_LT(same_workers, 80) << "another seed gives other jobs";
}

}  // namespace
}  // namespace cohort
