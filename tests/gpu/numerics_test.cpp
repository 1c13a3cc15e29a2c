// Numbers at the edge, on every backend: means far from zero, logits that overflow an exponential,
// answers that tie, gates that saturate, samples without labels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/gpu/gpu_backend.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

class Numerics : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override { need(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Backends, Numerics, ::testing::ValuesIn(all_backends()), backend_name);

TEST_P(Numerics, BatchNormSurvivesAMeanFarFromZero) {
    if (GetParam().is_short()) {
        GTEST_SKIP() << "a sample of 100 + x has lost x already";
    }
    TwinBuilder net(Shape{3, 6, 5});
    const Twin twin = net.finish_linear(net.batch_norm(net.input()));
    const auto owned = GetParam().replica(twin.graph);
    randomise(owned->replica, 3);
    OwnedBatch batch = random_batch(twin.graph, 12, 3);
    for (float& value : batch.samples) {
        value += 100.0F;
    }
    const ReferenceResult wanted = run_reference(twin, owned->replica, batch, 0, true);
    owned->replica.train_step(batch.view());
    const std::vector<float> got = host_copy(owned->replica, owned->replica.batch_state());
    for (const FlatRange& range : twin.graph.state().ranges()) {
        for (std::int64_t i = range.offset; i < range.offset + range.size; ++i) {
            const auto at = static_cast<std::size_t>(i);
            EXPECT_NEAR(got[at], wanted.batch_state[at], 2e-3 * std::abs(wanted.batch_state[at]))
                << range.name;
        }
    }
}

TEST_P(Numerics, BatchNormOfEqualSamplesHasNoVariance) {
    TwinBuilder net(Shape{9, 2, 2});
    const Twin twin = net.finish_linear(net.relu(net.batch_norm(net.input())));
    const auto owned = GetParam().replica(twin.graph);
    owned->replica.initialise(1);
    OwnedBatch batch = random_batch(twin.graph, 7, 3);
    std::fill(batch.samples.begin(), batch.samples.end(), 0.75F);
    const BatchResult result = owned->replica.train_step(batch.view());
    EXPECT_TRUE(std::isfinite(result.loss_sum));
    const std::vector<float> got = host_copy(owned->replica, owned->replica.batch_state());
    const FlatRange* mean = twin.graph.state().find("batch_norm1.running_mean");
    const FlatRange* variance = twin.graph.state().find("batch_norm1.running_var");
    ASSERT_TRUE(mean != nullptr && variance != nullptr);
    for (std::int64_t c = 0; c < 9; ++c) {
        EXPECT_NEAR(got[static_cast<std::size_t>(mean->offset + c)], 0.75F, 1e-6F);
        EXPECT_NEAR(got[static_cast<std::size_t>(variance->offset + c)], 0.0F, 1e-6F);
        EXPECT_GE(got[static_cast<std::size_t>(variance->offset + c)], 0.0F);
    }
}

TEST_P(Numerics, LossTakesLargeLogits) {
    TwinBuilder net(Shape{2});
    const Twin twin = net.finish(net.linear(net.input(), {.features = 3, .bias = false}));
    const auto owned = GetParam().replica(twin.graph);
    std::vector<float> parameters(owned->replica.parameters().size(), 0.0F);
    parameters[0] = 8192.0F;  // logits (8192, 0, 0): exp overflows without care
    assign(owned->replica, owned->replica.parameters(), parameters);
    const std::vector<float> samples{1.0F, 0.0F};
    const std::int64_t id = 0;
    for (const std::int32_t label : {0, 2}) {
        const BatchResult got = owned->replica.train_step({samples.data(), &label, &id, 1});
        EXPECT_DOUBLE_EQ(got.loss_sum, label == 0 ? 0.0 : 8192);
        EXPECT_EQ(got.correct, label == 0 ? 1 : 0);
    }
}

TEST_P(Numerics, FirstOfEqualLogitsIsTheAnswer) {
    TwinBuilder net(Shape{2});
    const Twin twin = net.finish(net.linear(net.input(), {.features = 4}));
    const auto owned = GetParam().replica(twin.graph);  // zero parameters: four equal logits
    const std::vector<float> samples{1.0F, 0.0F, 0.5F, 2.0F};
    const std::vector<std::int32_t> labels{0, 3};
    const BatchResult got = owned->replica.evaluate({samples.data(), labels.data(), nullptr, 2});
    EXPECT_EQ(got.correct, 1);
    EXPECT_NEAR(got.loss_sum, 2 * std::log(4.0), 1e-6);
}

TEST_P(Numerics, ManyClassesAndManySamples) {
    // More than a block of threads has, of either.
    TwinBuilder net(Shape{5});
    const Twin twin = net.finish(net.linear(net.input(), {.features = 3001}));
    const auto owned = GetParam().replica(twin.graph);
    expect_matches(twin, owned->replica, {3, 700}, limits(GetParam(), 4));
}

TEST_P(Numerics, LstmHoldsWhereGatesSaturate) {
    TwinBuilder net(Shape{5, 2});
    const Twin twin = net.finish_regression(net.lstm(net.input(), {.hidden = 4}));
    const auto owned = GetParam().replica(twin.graph);
    randomise(owned->replica, 2);
    std::vector<float> parameters = host_copy(owned->replica, owned->replica.parameters());
    for (float& value : parameters) {
        value *= 60.0F;
    }
    assign(owned->replica, owned->replica.parameters(), parameters);
    // In short types a gate at its edge is open or not: values only.
    const OwnedBatch batch = random_batch(twin.graph, 6, 2);
    if (GetParam().precision == Precision::kF32) {
        expect_step_matches(twin, owned->replica, batch, limits(GetParam()));
        return;
    }
    EXPECT_TRUE(std::isfinite(owned->replica.train_step(batch.view()).loss_sum));
    const std::vector<float> gradients = host_copy(owned->replica, owned->replica.gradients());
    EXPECT_TRUE(
        std::all_of(gradients.begin(), gradients.end(), [](float g) { return std::isfinite(g); }));
}

TEST_P(Numerics, InfersWithoutLabelsAndIdsWhatItEvaluates) {
    const Twin twin = structure("dropout_everywhere").make();
    const auto owned = GetParam().replica(twin.graph, {.deterministic = true});
    randomise(owned->replica, 1);
    const OwnedBatch batch = random_batch(twin.graph, 19, 1);
    BatchView unlabelled = batch.view();
    unlabelled.labels = nullptr;
    unlabelled.sample_ids = nullptr;
    std::vector<float> logits(19 * 5);
    for (int again = 0; again < 3; ++again) {
        owned->replica.infer(unlabelled, logits);
        double loss = 0;
        std::int64_t correct = 0;
        for (std::size_t n = 0; n < 19; ++n) {
            const float* z = logits.data() + n * 5;
            double total = 0;
            for (int c = 0; c < 5; ++c) {
                total += std::exp(static_cast<double>(z[c]));
            }
            loss += std::log(total) - static_cast<double>(z[batch.labels[n]]);
            correct += std::max_element(z, z + 5) - z == batch.labels[n] ? 1 : 0;
        }
        const BatchResult got = owned->replica.evaluate(batch.view());
        EXPECT_NEAR(got.loss_sum, loss, 1e-4 * loss);
        EXPECT_EQ(got.correct, correct);
        EXPECT_EQ(got.samples, 19);
    }
}

}  // namespace
}  // namespace cohort::test
