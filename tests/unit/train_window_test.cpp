#include <gtest/gtest.h>

#include "cohort/train/process_usage.hpp"
#include "step_window.hpp"

namespace cohort {
namespace {

StepReport applied(std::int64_t samples, double loss_sum, std::int64_t correct) {
    StepReport step;
    step.result = {.loss_sum = loss_sum, .correct = correct, .samples = samples};
    step.applied = true;
    return step;
}

TEST(StepWindow, WeighsSamplesNotSteps) {
    StepWindow window;
    window.restart(Clock::Seconds(10));
    window.add(applied(1, 5, 0));
    window.add(applied(9, 5, 9));
    EXPECT_DOUBLE_EQ(window.loss(), 1.0);
    EXPECT_DOUBLE_EQ(window.accuracy(), 0.9);
    EXPECT_DOUBLE_EQ(window.samples_per_s(Clock::Seconds(12)), 5);
    window.exclude(1);
    EXPECT_DOUBLE_EQ(window.samples_per_s(Clock::Seconds(12)), 10);
}

TEST(StepWindow, DroppedStepsDoNotCount) {
    StepWindow window;
    window.add(StepReport());
    EXPECT_EQ(window.samples(), 0);
    EXPECT_EQ(window.loss(), 0);
}

TEST(LossScore, MeasuresInStandardDeviations) {
    LossScore score;
    for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(score.add(i % 2 == 0 ? 1.0 : 3.0), 0) << "too few values to judge";
    }
    EXPECT_DOUBLE_EQ(score.add(4.0), 2.0);
}

TEST(LossScore, ConstantLossIsUsual) {
    LossScore score;
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(score.add(0.1), 0);
    }
}

TEST(LossScore, ForgetsAfter128) {
    LossScore score;
    for (int i = 0; i < 20; ++i) {
        score.add(1000);
    }
    for (int i = 0; i < 128; ++i) {
        score.add(i % 2 == 0 ? 1.0 : 3.0);
    }
    EXPECT_DOUBLE_EQ(score.add(4.0), 2.0);
}

TEST(ProcessUsage, GrowsWithWorkAndMemory) {
    const double before = process_cpu_seconds();
    double sink = 1;
    while (process_cpu_seconds() <= before) {
        sink = sink * 1.0000001 + 1e-9;
    }
    EXPECT_GT(sink, 0);
    const std::uint64_t small = process_peak_bytes();
    const std::vector<char> block(std::size_t{64} << 20U, 1);
    EXPECT_GE(process_peak_bytes() + block.front(), small + (std::uint64_t{48} << 20U));
}

}  // namespace
}  // namespace cohort
