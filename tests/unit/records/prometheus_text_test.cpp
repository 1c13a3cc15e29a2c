#include "records/prometheus_text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace cohort {
namespace {

using Type = PrometheusText::Type;

TEST(PrometheusText, MetricsHaveHelpTypeAndLabels) {
    PrometheusText text("run", "a");
    text.metric("cohort_updates_total", Type::kCounter, "Updates.");
    text.sample(12);
    text.metric("cohort_worker_wait_seconds", Type::kGauge, "Waiting.");
    text.sample(0.25, {{"worker", "0"}});
    text.sample(1e-9, {{"worker", "1"}, {"cause", "cpu"}});
    EXPECT_EQ(text.text(),
              "# HELP cohort_updates_total Updates.\n"
              "# TYPE cohort_updates_total counter\n"
              "cohort_updates_total{run=\"a\"} 12\n"
              "# HELP cohort_worker_wait_seconds Waiting.\n"
              "# TYPE cohort_worker_wait_seconds gauge\n"
              "cohort_worker_wait_seconds{run=\"a\",worker=\"0\"} 0.25\n"
              "cohort_worker_wait_seconds{run=\"a\",worker=\"1\",cause=\"cpu\"} 1e-09\n");
}

TEST(PrometheusText, WhatBreaksLinesIsEscaped) {
    PrometheusText text("run", "a\"b\\c\nd");
    text.metric("m", Type::kGauge, "one\ntwo \\ \"three\"");
    text.sample(1);
    EXPECT_EQ(text.text(),
              "# HELP m one\\ntwo \\\\ \"three\"\n# TYPE m gauge\n"
              "m{run=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(PrometheusText, NumbersThatAreNotFiniteHaveNames) {
    PrometheusText text("run", "a");
    text.metric("m", Type::kGauge, "M.");
    text.sample(std::numeric_limits<double>::quiet_NaN());
    text.sample(std::numeric_limits<double>::infinity());
    text.sample(-std::numeric_limits<double>::infinity());
    EXPECT_TRUE(text.text().ends_with("m{run=\"a\"} NaN\nm{run=\"a\"} +Inf\nm{run=\"a\"} -Inf\n"));
}

}  // namespace
}  // namespace cohort
