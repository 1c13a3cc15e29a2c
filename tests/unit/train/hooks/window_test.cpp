#include <gtest/gtest.h>

#include "train/hooks/step_window.hpp"

namespace cohort {
namespace {

StepReport applied(std::int64_t samples, double loss_sum, double correct) {
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

}  // namespace
}  // namespace cohort
