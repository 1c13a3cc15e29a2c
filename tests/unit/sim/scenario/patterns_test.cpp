#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "sim/scenario/trace.hpp"
#include "support/core/message_of.hpp"

namespace {

using cohort::ClusterShape;
using cohort::make_pattern;
using cohort::Scenario;
using cohort::Shares;
using cohort::TraceRow;
using cohort::TraceTarget;
using testing::HasSubstr;

/// A worker per node; servers on the first nodes.
ClusterShape shape_of(int workers, int servers = 1, double iteration_s = 1) {
    ClusterShape shape{.workers = workers,
                       .nodes = workers,
                       .worker_nodes = std::vector<int>(static_cast<std::size_t>(workers)),
                       .server_nodes = std::vector<int>(static_cast<std::size_t>(servers)),
                       .iteration_s = iteration_s};
    std::iota(shape.worker_nodes.begin(), shape.worker_nodes.end(), 0);
    std::iota(shape.server_nodes.begin(), shape.server_nodes.end(), 0);
    return shape;
}

std::vector<TraceRow> rows_of(const std::string& pattern, double until_s,
                              const ClusterShape& shape = shape_of(8), std::uint64_t seed = 1) {
    return rows_until(*make_pattern(pattern, shape, seed), until_s);
}

/// Seconds up to `end_s` in which a target's shares fulfil a condition.
template <class Condition>
double seconds_with(const std::vector<TraceRow>& rows, double end_s, Condition condition) {
    std::map<TraceTarget, TraceRow> last;
    double sum = 0;
    for (const TraceRow& row : rows) {
        if (const auto before = last.find(row.target);
            before != last.end() && condition(before->second.shares)) {
            sum += row.time_s - before->second.time_s;
        }
        last[row.target] = row;
    }
    for (const auto& [target, row] : last) {
        sum += condition(row.shares) ? end_s - row.time_s : 0;
    }
    return sum;
}

bool slow_device(const Shares& shares) {
    return shares.device < 1;
}

/// Patterns that are rows of a trace; sim_iteration_delays_test has the others.
std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const cohort::PatternInfo& info : cohort::patterns()) {
        if (!info.by_iteration) {
            all.push_back(info.name);
        }
    }
    return all;
}

std::string refusal(const std::string& pattern) {
    return cohort::test::message_of<cohort::UsageError>(
        [&] { return make_pattern(pattern, shape_of(2), 1); });
}

TEST(Patterns, NamesAndStrengthsAreChecked) {
    EXPECT_EQ(names(),
              (std::vector<std::string>{"healthy", "persistent", "delay", "half", "transient",
                                        "blip", "onoff", "clustered", "heterogeneous", "bandwidth",
                                        "colocated", "server-hot", "storm"}));
    EXPECT_THAT(refusal("steady"), HasSubstr("[--pattern] there is no such pattern; expected "
                                             "healthy, persistent, delay"));
    for (const std::string bad : {"half:0.5", "half:", "half:x", "half:2x", "half:nan", "half:inf",
                                  "half:-2", "half:1e9"}) {
        EXPECT_THAT(refusal(bad),
                    HasSubstr("the strength cannot be used; expected a number from 1"))
            << bad;
    }
    EXPECT_THAT(refusal("healthy:2"), HasSubstr("no strength"));
    EXPECT_EQ(refusal("healthy:1"), "");
}

TEST(Patterns, WithStrengthOneNothingHappens) {
    for (const std::string& name : names()) {
        const auto scenario = make_pattern(name + ":1", shape_of(8), 1);
        EXPECT_EQ(scenario->next_row(), std::nullopt) << name;
        EXPECT_FALSE(scenario->next_job()) << name;
    }
    EXPECT_EQ(make_pattern("healthy", ClusterShape{}, 1)->next_row(), std::nullopt);
}

TEST(Patterns, EachIsInOrderWithinTheClusterAndWithinLimits) {
    for (const std::string& name : names()) {
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            const std::vector<TraceRow> rows = rows_of(name, 2000, shape_of(8, 2), seed);
            cohort::check_targets(rows, 8, 8, name);
            double time_s = 0;
            for (const TraceRow& row : rows) {
                EXPECT_GE(row.time_s, time_s) << name;
                time_s = row.time_s;
                for (const double share :
                     {row.shares.cpu, row.shares.rx, row.shares.tx, row.shares.device}) {
                    EXPECT_GT(share, 0) << name;
                    EXPECT_LE(share, 1) << name;
                }
                EXPECT_GE(row.shares.delay_s, 0) << name;
            }
        }
    }
}

TEST(Patterns, TheSameSeedGivesTheSameHoweverFarItIsRead) {
    for (const std::string& name : names()) {
        const std::vector<TraceRow> whole = rows_of(name, 3000);
        EXPECT_EQ(rows_of(name, 3000), whole) << name;
        const std::vector<TraceRow> part = rows_of(name, 500);
        ASSERT_LE(part.size(), whole.size()) << name;
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << name;
    }
    EXPECT_NE(rows_of("transient", 3000), rows_of("transient", 3000, shape_of(8), 2));
}

/// Everything is as long in iterations when iterations last longer.
TEST(Patterns, LengthsCountInIterations) {
    for (const std::string& name : names()) {
        const std::vector<TraceRow> one = rows_of(name, 500, shape_of(8, 1, 1));
        const std::vector<TraceRow> quarter = rows_of(name, 125, shape_of(8, 1, 0.25));
        ASSERT_EQ(one.size(), quarter.size()) << name;
        for (std::size_t i = 0; i < one.size(); ++i) {
            EXPECT_NEAR(quarter[i].time_s, one[i].time_s / 4, 1e-9) << name;
            EXPECT_NEAR(quarter[i].shares.delay_s, one[i].shares.delay_s / 4, 1e-9) << name;
            EXPECT_EQ(quarter[i].shares.device, one[i].shares.device) << name;
        }
    }
}

TEST(Patterns, PersistentSlowsOneWorkersDevice) {
    std::set<int> chosen;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const std::vector<TraceRow> rows = rows_of("persistent:5", 1e6, shape_of(8), seed);
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_EQ(rows[0].time_s, 0);
        EXPECT_EQ(rows[0].target.kind, TraceTarget::Kind::kWorker);
        EXPECT_EQ(rows[0].shares, (Shares{.device = 0.2}));
        chosen.insert(rows[0].target.index);
    }
    EXPECT_EQ(chosen.size(), 8U) << "every worker is chosen by some seed";
}

TEST(Patterns, DelayIsConstantAndAsLongAsTheStrengthSays) {
    const std::vector<TraceRow> rows = rows_of("delay:3", 1e6, shape_of(8, 1, 0.25));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].shares, (Shares{.delay_s = 0.5}));
}

TEST(Patterns, HalfSlowsHalfTheWorkers) {
    for (const int workers : {1, 2, 7, 8}) {
        const std::vector<TraceRow> rows = rows_of("half", 1e6, shape_of(workers));
        std::set<int> slow;
        for (const TraceRow& row : rows) {
            EXPECT_EQ(row.shares, (Shares{.device = 0.5}));
            slow.insert(row.target.index);
        }
        EXPECT_EQ(slow.size(), static_cast<std::size_t>((workers + 1) / 2));
        EXPECT_EQ(rows.size(), slow.size());
    }
}

/// 8 workers, 1-2 % of iterations: over long times each is slow as often as that says.
TEST(Patterns, TransientSlownessIsAsFrequentAndLongAsItSays) {
    constexpr double kEnd = 200'000;
    for (const auto& [pattern, length] : {std::pair<std::string, double>{"transient:2", 36},
                                          std::pair<std::string, double>{"blip:5", 5}}) {
        const std::vector<TraceRow> rows = rows_of(pattern, kEnd);
        std::map<int, double> begun;
        double episodes = 0;
        for (const TraceRow& row : rows) {
            ASSERT_EQ(row.target.kind, TraceTarget::Kind::kWorker);
            if (slow_device(row.shares)) {
                begun[row.target.index] = row.time_s;
                ++episodes;
            } else {
                EXPECT_NEAR(row.time_s - begun[row.target.index], length, 1e-6);
            }
        }
        EXPECT_EQ(begun.size(), 8U);
        const double healthy_s = kEnd - seconds_with(rows, kEnd, slow_device) / 8;
        EXPECT_GT(episodes / healthy_s, 0.009) << pattern;
        EXPECT_LT(episodes / healthy_s, 0.022) << pattern;
    }
}

/// A worker among 64 is slow as often as one among 8: a larger cluster has more slow workers.
TEST(Patterns, TransientSlownessGrowsWithTheCluster) {
    constexpr double kEnd = 20'000;
    for (const int workers : {8, 64}) {
        const std::vector<TraceRow> rows = rows_of("transient", kEnd, shape_of(workers));
        const double share = seconds_with(rows, kEnd, slow_device) / kEnd / workers;
        // 1-2 % / 8 per iteration, 36 iterations long: 4.3 % to 8.3 % of the time.
        EXPECT_GT(share, 0.03) << workers;
        EXPECT_LT(share, 0.10) << workers;
    }
}

TEST(Patterns, TheHogComesAndGoesEverySixtyIterationsOnANodeWithoutAServer) {
    const std::vector<TraceRow> rows = rows_of("onoff:3", 1000);
    ASSERT_GE(rows.size(), 15U);
    EXPECT_LT(rows[0].time_s, 60);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].target, rows[0].target);
        EXPECT_NEAR(rows[i].time_s, rows[0].time_s + 60 * static_cast<double>(i), 1e-9);
        const double left = i % 2 == 0 ? 1.0 / 3 : 1;
        EXPECT_EQ(rows[i].shares, (Shares{.cpu = left, .device = left}));
    }
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const TraceRow row = rows_of("onoff", 100, shape_of(8, 7), seed).at(0);
        EXPECT_EQ(row.target.kind, TraceTarget::Kind::kNode);
        EXPECT_EQ(row.target.index, 7) << "the only node without a server";
    }
}

TEST(Patterns, ClustersAreTwoOrThreeGroupsOfLikeWorkersThatDrift) {
    std::set<std::size_t> counts;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        std::map<int, std::vector<std::pair<double, double>>> speeds;
        for (const TraceRow& row : rows_of("clustered:3", 5000, shape_of(9), seed)) {
            speeds[row.target.index].emplace_back(row.time_s, row.shares.device);
        }
        EXPECT_EQ(speeds.size(), 9U) << "all workers belong to a group";
        std::map<std::vector<std::pair<double, double>>, int> groups;
        for (const auto& [index, course] : speeds) {
            ++groups[course];
        }
        counts.insert(groups.size());
        for (const auto& [course, members] : groups) {
            EXPECT_GE(members, 3);
            EXPECT_GT(course.size(), 100U) << "its speed changes every 20 iterations";
        }
    }
    EXPECT_EQ(counts, (std::set<std::size_t>{2, 3}));
}

TEST(Patterns, TheSlowestClusterIsSlowerByTheStrengthOnAverage) {
    std::map<int, std::vector<double>> slowness;
    for (const TraceRow& row : rows_of("clustered:3", 200'000, shape_of(8))) {
        slowness[row.target.index].push_back(1 / row.shares.device);
    }
    double slowest = 1;
    double fastest = 100;
    for (const auto& [index, course] : slowness) {
        const double mean =
            std::accumulate(course.begin(), course.end(), 0.0) / static_cast<double>(course.size());
        slowest = std::max(slowest, mean);
        fastest = std::min(fastest, mean);
    }
    EXPECT_NEAR(slowest, 3, 0.2);
    EXPECT_LT(fastest, 1.2);
}

TEST(Patterns, HeterogeneousWorkersAllDifferAndTheSlowestIsSlowerByTheStrength) {
    std::set<int> slowest;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        std::map<double, int> by_slowness{{1, -1}};  // the fastest has no row
        for (const TraceRow& row : rows_of("heterogeneous:5", 1e6, shape_of(8), seed)) {
            EXPECT_EQ(row.time_s, 0);
            EXPECT_EQ(row.shares, (Shares{.device = row.shares.device})) << "the device alone";
            by_slowness[1 / row.shares.device] = row.target.index;
        }
        ASSERT_EQ(by_slowness.size(), 8U) << "no two alike";
        EXPECT_NEAR(by_slowness.rbegin()->first, 5, 1e-12);
        slowest.insert(by_slowness.rbegin()->second);
        double before = std::pow(5, -1 / 7.);
        for (const auto& [slowness, worker] : by_slowness) {
            EXPECT_NEAR(slowness / before, std::pow(5, 1 / 7.), 1e-9) << "even steps";
            before = slowness;
        }
    }
    EXPECT_EQ(slowest.size(), 8U) << "every worker is the slowest of some seed";
    EXPECT_TRUE(rows_of("heterogeneous:5", 1e6, shape_of(1)).empty());
}

TEST(Patterns, BandwidthTakesBothDirectionsOfACardAndAddsADelay) {
    const std::vector<TraceRow> rows = rows_of("bandwidth:5", 20'000);
    std::set<int> nodes;
    for (const TraceRow& row : rows) {
        ASSERT_EQ(row.target.kind, TraceTarget::Kind::kNode);
        nodes.insert(row.target.index);
        if (row.shares != Shares{}) {
            EXPECT_EQ(row.shares.rx, 0.2);
            EXPECT_EQ(row.shares.tx, 0.2);
            EXPECT_DOUBLE_EQ(row.shares.delay_s, 0.08);
            EXPECT_EQ(row.shares.device, 1);
        }
    }
    EXPECT_EQ(nodes.size(), 7U) << "all but the server's";
    const double slow = seconds_with(rows, 20'000, [](const Shares& s) { return s.rx < 1; });
    EXPECT_NEAR(slow / 20'000, 0.5, 0.06);
}

TEST(Patterns, TheHotServersNodeHasLessProcessorAndNetwork) {
    const std::vector<TraceRow> rows = rows_of("server-hot:4", 1e6, shape_of(8, 1));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].target.kind, TraceTarget::Kind::kNode);
    EXPECT_EQ(rows[0].target.index, 0);
    EXPECT_EQ(rows[0].shares, (Shares{.cpu = 0.25, .rx = 0.25, .tx = 0.25}));
}

/// Little's law: jobs there on average = arrivals per second x mean stay.
TEST(Patterns, ColocatedJobsAreAsManyAsTheStrengthSays) {
    constexpr double kEnd = 400'000;
    const auto scenario = make_pattern("colocated:4", shape_of(8), 1);
    double work = 0;
    double before = 0;
    int first = 0;
    std::map<int, int> sizes;
    for (auto job = scenario->next_job(); job && job->time_s < kEnd; job = scenario->next_job()) {
        EXPECT_GE(job->time_s, before);
        before = job->time_s;
        first += job->time_s == 0 ? 1 : 0;
        EXPECT_GE(job->first_node, 0);
        EXPECT_LT(job->first_node, 8);
        EXPECT_GE(job->iterations, 1);
        EXPECT_EQ(job->servers, (job->workers + 1) / 2);
        work += std::min(static_cast<double>(job->iterations), kEnd - job->time_s);
        ++sizes[job->workers];
    }
    EXPECT_EQ(first, 3);
    EXPECT_NEAR(work / kEnd, 3, 0.5);
    EXPECT_GT(sizes[1], sizes[2] + sizes[4]) << "most jobs are small";
    EXPECT_EQ(scenario->next_row(), std::nullopt);
}

TEST(Patterns, AStormMultipliesSharesAndAddsDelays) {
    const auto scenario = make_pattern("storm:3", shape_of(4, 1), 1);
    const std::vector<TraceRow> rows = rows_until(*scenario, 5000);
    EXPECT_TRUE(scenario->next_job());
    bool delayed = false;
    bool product = false;
    std::set<std::pair<double, TraceTarget>> moments;
    for (const TraceRow& row : rows) {
        EXPECT_TRUE(moments.emplace(row.time_s, row.target).second)
            << "one row per target and moment";
        delayed = delayed || row.shares.delay_s == 1;
        product = product || row.shares.device < 0.3;
    }
    EXPECT_TRUE(delayed) << "the worker with a delay of (2 - 1) iterations";
    EXPECT_TRUE(product) << "two causes of factor 2 on the same device";
}

}  // namespace
