// How a replica runs a network: batch sizes that change, slices, threads, determinism, observers,
// and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

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

TEST(Executor, TakesBatchSizesInAnyOrder) {
    const Twin twin = small_residual();
    for (const bool deterministic : {true, false}) {
        expect_matches(twin, {5, 24, 3, 5},
                       {.threads = 2,
                        .deterministic = deterministic,
                        .tolerance = kWinogradTolerance,
                        .seed = 3});
    }
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

TEST(Executor, DeterministicModeRepeatsBitForBit) {
    const Twin twin = small_residual();
    const OwnedBatch batch = random_batch(twin.graph, 22, 1);
    OwnedReplica first(twin.graph, 2, true);
    randomise(first.replica, 1);
    const StepOutput wanted = step(first.replica, batch);
    EXPECT_TRUE(step(first.replica, batch) == wanted) << "second step of one replica";
    step(first.replica, random_batch(twin.graph, 9, 2));
    EXPECT_TRUE(step(first.replica, batch) == wanted) << "after another batch";
    OwnedReplica second(twin.graph, 2, true);
    randomise(second.replica, 1);
    EXPECT_TRUE(step(second.replica, batch) == wanted) << "another replica";
}

TEST(Executor, AStepChangesNeitherParametersNorState) {
    const Twin twin = small_residual();
    OwnedReplica owned(twin.graph, 1);
    randomise(owned.replica, 1);
    Replica& replica = owned.replica;
    const std::vector<float> parameters(replica.parameters().begin(), replica.parameters().end());
    const std::vector<float> state(replica.state().begin(), replica.state().end());
    step(replica, random_batch(twin.graph, 4, 1));
    EXPECT_TRUE(std::equal(parameters.begin(), parameters.end(), replica.parameters().begin()));
    EXPECT_TRUE(std::equal(state.begin(), state.end(), replica.state().begin()));
}

TEST(Executor, EvaluatesOnTheLogitsItInfers) {
    const Twin twin = small_residual();
    OwnedReplica owned(twin.graph, 2, true);
    randomise(owned.replica, 1);
    const OwnedBatch batch = random_batch(twin.graph, 19, 1);
    std::vector<float> logits(19 * 5);
    BatchView unlabelled = batch.view();
    unlabelled.labels = nullptr;
    unlabelled.sample_ids = nullptr;
    owned.replica.infer(unlabelled, logits);
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
    const BatchResult got = owned.replica.evaluate(batch.view());
    EXPECT_NEAR(got.loss_sum, loss, 1e-4);
    EXPECT_EQ(got.correct, correct);
    EXPECT_EQ(got.samples, 19);
}

/// Notes what is announced, and a copy of it at that moment.
class Recorder final : public StepObserver {
public:
    struct Announcement {
        std::int64_t begin;
        std::int64_t end;
        std::vector<float> values;
    };
    explicit Recorder(Replica& replica) : replica_(replica) {}
    void gradient_ready(std::int64_t begin, std::int64_t end) override {
        const std::span<float> all = replica_.gradients();
        announced.push_back({begin, end, {all.begin() + begin, all.begin() + end}});
    }
    std::vector<Announcement> announced;

private:
    Replica& replica_;
};

TEST(Executor, MayBeDrivenByAnotherThreadThanMadeIt) {
    const Twin twin = small_residual();
    const auto gradients = [&](bool other_thread) {
        OwnedReplica owned(twin.graph, 2, true);
        randomise(owned.replica, 1);
        const auto step = [&] { owned.replica.train_step(random_batch(twin.graph, 9, 1).view()); };
        if (other_thread) {
            std::thread(step).join();
        } else {
            step();
        }
        const auto all = owned.replica.gradients();
        return std::vector<float>(all.begin(), all.end());
    };
    EXPECT_EQ(gradients(false), gradients(true));
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

TEST(Observer, HearsOfEveryGradientOnceInBackwardOrderWhenItIsFinal) {
    for (const int threads : {1, 3}) {
        const Twin twin = small_residual();
        OwnedReplica owned(twin.graph, threads);
        Replica& replica = owned.replica;
        randomise(replica, 1);
        std::fill(replica.gradients().begin(), replica.gradients().end(), -7.0F);
        Recorder recorder(replica);
        ASSERT_TRUE(replica.train_step(random_batch(twin.graph, 9, 1).view(), 1, recorder));
        std::vector<std::int64_t> begins;
        for (const auto& [begin, end, values] : recorder.announced) {
            begins.push_back(begin);
            EXPECT_TRUE(
                std::equal(values.begin(), values.end(), replica.gradients().begin() + begin))
                << "changed after it was announced";
        }
        // Nodes from last to first; within a node its ranges.
        std::vector<std::int64_t> wanted;
        const auto& nodes = twin.graph.nodes();
        for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
            for (const int range : node->parameter_ranges) {
                wanted.push_back(
                    twin.graph.parameters().ranges()[static_cast<std::size_t>(range)].offset);
            }
        }
        EXPECT_EQ(begins, wanted);
        std::int64_t covered = 0;
        for (const auto& announcement : recorder.announced) {
            covered += announcement.end - announcement.begin;
        }
        EXPECT_EQ(covered, twin.graph.parameters().elements());
    }
}

class Interrupter final : public StepObserver {
public:
    explicit Interrupter(int after) : left_(after) {}
    bool should_interrupt() override { return left_-- == 0; }

private:
    int left_;
};

TEST(Observer, InterruptsAnywhereAndTheNextStepIsRight) {
    const Twin twin = small_residual();
    const OwnedBatch batch = random_batch(twin.graph, 6, 1);
    OwnedReplica owned(twin.graph, 2, true);
    randomise(owned.replica, 1);
    const StepOutput wanted = step(owned.replica, batch);
    int interrupted = 0;
    for (bool finished = false; !finished; ++interrupted) {
        ASSERT_LT(interrupted, 100);
        Interrupter observer(interrupted);
        finished = owned.replica.train_step(batch.view(), 1, observer).has_value();
        ASSERT_TRUE(step(owned.replica, batch) == wanted) << "interrupted at " << interrupted;
    }
    EXPECT_GE(interrupted, 3) << "a step with two batch norms has several places to stop";
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

TEST(Refusal, OfLabelsOutsideTheClasses) {
    const Twin twin = small_residual();
    OwnedReplica owned(twin.graph, 1);
    OwnedBatch batch = random_batch(twin.graph, 4, 1);
    for (const std::int32_t label : {-1, 5, std::numeric_limits<std::int32_t>::max()}) {
        batch.labels[2] = label;
        EXPECT_THROW(owned.replica.train_step(batch.view()), UsageError);
        EXPECT_THROW(owned.replica.evaluate(batch.view()), UsageError);
    }
}

TEST(Refusal, OfEmptyBatchesAndWrongRoomForLogits) {
    const Twin twin = small_residual();
    OwnedReplica owned(twin.graph, 1);
    const OwnedBatch batch = random_batch(twin.graph, 4, 1);
    BatchView empty = batch.view();
    empty.size = 0;
    EXPECT_THROW(owned.replica.train_step(empty), UsageError);
    EXPECT_THROW(owned.replica.evaluate({}), UsageError);
    std::vector<float> logits(4 * 5 - 1);
    EXPECT_THROW(owned.replica.infer(batch.view(), logits), ShapeError);
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

TEST(Profile, CountsEveryLayerThatWorks) {
    const Twin twin = small_residual();
    OwnedReplica owned(twin.graph, 2);
    owned.replica.set_profiling(true);
    step(owned.replica, random_batch(twin.graph, 8, 1));
    const std::vector<LayerProfile> profile = owned.replica.profile();
    ASSERT_EQ(profile.size(), twin.graph.nodes().size());
    int convolutions = 0;
    for (const LayerProfile& layer : profile) {
        convolutions += layer.is_convolution ? 1 : 0;
        EXPECT_GT(layer.forward_s, 0) << layer.name;
        EXPECT_GT(layer.backward_s, 0) << layer.name;
    }
    EXPECT_EQ(convolutions, 2);
    owned.replica.set_profiling(false);
    step(owned.replica, random_batch(twin.graph, 8, 1));
    EXPECT_EQ(owned.replica.profile()[0].forward_s, profile[0].forward_s);
}

struct NanCase {
    const char* name;
    std::function<Value(TwinBuilder&, Value)> describe;
};

std::ostream& operator<<(std::ostream& out, const NanCase& c) {
    return out << c.name;
}

class NotANumber : public ::testing::TestWithParam<NanCase> {};

// The trainer's guard sees only the loss: no layer may swallow a NaN on the way.
TEST_P(NotANumber, ReachesTheLoss) {
    TwinBuilder net(Shape{4, 6, 6});
    const Twin twin = net.finish_linear(GetParam().describe(net, net.input()));
    OwnedReplica owned(twin.graph, 1, true);
    randomise(owned.replica, 1);
    OwnedBatch batch = random_batch(twin.graph, 3, 1);
    EXPECT_TRUE(std::isfinite(owned.replica.train_step(batch.view()).loss_sum));
    batch.samples[4 * 36 + 50] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(owned.replica.train_step(batch.view()).loss_sum)) << "training";
    EXPECT_TRUE(std::isnan(owned.replica.evaluate(batch.view()).loss_sum)) << "inference";
}

INSTANTIATE_TEST_SUITE_P(
    Layers, NotANumber,
    ::testing::Values(
        NanCase{"conv_relu",
                [](TwinBuilder& net, Value x) { return net.relu(net.conv(x, {.channels = 8})); }},
        NanCase{"winograd_relu",
                [](TwinBuilder& net, Value x) {
                    x = net.relu(net.conv(x, {.channels = 32, .kernel = 1}));
                    return net.relu(net.conv(x, {.channels = 32, .padding = 1}));
                }},
        NanCase{"grouped_conv_relu",
                [](TwinBuilder& net, Value x) {
                    return net.relu(net.conv(x, {.channels = 4, .groups = 4}));
                }},
        NanCase{"linear_relu",
                [](TwinBuilder& net, Value x) {
                    return net.relu(net.linear(net.flatten(x), {.features = 9}));
                }},
        NanCase{"relu", [](TwinBuilder& net, Value x) { return net.relu(x); }},
        NanCase{"gelu",
                [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kGelu); }},
        NanCase{"sigmoid", [](TwinBuilder& net,
                              Value x) { return net.activation(x, ActivationKind::kSigmoid); }},
        NanCase{"tanh",
                [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kTanh); }},
        NanCase{"batch_norm_relu",
                [](TwinBuilder& net, Value x) { return net.relu(net.batch_norm(x)); }},
        NanCase{"average_pool",
                [](TwinBuilder& net, Value x) { return net.pool(x, PoolKind::kGlobalAverage); }},
        NanCase{"add_relu",
                [](TwinBuilder& net, Value x) {
                    return net.relu(net.add(x, net.conv(x, {.channels = 4, .kernel = 1})));
                }}),
    [](const auto& made) { return std::string(made.param.name); });

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
