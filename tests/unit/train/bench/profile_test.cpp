// What a model's iteration and a server's update cost here.
#include <gtest/gtest.h>

#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "train/bench/profile_measure.hpp"

namespace cohort {
namespace {

TEST(FitCosts, FindsALineThatIsThere) {
    const std::vector<CostPoint> points = {{8, 3 + 8 * 0.5}, {16, 3 + 16 * 0.5}, {64, 35}};
    const CostFit line = fit_costs(points);
    EXPECT_NEAR(line.fixed_s, 3, 1e-12);
    EXPECT_NEAR(line.per_unit_s, 0.5, 1e-12);
}

TEST(FitCosts, SmallCostsCountAsMuchAsLargeOnes) {
    // The last point is 1 % off: by as much in absolute terms as the first one's whole cost.
    const CostFit line = fit_costs(std::vector<CostPoint>{{1, 2}, {2, 3}, {100, 102.01}});
    EXPECT_NEAR(line.fixed_s, 1, 0.02);
    EXPECT_NEAR(line.per_unit_s, 1, 0.02);
}

TEST(FitCosts, NothingIsNegative) {
    const CostFit steep = fit_costs(std::vector<CostPoint>{{1, 1}, {2, 3}});
    EXPECT_EQ(steep.fixed_s, 0);
    // sum x/y / sum x^2/y^2 = (1 + 2/3) / (1 + 4/9)
    EXPECT_NEAR(steep.per_unit_s, 15.0 / 13, 1e-12);
    const CostFit falling = fit_costs(std::vector<CostPoint>{{1, 2}, {2, 1}});
    EXPECT_EQ(falling.per_unit_s, 0);
    EXPECT_NEAR(falling.fixed_s, 1.2, 1e-12);  // (1/2 + 1) / (1/4 + 1)
}

TEST(FitCosts, RefusesWhatIsNoMeasurement) {
    EXPECT_THROW((void)fit_costs(std::vector<CostPoint>{{1, 1}}), UsageError);
    EXPECT_THROW((void)fit_costs(std::vector<CostPoint>{{1, 1}, {2, 0}}), UsageError);
}

TEST(MeasureProfile, SaysWhatAModelCosts) {
    const MeasuredProfile profile =
        measure_profile({.model = "lenet", .input = "1x28x28", .batch = 16, .repetitions = 7});
    const Graph graph = make_model("lenet", Shape{1, 28, 28}, 10);
    const Workload& workload = profile.workload;
    EXPECT_EQ(workload.name, "lenet");
    EXPECT_EQ(workload.parameter_bytes, 4.0 * static_cast<double>(graph.parameters().total()));
    EXPECT_GT(workload.device_s_per_sample, 0);
    EXPECT_GE(workload.device_s, 0);
    EXPECT_GT(workload.backward_share, 0.1);
    EXPECT_LT(workload.backward_share, 0.95);
    ASSERT_EQ(profile.device.size(), 4U);
    EXPECT_EQ(profile.device.front().units, 4);
    EXPECT_EQ(profile.device.back().units, 32);
    EXPECT_GT(profile.device.back().seconds, profile.device.front().seconds);
    EXPECT_EQ(profile.input.size(), 4U);
    EXPECT_GT(workload.cpu_s + workload.cpu_s_per_sample, 0);
    ASSERT_EQ(profile.updates.size(), 8U);
    EXPECT_EQ(profile.updates.front().units, 6 * workload.parameter_bytes) << "1 push, 4, 1 copy";
    EXPECT_GT(profile.memory_bytes_per_s, 1e7);
}

TEST(MeasureProfile, ABatchOfOneIsMeasuredOnce) {
    const MeasuredProfile profile = measure_profile(
        {.model = "softmax", .input = "12", .classes = 3, .batch = 1, .repetitions = 7});
    ASSERT_EQ(profile.device.size(), 2U);
    EXPECT_EQ(profile.device[0].units, 1);
    EXPECT_EQ(profile.device[1].units, 2);
}

TEST(MeasureProfile, SaysWhatIsWrong) {
    EXPECT_THROW((void)measure_profile({.repetitions = 6}), UsageError);
    EXPECT_THROW((void)measure_profile({.batch = 0}), UsageError);
    for (const char* input : {"x", "1x", "1x28", "0", "1x2x3x4", "1x28x28x", "a"}) {
        EXPECT_THROW((void)measure_profile({.input = input}), UsageError) << input;
    }
    EXPECT_THROW((void)measure_profile({.model = "lenet", .input = "784"}), ShapeError);
    EXPECT_THROW((void)measure_profile({.augment = "crop"}), UsageError);
}

}  // namespace
}  // namespace cohort
