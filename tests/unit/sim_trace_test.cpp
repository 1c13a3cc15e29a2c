#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/data/text_file.hpp"
#include "cohort/sim/trace.hpp"
#include "support/temp_folder.hpp"

namespace {

using cohort::read_trace;
using cohort::Shares;
using cohort::TraceRow;
using cohort::TraceTarget;
using testing::HasSubstr;

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
    EXPECT_EQ(
        refusal(head + "0,worker:0,1.5,1\n"),
        "[/t.csv, line 2, cpu_share] cannot be used; expected a share above 0, 1 at most, got "
        "'1.5'");
    EXPECT_EQ(
        refusal(head + "0,worker:0,1,1\n\n0,worker:0,0,1\n"),
        "[/t.csv, line 4, cpu_share] cannot be used; expected a share above 0, 1 at most, got "
        "'0'");
    EXPECT_EQ(refusal(head + "soon,worker:0,1,1\n"),
              "[/t.csv, line 2, time_s] cannot be used; expected seconds, from 0, got 'soon'");
    EXPECT_EQ(refusal(head + "-1,worker:0,1,1\n"),
              "[/t.csv, line 2, time_s] cannot be used; expected seconds, from 0, got '-1'");
    EXPECT_THAT(refusal(head + "inf,worker:0,1,1\n"), HasSubstr("line 2, time_s]"));
    for (const std::string bad :
         {"rank:0", "worker", "worker:", "worker:-1", "worker:1x", "node:"}) {
        EXPECT_EQ(refusal(head + "0," + bad + ",1,1\n"),
                  "[/t.csv, line 2, target] cannot be understood; expected node:INDEX or "
                  "worker:INDEX, got '" +
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
    try {
        cohort::check_targets(rows, 3, 8, "--trace");
        FAIL();
    } catch (const cohort::UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "[--trace] a row at 1.5 s concerns a worker that is not there; expected "
                     "worker:0 to worker:2, got worker:3");
    }
}

}  // namespace
