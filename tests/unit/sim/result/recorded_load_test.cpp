#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <tuple>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "data/file/text_file.hpp"
#include "sim/result/replay.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

SimulationResult recorded(const test::VirtualRuns& runs, bool record) {
    SimulateOptions options = runs.options("ssgd", 3, 60);
    options.record_load = record;
    return simulate(options, {});
}

void write_load(const std::string& file, const std::vector<IterationRecord>& records) {
    std::string text = recorded_load_header();
    for (const IterationRecord& record : records) {
        append_recorded_load(text, record, 64);
    }
    replace_text_file(file, text);
}

TEST(RecordedLoad, ComesBackFromTheResult) {
    test::VirtualRuns runs;
    runs.slow_workers({0.1, 0.1, 0.3});
    const SimulationResult result = recorded(runs, true);
    ASSERT_EQ(result.records.size(), 60U);
    const TempFolder folder;
    write_result(folder.path(), result);
    const RecordedLoad load = read_recorded_load(folder.path());
    EXPECT_EQ(load.workers, 3);
    EXPECT_EQ(load.batch, 64);
    EXPECT_EQ(load.what, load.options.at("trace"));
    ASSERT_EQ(load.records.size(), result.records.size());
    for (std::size_t i = 0; i < load.records.size(); ++i) {
        const IterationRecord& a = load.records[i];
        const IterationRecord& b = result.records[i];
        EXPECT_EQ(a.worker, b.worker);
        EXPECT_EQ(a.iteration, b.iteration);
        EXPECT_EQ(a.arrived_s, b.arrived_s);
        EXPECT_EQ(a.own_s(), b.own_s());
        EXPECT_EQ(a.wait_s, b.wait_s);
        EXPECT_EQ(a.use.cpu_share, b.use.cpu_share);
        EXPECT_EQ(a.use.rx_bytes_s, b.use.rx_bytes_s);
    }
    const std::vector<PredictorSeries> series = series_of(load);
    ASSERT_EQ(series.size(), 3U);
    EXPECT_EQ(series[0].features.size(), 20U);
}

/// A real run's, nine digits of each number.
TEST(RecordedLoad, ComesBackFromAFile) {
    test::VirtualRuns runs;
    runs.slow_workers({0.1, 0.1, 0.3});
    const SimulationResult result = recorded(runs, true);
    const TempFolder folder;
    const std::string file = folder.file("load.csv");
    write_load(file, result.records);
    const RecordedLoad load = read_recorded_load(file);
    EXPECT_EQ(load.workers, 3);
    EXPECT_EQ(load.batch, 64);
    EXPECT_EQ(load.what, file);
    ASSERT_EQ(load.records.size(), result.records.size());
    for (std::size_t i = 0; i < load.records.size(); ++i) {
        const IterationRecord& a = load.records[i];
        const IterationRecord& b = result.records[i];
        EXPECT_EQ(std::tie(a.worker, a.iteration, a.samples, a.version),
                  std::tie(b.worker, b.iteration, b.samples, b.version));
        EXPECT_NEAR(a.own_s(), b.own_s(), 1e-8 * b.own_s());
        EXPECT_NEAR(a.arrived_s, b.arrived_s, 1e-8 * b.arrived_s);
        EXPECT_NEAR(a.use.tx_bytes_s, b.use.tx_bytes_s, 1e-8 * b.use.tx_bytes_s);
    }
    EXPECT_EQ(series_of(load)[0].features.size(), series_of(load)[2].features.size());
    write_load(file, {});
    EXPECT_THROW((void)read_recorded_load(file), FileError) << "nothing was recorded";
}

TEST(RecordedLoad, NumbersBeyondTheirRangeAreRefusedWithLineAndColumn) {
    const TempFolder folder;
    const std::string file = folder.file("load.csv");
    write_load(file, {{.worker = 1, .iteration = 2, .samples = 3}});
    const std::string good = read_text_file(file);
    EXPECT_EQ(read_recorded_load(file).workers, 2);
    const std::string row = "64,1,2,3,";
    for (const auto& [bad, column] : {std::pair("64,2147483648,2,3,", "worker"),
                                      {"64,1e18,2,3,", "worker"},
                                      {"64,65536,2,3,", "worker"},
                                      {"64,1,1e30,3,", "iteration"},
                                      {"64,1,2,-3,", "samples"},
                                      {"1e9,1,2,3,", "batch"},
                                      {"64,nan,2,3,", "worker"},
                                      {"64,1,2.5,3,", "iteration"}}) {
        std::string text = good;
        replace_text_file(file, text.replace(text.find(row), row.size(), bad));
        EXPECT_THAT(
            [&] { (void)read_recorded_load(file); },
            testing::ThrowsMessage<FileError>(testing::HasSubstr(std::string("line 2, ") + column)))
            << bad;
    }
}

TEST(RecordedLoad, RecordsThatCannotBeOfTheRunAreRefused) {
    test::VirtualRuns runs;
    runs.slow_workers({0.1, 0.1, 0.3});
    const SimulationResult good = recorded(runs, true);
    const TempFolder folder;
    const auto refused = [&](const auto& spoil) {
        SimulationResult result = good;
        spoil(result, result.records.back());
        std::filesystem::remove(folder.file(kResultFile));
        write_result(folder.path(), result);
        EXPECT_THROW((void)read_recorded_load(folder.path()), FileError);
    };
    refused([](auto&, auto& record) { record.worker = 3; });
    refused([](auto&, auto& record) { record.worker = -1; });
    refused([](auto&, auto& record) { record.arrived_s = -INFINITY; });
    refused([](auto& result, auto& record) { record.arrived_s = 2 * result.virtual_s; });
    refused([](auto&, auto& record) { record.compute_s = NAN; });
    refused([](auto&, auto& record) { record.use.rx_bytes_s = 1e308; });
    refused([](auto& result, auto&) { result.healthy_iteration_s = 0; });
}

TEST(RecordedLoad, SaysWhichOptionOfTheRunIsMissingOrWrong) {
    test::VirtualRuns runs;
    runs.slow_workers({0.1, 0.1, 0.3});
    const TempFolder folder;
    write_result(folder.path(), recorded(runs, true));
    const RecordedLoad load = read_recorded_load(folder.path());
    for (const char* value : {"", "three", "3x"}) {
        RecordedLoad broken = load;
        broken.options["nodes"] = value;
        if (*value == 0) {
            broken.options.erase("nodes");
        }
        EXPECT_THAT([&] { (void)make_replay_predictor(broken, "oracle", ""); },
                    testing::ThrowsMessage<FileError>(testing::AllOf(
                        testing::HasSubstr("--nodes"), testing::HasSubstr(folder.path()))))
            << value;
    }
}

TEST(RecordedLoad, OracleAndBaselinesReplayIt) {
    test::VirtualRuns runs;
    runs.slow_workers({0.1, 0.1, 0.3});
    const TempFolder folder;
    write_result(folder.path(), recorded(runs, true));
    const RecordedLoad load = read_recorded_load(folder.path());
    for (const char* name : {"oracle", "last", "auto"}) {
        const auto predictor = make_replay_predictor(load, name, "");
        const std::vector<PredictorScore> scores =
            replay_scores(*predictor, load.records, load.workers, load.batch);
        ASSERT_EQ(scores.size(), kHorizons.size());
        EXPECT_EQ(scores[0].predictor, name);
        EXPECT_GT(scores[0].predictions, 40);
        EXPECT_EQ(scores[0].f1, 1) << name << ": one worker is slow all the time";
        EXPECT_LT(scores[0].relative_error, 0.02) << name;
    }
}

TEST(RecordedLoad, ARunThatWasNotRecordedSaysSo) {
    const test::VirtualRuns runs;
    const SimulationResult result = recorded(runs, false);
    EXPECT_TRUE(result.records.empty());
    const TempFolder folder;
    write_result(folder.path(), result);
    EXPECT_THROW((void)read_recorded_load(folder.path()), FileError);
}

TEST(RecordedLoad, RecordingChangesNothing) {
    const test::VirtualRuns runs;
    EXPECT_EQ(recorded(runs, true).digest, recorded(runs, false).digest);
}

}  // namespace
}  // namespace cohort
