// One worker on a cluster where only its device counts, 0.1 s an iteration; slow from 1 s to 2 s.
#include <gtest/gtest.h>

#include "sim/scenario/oracle_predictor.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kBatch = 64;
const TraceTarget kWorker{.kind = TraceTarget::Kind::kWorker, .index = 0};
const TraceTarget kNode{.kind = TraceTarget::Kind::kNode, .index = 0};

std::unique_ptr<Predictor> oracle(std::vector<TraceRow> rows) {
    const ClusterProfile profile = test::plain_profile();
    return make_oracle_predictor(make_scenario(std::move(rows)),
                                 spread_over_nodes(2, 2, 1, false, 0.1), profile,
                                 profile.workload("plain"), kBatch);
}

IterationRecord record(double at_s, double own_s) {
    return {.worker = 0, .samples = kBatch, .arrived_s = at_s, .compute_s = own_s};
}

TEST(Oracle, ForeseesBeginAndEnd) {
    const auto predictor = oracle({{.time_s = 1, .target = kWorker, .shares = {.device = 0.5}},
                                   {.time_s = 2, .target = kWorker, .shares = {}}});
    predictor->add(record(0.75, 0.1));
    const std::vector<float> row = predictor->predict().own_s.at(0);
    ASSERT_EQ(row.size(), static_cast<std::size_t>(kMaxHorizon));
    EXPECT_NEAR(row[0], 0.1, 1e-6);
    EXPECT_NEAR(row[1], 0.1, 1e-6);
    EXPECT_NEAR(row[2], 0.05 + 2 * 0.05, 1e-6) << "half of it before, half after the begin";
    EXPECT_NEAR(row[3], 0.2, 1e-6);
    EXPECT_NEAR(row[29], 0.1, 1e-6);
    EXPECT_TRUE(predictor->predict().own_s.at(1).empty()) << "nothing is known of it";
}

TEST(Oracle, SharesMultiplyAndDelaysAdd) {
    const auto predictor =
        oracle({{.time_s = 0, .target = kWorker, .shares = {.device = 0.5, .delay_s = 0.05}},
                {.time_s = 0, .target = kNode, .shares = {.device = 0.5, .delay_s = 0.01}}});
    predictor->add(record(0.5, 0.46));
    EXPECT_NEAR(predictor->predict().mean(0, 1), 0.4 + 0.06, 1e-6);
}

TEST(Oracle, WaitingMovesWhatComesLater) {
    const auto predictor = oracle({{.time_s = 0.95, .target = kWorker, .shares = {.device = 0.5}}});
    IterationRecord waited = record(0.5, 0.1);
    waited.wait_s = 0.1;
    predictor->add(waited);
    const std::vector<float> row = predictor->predict().own_s.at(0);
    EXPECT_NEAR(row[2], 0.15, 1e-6) << "begun at 0.9, half of it before";
}

TEST(Oracle, AnArrayOfQuestionsReadsTheTraceOnce) {
    std::vector<TraceRow> rows;
    for (int i = 0; i < 1000; ++i) {
        rows.push_back({.time_s = static_cast<double>(i),
                        .target = kWorker,
                        .shares = {.device = i % 2 == 0 ? 1 : 0.5}});
    }
    const auto predictor = oracle(rows);
    for (int i = 0; i < 900; ++i) {
        predictor->add(record(i + 0.0005, 0.1));
        EXPECT_NEAR(predictor->predict().mean(0, 1), i % 2 == 0 ? 0.1 : 0.2, 1e-6) << i;
    }
}

TEST(Oracle, AVirtualRunConfirmsIt) {
    // Whatever it says of the next iteration of a worker alone comes true, but for rounding.
    test::VirtualRuns runs;
    runs.rows = {{.time_s = 1.03, .target = kWorker, .shares = {.device = 0.25}},
                 {.time_s = 3.3, .target = kWorker, .shares = {}}};
    SimulateOptions options = runs.options("asgd", 2, 120);
    options.record_load = true;
    const SimulationResult result = simulate(options, {});
    const auto predictor = oracle(runs.rows);
    double error = 0;
    int judged = 0;
    for (const IterationRecord& each : result.records) {
        if (each.worker != 0) {
            continue;
        }
        const double said = predictor->predict().mean(0, 1);
        error += said > 0 ? std::abs(said - each.own_s(kBatch)) / each.own_s(kBatch) : 0;
        judged += said > 0 ? 1 : 0;
        predictor->add(each);
    }
    EXPECT_GT(judged, 20);
    EXPECT_LT(error / judged, 0.01);
}

}  // namespace
}  // namespace cohort
