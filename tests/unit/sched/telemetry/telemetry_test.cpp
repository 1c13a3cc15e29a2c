// The history of iterations: fixed size, newest first, scaled to the batch.
#include "cohort/sched/telemetry.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

IterationRecord record(int worker, std::int64_t iteration, double compute_s,
                       std::int64_t samples = 10) {
    return {.worker = worker,
            .iteration = iteration,
            .samples = samples,
            .input_s = 0.25,
            .compute_s = compute_s,
            .push_s = 0.5,
            .pull_s = 0.125,
            .wait_s = 100};
}

/// Of the newest `count` records or fewer, oldest first.
std::vector<double> newest_times(const TelemetryHistory& history, int worker, std::size_t count) {
    std::vector<double> times;
    for (std::size_t age = std::min(count, history.size(worker)); age > 0; --age) {
        times.push_back(history.record(worker, age - 1).own_s(history.batch()));
    }
    return times;
}

TEST(TelemetryHistory, OwnTimeHasItsPartsButNoWaiting) {
    EXPECT_DOUBLE_EQ(record(0, 1, 1).own_s(), 1.875);
    EXPECT_DOUBLE_EQ(record(0, 1, 1).transfer_s(), 0.625);
}

TEST(TelemetryHistory, KeepsTheNewestOfEachWorker) {
    TelemetryHistory history(2, 10, 3);
    for (int i = 1; i <= 5; ++i) {
        history.add(record(1, i, i));
    }
    history.add(record(0, 1, 1));
    EXPECT_EQ(history.added(), 6);
    EXPECT_EQ(history.size(0), 1U);
    EXPECT_EQ(history.size(1), 3U);
    EXPECT_EQ(history.record(1, 0).iteration, 5);
    EXPECT_EQ(history.record(1, 2).iteration, 3);
    EXPECT_THAT(newest_times(history, 1, 2), ElementsAre(4.875, 5.875));
    EXPECT_THAT(newest_times(history, 1, 100), ElementsAre(3.875, 4.875, 5.875));
}

TEST(TelemetryHistory, TimesAreScaledToTheBatch) {
    TelemetryHistory history(1, 20);
    history.add(record(0, 1, 1, 10));
    history.add(record(0, 2, 1, 40));
    // Input and computing: 1.25 times 2, times a half. Sending and receiving: 0.625 either way.
    EXPECT_THAT(newest_times(history, 0, 2), ElementsAre(3.125, 1.25));
}

TEST(TelemetryHistory, ForgetsAWorkerAndGoesOnWithIt) {
    TelemetryHistory history(1, 10, 3);
    for (int i = 1; i <= 4; ++i) {
        history.add(record(0, i, i));
    }
    history.forget(0);
    EXPECT_EQ(history.size(0), 0U);
    EXPECT_THAT(newest_times(history, 0, 3), IsEmpty());
    history.add(record(0, 1, 9));
    EXPECT_THAT(newest_times(history, 0, 3), ElementsAre(9.875));
    for (int i = 2; i <= 5; ++i) {
        history.add(record(0, i, i));
    }
    EXPECT_THAT(newest_times(history, 0, 9), ElementsAre(3.875, 4.875, 5.875));
}

TEST(TelemetryHistory, ManyWorkersKeepLessEach) {
    EXPECT_EQ(TelemetryHistory::depth_for(8), 256U);
    EXPECT_EQ(TelemetryHistory::depth_for(1024), 64U);
    EXPECT_EQ(TelemetryHistory::depth_for(65536), 32U);
}

}  // namespace
}  // namespace cohort
