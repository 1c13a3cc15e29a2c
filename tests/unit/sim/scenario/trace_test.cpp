#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "data/file/text_file.hpp"
#include "sim/scenario/trace.hpp"
#include "support/core/temp_folder.hpp"

namespace {

using cohort::read_trace;
using cohort::Shares;
using cohort::TraceRow;
using cohort::TraceTarget;
using testing::HasSubstr;
using testing::Not;
using testing::StrEq;
using testing::ThrowsMessage;

TraceTarget worker(int index) {
    return {.kind = TraceTarget::Kind::kWorker, .index = index};
}
TraceTarget node(int index) {
    return {.kind = TraceTarget::Kind::kNode, .index = index};
}

std::vector<TraceRow> parsed(const std::string& text) {
    const cohort::TempFolder folder;
    cohort::replace_text_file(folder.file("t.csv"), text);
    return read_trace(folder.file("t.csv"));
}

std::string refusal(const std::string& text) {
    const cohort::TempFolder folder;
    cohort::replace_text_file(folder.file("t.csv"), text);
    try {
        static_cast<void>(read_trace(folder.file("t.csv")));
    } catch (const cohort::FileError& error) {
        const std::string message = error.what();
        return message.substr(0, 1) + message.substr(1 + folder.path().size());
    }
    return "accepted";
}

TEST(Trace, ColumnsComeInAnyOrderAndMayBeMissing) {
    const std::vector<TraceRow> rows = parsed(
        "# by hand\n"
        "target, delay_s ,time_s\r\n"
        "worker:2,0.25,1.5\n"
        "\n"
        "node:0,0,2");
    EXPECT_EQ(rows, (std::vector<TraceRow>{
                        {.time_s = 1.5, .target = worker(2), .shares = {.delay_s = 0.25}},
                        {.time_s = 2, .target = node(0), .shares = {}},
                    }));
}

TEST(Trace, RowsAreSortedByTimeAndEqualTimesKeepTheirOrder) {
    const std::vector<TraceRow> rows = parsed(
        "time_s,target,cpu_share\n"
        "2,worker:0,0.5\n1,worker:1,0.5\n2,worker:0,0.25\n1,node:1,1\n");
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[0].target, worker(1));
    EXPECT_EQ(rows[1].target, node(1));
    EXPECT_EQ(rows[2].shares.cpu, 0.5);
    EXPECT_EQ(rows[3].shares.cpu, 0.25);
}

TEST(Trace, ErrorsNameLineAndField) {
    const std::string head = "time_s,target,cpu_share,rx_share\n";
    EXPECT_EQ(refusal(head + "0,worker:0,1.5,1\n"),
              "[/t.csv, line 2, cpu_share] cannot be used; expected a share, 1e-09 to 1, got "
              "'1.5'");
    EXPECT_EQ(refusal(head + "0,worker:0,1,1\n\n0,worker:0,0,1\n"),
              "[/t.csv, line 4, cpu_share] cannot be used; expected a share, 1e-09 to 1, got "
              "'0'");
    EXPECT_EQ(refusal(head + "soon,worker:0,1,1\n"),
              "[/t.csv, line 2, time_s] cannot be used; expected seconds, 0 to 1000000000000000, "
              "got 'soon'");
    EXPECT_EQ(refusal(head + "-1,worker:0,1,1\n"),
              "[/t.csv, line 2, time_s] cannot be used; expected seconds, 0 to 1000000000000000, "
              "got '-1'");
    EXPECT_THAT(refusal(head + "inf,worker:0,1,1\n"), HasSubstr("line 2, time_s]"));
    for (const std::string bad : {"rank:0", "worker", "worker:", "worker:-1", "worker:1x", "node:",
                                  "worker:65536", "node:2147483647", "worker:4294967297"}) {
        EXPECT_EQ(refusal(head + "0," + bad + ",1,1\n"),
                  "[/t.csv, line 2, target] cannot be understood; expected node:INDEX or "
                  "worker:INDEX, INDEX from 0 to 65535, got '" +
                      bad + "'");
    }
    EXPECT_EQ(refusal(head + "0,worker:0,1\n"),
              "[/t.csv, line 2] fields and columns differ in number; expected 4, got 3");
    EXPECT_EQ(refusal(head + "0,worker:0,1,0.5\n"),
              "[/t.csv, line 2, rx_share] a network card belongs to a node; expected 1 in rows of "
              "workers, got 0.5");
}

TEST(Trace, ErrorsOfTheHeader) {
    EXPECT_THAT(refusal("time_s,target,gpu_share\n"),
                HasSubstr("line 1] unknown column; expected time_s,target,cpu_share"));
    EXPECT_THAT(refusal("time_s,target,time_s\n"), HasSubstr("line 1] a column comes twice"));
    EXPECT_THAT(refusal("time_s,cpu_share\n"), HasSubstr("line 1] there is no column target"));
    EXPECT_THAT(refusal("# nothing\n"), HasSubstr("there is no header"));
    EXPECT_THROW(static_cast<void>(read_trace("/nowhere/t.csv")), cohort::FileError);
}

TEST(Trace, WhatIsWrittenIsReadAgain) {
    const std::vector<TraceRow> rows{
        {.time_s = 0, .target = worker(7), .shares = {.device = 1.0 / 3}},
        {.time_s = 0.1,
         .target = node(3),
         .shares = {.cpu = 0.7, .rx = 1e-9, .tx = 0.2, .device = 0.9, .delay_s = 12.5}},
        {.time_s = 1e6, .target = worker(7), .shares = {}},
    };
    const cohort::TempFolder folder;
    cohort::write_trace(folder.file("t.csv"), rows);
    EXPECT_EQ(read_trace(folder.file("t.csv")), rows);
    EXPECT_THROW(cohort::write_trace("/nowhere/t.csv", rows), cohort::FileError);
}

TEST(Trace, AScenarioGivesItsRowsInOrder) {
    const std::vector<TraceRow> rows{{.time_s = 3, .target = worker(0), .shares = {.cpu = 0.5}},
                                     {.time_s = 1, .target = worker(1), .shares = {}},
                                     {.time_s = 3, .target = worker(2), .shares = {}}};
    const auto scenario = cohort::make_scenario(rows);
    EXPECT_EQ(scenario->next_row(), rows[1]);
    EXPECT_EQ(scenario->next_row(), rows[0]);
    EXPECT_EQ(scenario->next_row(), rows[2]);
    EXPECT_EQ(scenario->next_row(), std::nullopt);
    EXPECT_FALSE(scenario->next_job());
    EXPECT_EQ(rows_until(*cohort::make_scenario(rows), 3).size(), 1U);
}

TEST(Trace, TargetsMustBeThere) {
    const std::vector<TraceRow> rows{{.time_s = 1.5, .target = worker(3), .shares = {}}};
    EXPECT_NO_THROW(cohort::check_targets(rows, 4, 1, "--trace"));
    EXPECT_THAT([&] { cohort::check_targets(rows, 3, 8, "--trace"); },
                ThrowsMessage<cohort::UsageError>(
                    StrEq("[--trace] a row at 1.5 s concerns a worker that is not there; expected "
                          "worker:0 to worker:2, got worker:3")));
}

TEST(Shape, WorkersAndServersAreSpreadEvenly) {
    const cohort::ClusterShape shared = cohort::spread_over_nodes(8, 4, 2, false, 0.5);
    EXPECT_EQ(shared.nodes, 4);
    EXPECT_EQ(shared.worker_nodes, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(shared.server_nodes, (std::vector<int>{0, 2}));
    EXPECT_EQ(shared.iteration_s, 0.5);
    const cohort::ClusterShape own = cohort::spread_over_nodes(3, 3, 2, true, 1);
    EXPECT_EQ(own.nodes, 5);
    EXPECT_EQ(own.worker_nodes, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(own.server_nodes, (std::vector<int>{3, 4}));
    EXPECT_TRUE(cohort::spread_over_nodes(2, 1, 0, false, 1).server_nodes.empty());
}

/// The lines of a picture of 10 columns over 10 seconds.
std::vector<std::string> picture(const std::vector<TraceRow>& rows,
                                 const cohort::ClusterShape& shape) {
    std::istringstream text(draw_trace_text(rows, shape, 10, 20));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) {
        lines.push_back(line);
    }
    return lines;
}

TEST(Picture, ShowsWorkersTimesAndSpeeds) {
    const std::vector<TraceRow> rows{
        {.time_s = 2, .target = worker(0), .shares = {.device = 0.5}},
        {.time_s = 3, .target = worker(0), .shares = {.device = 0.1}},
        {.time_s = 4, .target = worker(0), .shares = {}},
        // A delay of one iteration: half the speed; of a third of one: three quarters.
        {.time_s = 5, .target = worker(1), .shares = {.delay_s = 1}},
        {.time_s = 6, .target = worker(1), .shares = {.delay_s = 1.0 / 3}},
        {.time_s = 7, .target = worker(1), .shares = {.cpu = 0.3}},
    };
    const std::vector<std::string> lines =
        picture(rows, cohort::spread_over_nodes(2, 2, 1, false, 1));
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0], "worker 0  ··▒█······");
    EXPECT_EQ(lines[1], "worker 1  ·····▒░▓▓▓");
    EXPECT_EQ(lines[2], "          0 s   10 s");
    EXPECT_THAT(lines[3], HasSubstr("▒ from 50 %"));
}

TEST(Picture, AColumnIsTheMeanOfItsTime) {
    const std::vector<TraceRow> rows{
        {.time_s = 0, .target = worker(0), .shares = {.device = 0.4}},
        {.time_s = 0.5, .target = worker(0), .shares = {}},  // 0.4 and 1: mean 0.7
    };
    EXPECT_EQ(picture(rows, cohort::spread_over_nodes(1, 1, 0, false, 1))[0],
              "worker 0  ▒·········");
}

TEST(Picture, ANodesSharesCountForItsWorkersAndServers) {
    const std::vector<TraceRow> rows{
        {.time_s = 0, .target = node(1), .shares = {.rx = 0.5}},
        {.time_s = 0, .target = worker(2), .shares = {.device = 0.5}},
        {.time_s = 4, .target = node(1), .shares = {.device = 0.4}},
    };
    const std::vector<std::string> lines =
        picture(rows, cohort::spread_over_nodes(4, 2, 2, false, 1));
    ASSERT_EQ(lines.size(), 7U);
    EXPECT_EQ(lines[1], "worker 1  ··········");
    EXPECT_EQ(lines[2], "worker 2  ▒▒▒▒██████");
    EXPECT_EQ(lines[3], "worker 3  ▒▒▒▒▓▓▓▓▓▓");
    EXPECT_EQ(lines[4], "server 1  ▒▒▒▒······") << "a server that is never slower has no lane";
}

TEST(Picture, ManyWorkersShareLanes) {
    const std::vector<TraceRow> rows{{.time_s = 0, .target = worker(1), .shares = {.device = 0.1}}};
    const std::vector<std::string> lines =
        picture(rows, cohort::spread_over_nodes(130, 130, 0, false, 1));
    ASSERT_EQ(lines.size(), 44U + 2U) << "three workers in a lane";
    EXPECT_THAT(lines[0], HasSubstr("workers 0-2"));
    EXPECT_THAT(lines[0], HasSubstr("▒▒▒")) << "(1 + 0.1 + 1) / 3 = 0.7";
    EXPECT_THAT(lines[43], HasSubstr("worker 129 "));
}

TEST(Picture, TheSvgIsWholeAndSaysWhatItShows) {
    const std::vector<TraceRow> rows{{.time_s = 2, .target = worker(0), .shares = {.device = 0.5}},
                                     {.time_s = 4, .target = worker(0), .shares = {}}};
    const std::string svg = draw_trace_svg(rows, cohort::spread_over_nodes(2, 2, 1, false, 1), 8);
    EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    EXPECT_THAT(svg, HasSubstr("<title id=\"title\">Speed of 2 workers over 8 s</title>"));
    EXPECT_THAT(svg, HasSubstr("<desc id=\"desc\">"));
    EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
    EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.50\"><title>worker 0, 2 to 4 s: 50 %</title>"));
    EXPECT_THAT(svg, Not(HasSubstr("<script")));
    EXPECT_THAT(svg, Not(HasSubstr("href")));
}

}  // namespace
