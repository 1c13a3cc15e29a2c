// How a replica runs a network on the CPU: memory, slices, threads, when gradients are announced,
// and what it refuses. gpu/replica_test.cpp has what is alike on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

/// Residual block of 32 channels (wide enough for Winograd), pooling, two linear layers.
Twin small_residual() {
    TwinBuilder net(Shape{3, 8, 7});
    Value x = net.relu(
        net.batch_norm(net.conv(net.input(), {.channels = 32, .padding = 1, .bias = false})));
    const Value y = net.batch_norm(net.conv(x, {.channels = 32, .padding = 1, .bias = false}));
    x = net.relu(net.add(y, x));
    x = net.pool(x, PoolKind::kMax, {3, 2, 1});
    x = net.relu(net.linear(net.flatten(x), {.features = 20}));
    return net.finish(net.linear(x, {.features = 5}));
}

/// Large maps at little cost, so that a member takes its samples in several slices.
Twin large_maps() {
    TwinBuilder net(Shape{2, 128, 96});
    Value x = net.conv(net.input(), {.channels = 16, .kernel = 1});
    x = net.relu(net.batch_norm(x));
    x = net.relu(net.batch_norm(net.conv(x, {.channels = 17, .kernel = 3, .stride = 8})));
    const Value y = net.batch_norm(net.conv(x, {.channels = 17, .kernel = 3, .padding = 1}));
    x = net.pool(net.relu(net.add(y, x)), PoolKind::kMax, {3, 3, 1});
    return net.finish_linear(net.pool(x, PoolKind::kGlobalAverage));
}

struct StepOutput {
    BatchResult result;
    std::vector<float> gradients;
    std::vector<float> batch_state;
    friend bool operator==(const StepOutput& a, const StepOutput& b) {
        const auto same = [](const std::vector<float>& p, const std::vector<float>& q) {
            return p.size() == q.size() &&
                   std::memcmp(p.data(), q.data(), p.size() * sizeof(float)) == 0;
        };
        return a.result.loss_sum == b.result.loss_sum && a.result.correct == b.result.correct &&
               same(a.gradients, b.gradients) && same(a.batch_state, b.batch_state);
    }
};

StepOutput output_of(Replica& replica, const BatchResult& result) {
    return {result,
            {replica.gradients().begin(), replica.gradients().end()},
            {replica.batch_state().begin(), replica.batch_state().end()}};
}

StepOutput step(Replica& replica, const OwnedBatch& batch, std::uint64_t seed = 1) {
    return output_of(replica, replica.train_step(batch.view(), seed));
}

TEST(Executor, GrowsItsArenaOnceAndThenKeepsIt) {
    const Twin twin = small_residual();
    OwnedReplica owned(twin.graph, 2, true);
    randomise(owned.replica, 1);
    const OwnedBatch five = random_batch(twin.graph, 5, 1);
    const StepOutput first = step(owned.replica, five);
    const std::size_t small = owned.replica.arena_bytes();
    EXPECT_GT(small, 0U);
    step(owned.replica, random_batch(twin.graph, 128, 1));
    const std::size_t large = owned.replica.arena_bytes();
    EXPECT_GT(large, small);
    step(owned.replica, random_batch(twin.graph, 3, 1));
    EXPECT_TRUE(step(owned.replica, five) == first) << "a cached plan in a grown arena";
    EXPECT_EQ(owned.replica.arena_bytes(), large);
    const auto floats = static_cast<std::size_t>(2 * twin.graph.parameters().total() +
                                                 2 * twin.graph.state().total());
    EXPECT_EQ(owned.replica.total_bytes(), large + floats * sizeof(float));
}

TEST(Executor, SlicesAndThreadsDoNotChangeTheResult) {
    const Twin twin = large_maps();
    for (const int threads : {1, 2}) {
        expect_matches(twin, {13}, {.threads = threads, .deterministic = true, .tolerance = 1e-4});
    }
}

TEST(Executor, ThreadCountsAgree) {
    const Twin twin = small_residual();
    OwnedReplica one(twin.graph, 1, true);
    randomise(one.replica, 1);
    const OwnedBatch batch = random_batch(twin.graph, 13, 1);
    const StepOutput wanted = step(one.replica, batch);
    for (const int threads : {2, 3, 4}) {
        OwnedReplica many(twin.graph, threads, true);
        randomise(many.replica, 1);
        const StepOutput got = step(many.replica, batch);
        EXPECT_NEAR(got.result.loss_sum, wanted.result.loss_sum, 1e-4);
        float scale = 0;
        float error = 0;
        for (std::size_t i = 0; i < got.gradients.size(); ++i) {
            scale = std::max(scale, std::abs(wanted.gradients[i]));
            error = std::max(error, std::abs(wanted.gradients[i] - got.gradients[i]));
        }
        EXPECT_LE(error, 2e-5F * scale) << threads << " threads";
    }
}

/// Notes which floats of the gradient buffer were written when the first range was announced.
class FirstAnnouncement final : public StepObserver {
public:
    explicit FirstAnnouncement(Replica& replica) : replica_(replica) {}
    void gradient_ready(std::int64_t /*begin*/, std::int64_t /*end*/) override {
        if (seen.empty()) {
            seen.assign(replica_.gradients().begin(), replica_.gradients().end());
        }
    }
    std::vector<float> seen;

private:
    Replica& replica_;
};

TEST(Observer, HearsOfLateLayersWhileEarlyOnesStillHaveToRun) {
    // No batch norm: nothing but the size of the gradients divides this network's backward pass.
    const Graph graph = make_model("lenet", Shape{1, 28, 28}, 10);
    OwnedReplica owned(graph, 1);
    Replica& replica = owned.replica;
    randomise(replica, 1);
    constexpr float kUnwritten = -7.0F;
    std::fill(replica.gradients().begin(), replica.gradients().end(), kUnwritten);
    FirstAnnouncement observer(replica);
    ASSERT_TRUE(replica.train_step(random_batch(graph, 8, 1).view(), 1, observer));
    const FlatRange* first = graph.parameters().find("conv1.weight");
    const FlatRange* last = graph.parameters().find("linear2.weight");
    ASSERT_TRUE(first != nullptr && last != nullptr);
    EXPECT_EQ(observer.seen.at(static_cast<std::size_t>(first->offset)), kUnwritten);
    EXPECT_NE(observer.seen.at(static_cast<std::size_t>(last->offset)), kUnwritten);
    EXPECT_NE(replica.gradients()[static_cast<std::size_t>(first->offset)], kUnwritten);
}

TEST(BatchStatistics, FoldByTheRuleForFractions) {
    const std::vector<float> batch{2.0F, -1.0F};
    std::vector<float> whole{1.0F, 0.0F};
    fold_batch_statistics(whole, batch, 0.1, 1.0);
    EXPECT_FLOAT_EQ(whole[0], 1.1F);
    EXPECT_FLOAT_EQ(whole[1], -0.1F);
    std::vector<float> halves{1.0F, 0.0F};
    fold_batch_statistics(halves, batch, 0.1, 0.5);
    fold_batch_statistics(halves, batch, 0.1, 0.5);
    EXPECT_NEAR(halves[0], whole[0], 1e-6);
    EXPECT_NEAR(halves[1], whole[1], 1e-6);
    fold_batch_statistics(halves, batch, 0.1, 0.0);
    EXPECT_NEAR(halves[0], whole[0], 1e-6);
}

TEST(Refusal, OfTrainingDropoutWithoutSampleIds) {
    TwinBuilder net(Shape{6});
    const Twin twin = net.finish_linear(net.dropout(net.input(), 0.5F));
    OwnedReplica owned(twin.graph, 1);
    const OwnedBatch batch = random_batch(twin.graph, 4, 1);
    BatchView anonymous = batch.view();
    anonymous.sample_ids = nullptr;
    EXPECT_THROW(owned.replica.train_step(anonymous), UsageError);
    EXPECT_NO_THROW(owned.replica.evaluate(anonymous));
}

// A maximum leaves a NaN among numbers aside, but a layer that has diverged as a whole shows.
TEST(Divergence, OfAWholeMapPassesTheMaximumAsANonFiniteLoss) {
    TwinBuilder net(Shape{4, 6, 6});
    const Value x = net.relu(net.conv(net.input(), {.channels = 9, .padding = 1}));
    const Twin twin = net.finish_linear(net.pool(x, PoolKind::kMax));
    OwnedReplica owned(twin.graph, 1, true);
    randomise(owned.replica, 1);
    std::fill_n(owned.replica.parameters().begin(), 9 * 4 * 9,
                std::numeric_limits<float>::quiet_NaN());
    const OwnedBatch batch = random_batch(twin.graph, 3, 1);
    EXPECT_FALSE(std::isfinite(owned.replica.train_step(batch.view()).loss_sum));
    EXPECT_FALSE(std::isfinite(owned.replica.evaluate(batch.view()).loss_sum));
}

}  // namespace
}  // namespace cohort::test
