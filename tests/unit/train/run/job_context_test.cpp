// What choosers are told of a job.
#include "train/run/job_context.hpp"

#include <gtest/gtest.h>

#include "cohort/train/own_network.hpp"
#include "support/core/temp_folder.hpp"
#include "support/data/tiny_dataset.hpp"

namespace cohort {
namespace {

class JobFactsTest : public testing::Test {
protected:
    JobFactsTest() {
        options_.data = folder_.file("tiny.h5");
        options_.model = "mlp";
        options_.batch = 16;
        options_.momentum = 0.8;
        options_.beta1 = 0.7;
        Hdf5Thread hdf5;
        write_tiny_dataset(options_.data, 64, 16, hdf5);
    }

    [[nodiscard]] JobFacts facts(const OwnNetwork* network = nullptr) const {
        return job_facts(JobContext(options_, 2, {}, network));
    }

    TempFolder folder_;
    TrainOptions options_;
};

TEST_F(JobFactsTest, WithSgdTheCostOfLocalStepsIsKnown) {
    EXPECT_TRUE(facts().local_steps);
    EXPECT_EQ(facts().momentum, 0.8);
    EXPECT_GT(facts().flops_per_sample, 0);
}

TEST_F(JobFactsTest, OfANetworkOfTheProgramToo) {
    const OwnNetwork network{
        .graph = make_tensor_graph("theirs", {{"weight", Shape{3}, {1, 2, 3}}}, {}),
        .make = {},
        .evaluates = false};
    EXPECT_TRUE(facts(&network).local_steps);
    EXPECT_EQ(facts(&network).flops_per_sample, 0) << "not known";
    EXPECT_EQ(facts(&network).parameters, 3);
}

TEST_F(JobFactsTest, WithAdamwItIsNot) {
    options_.optimizer = OptimizerKind::kAdamW;
    EXPECT_FALSE(facts().local_steps);
    EXPECT_EQ(facts().momentum, 0.7);
}

TEST_F(JobFactsTest, NorWhereNothingIsLearned) {
    options_.compute = "sleep:1ms";
    EXPECT_FALSE(facts().local_steps);
    EXPECT_EQ(facts().flops_per_sample, 0);
}

}  // namespace
}  // namespace cohort
