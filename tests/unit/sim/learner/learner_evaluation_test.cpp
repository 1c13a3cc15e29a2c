// What a virtual run evaluates: its parameters, or the running mean of their versions.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/learner/learner_pool.hpp"
#include "support/sim/learner_run.hpp"

namespace cohort {
namespace {

using test::kBatch;
using test::kLr;
using test::lone_update;
using test::LoneTrainer;
using test::slice;
using test::synchronous_update;
using test::tiny_options;

TEST(Learner, EvaluatesAsAReplicaDoes) {
    LearnerOptions options = tiny_options("resnet20");
    options.threads = 2;
    const std::unique_ptr<Learner> learner = make_learner(options);
    LoneTrainer lone(options);
    for (int i = 0; i < 3; ++i) {
        synchronous_update(*learner, {slice(i * kBatch)}, i + 1, 1);
        lone_update(lone, {slice(i * kBatch)}, 1);
    }
    const SampleMemory test = test::tiny_samples("test");
    for (const std::int64_t most : {std::int64_t{0}, std::int64_t{37}, std::int64_t{100000}}) {
        const std::int64_t samples = most == 37 ? most : static_cast<std::int64_t>(test::kTinyTest);
        SampleBatch batch;
        std::vector<std::int64_t> ids;
        for (std::int64_t id = 0; id < samples; ++id) {
            ids.push_back(id);
        }
        test.load(ids, 0, batch);
        const BatchResult wanted = lone.replica.evaluate(batch.view());
        const Learner::Accuracy accuracy = learner->evaluate(most);
        EXPECT_EQ(accuracy.samples, samples);
        EXPECT_EQ(accuracy.accuracy,
                  static_cast<double>(wanted.correct) / static_cast<double>(samples));
        EXPECT_NEAR(accuracy.loss, wanted.loss_sum / static_cast<double>(samples), 1e-5);
    }
}

/// All versions so far, each with the weight of its samples; from the time constant on the newest
/// counts with its share of that.
TEST(ParameterStore, AveragesItsVersions) {
    constexpr double kTimeConstant = 40;
    LearnerOptions options = tiny_options("resnet20");
    LoneTrainer lone(options);
    ParameterStore store(lone.graph(), {.kind = OptimizerKind::kSgd, .momentum = 0.9}, 7,
                         kTimeConstant);
    LearnerPool pool(lone.graph(), 2);
    std::vector<double> mean;
    double samples = 0;
    std::int64_t version = 0;
    for (const std::int64_t count : {12, 6, 12, 30, 80}) {
        const std::vector<float> gradient = lone.gradient(slice(version * kBatch));
        const std::shared_ptr<float> values = store.take_buffer();
        std::copy(gradient.begin(), gradient.end(), values.get());
        store.apply({.version = ++version,
                     .fraction = 1,
                     .learning_rate = kLr,
                     .terms = {{.push = {}, .coefficient = 1}},
                     .samples = count},
                    std::span(&values, 1), pool);
        const Learner::Released now = store.release(0, 0);
        samples += static_cast<double>(count);
        mean.resize(gradient.size());
        const double weight =
            std::min(1.0, static_cast<double>(count) / std::min(samples, kTimeConstant));
        const Learner::Released averaged = store.average();
        const float* newest = now->values().get();
        const float* found = averaged->values().get();
        for (std::size_t i = 0; i < mean.size(); ++i) {
            mean[i] += weight * (static_cast<double>(newest[i]) - mean[i]);
            ASSERT_NEAR(found[i], mean[i], 1e-5 + 1e-5 * std::abs(mean[i])) << version << ' ' << i;
        }
    }
}

TEST(Learner, EvaluatesTheMeanOfItsParameters) {
    LearnerOptions options = tiny_options();
    options.average_samples = 1;  // the newest version alone
    const std::unique_ptr<Learner> newest = make_learner(options);
    options.average_samples = 1000;
    const std::unique_ptr<Learner> mean = make_learner(options);
    for (int i = 0; i < 4; ++i) {
        synchronous_update(*newest, {slice(i * kBatch)}, i + 1, 1);
        synchronous_update(*mean, {slice(i * kBatch)}, i + 1, 1);
    }
    EXPECT_EQ(newest->evaluate_average(0).loss, newest->evaluate(0).loss);
    EXPECT_EQ(newest->evaluate_average(37).samples, 37);
    EXPECT_NE(mean->evaluate_average(0).loss, mean->evaluate(0).loss);
    EXPECT_EQ(mean->evaluate(0).loss, newest->evaluate(0).loss);
    EXPECT_EQ(mean->digest(), newest->digest()) << "it only watches";
}

}  // namespace
}  // namespace cohort
