// What can go wrong on a device: infinities and NaN in data and by the scale of the loss, too
// little memory, wrong requests. What was there before stays as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cohort/core/error.hpp"
#include "support/gpu/gpu_backend.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class Trouble : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override { need(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Backends, Trouble, ::testing::ValuesIn(all_backends()), backend_name);

struct Layer {
    const char* name;
    Value (*describe)(TwinBuilder&, Value);
};

/// Layers that a NaN must not be lost in: the guard of a job sees only the loss.
std::vector<Layer> layers() {
    return {
        {"conv_relu",
         [](TwinBuilder& net, Value x) { return net.relu(net.conv(x, {.channels = 8})); }},
        {"winograd_relu",
         [](TwinBuilder& net, Value x) {
             x = net.relu(net.conv(x, {.channels = 32, .kernel = 1}));
             return net.relu(net.conv(x, {.channels = 32, .padding = 1}));
         }},
        {"grouped_conv_relu",
         [](TwinBuilder& net, Value x) {
             return net.relu(net.conv(x, {.channels = 4, .groups = 4}));
         }},
        {"linear_relu",
         [](TwinBuilder& net, Value x) {
             return net.relu(net.linear(net.flatten(x), {.features = 9}));
         }},
        {"relu", [](TwinBuilder& net, Value x) { return net.relu(x); }},
        {"relu6",
         [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kRelu6); }},
        {"gelu",
         [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kGelu); }},
        {"sigmoid",
         [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kSigmoid); }},
        {"tanh",
         [](TwinBuilder& net, Value x) { return net.activation(x, ActivationKind::kTanh); }},
        {"batch_norm_relu", [](TwinBuilder& net, Value x) { return net.relu(net.batch_norm(x)); }},
        {"average_pool",
         [](TwinBuilder& net, Value x) { return net.pool(x, PoolKind::kGlobalAverage); }},
        {"add_relu", [](TwinBuilder& net, Value x) {
             return net.relu(net.add(x, net.conv(x, {.channels = 4, .kernel = 1})));
         }}};
}

TEST_P(Trouble, ANaNReachesTheLossThroughEveryLayer) {
    for (const Layer& layer : layers()) {
        SCOPED_TRACE(layer.name);
        TwinBuilder net(Shape{4, 6, 6});
        const Twin twin = net.finish_linear(layer.describe(net, net.input()));
        const auto owned = GetParam().replica(twin.graph, {.deterministic = true});
        randomise(owned->replica, 1);
        const OwnedBatch good = random_batch(twin.graph, 3, 1);
        OwnedBatch bad = good;
        bad.samples[4 * 36 + 50] = kNaN;
        const double before = owned->replica.train_step(good.view()).loss_sum;
        EXPECT_TRUE(std::isfinite(before));
        EXPECT_TRUE(std::isnan(owned->replica.train_step(bad.view()).loss_sum)) << "training";
        EXPECT_TRUE(std::isnan(owned->replica.evaluate(bad.view()).loss_sum)) << "inference";
        EXPECT_EQ(owned->replica.train_step(good.view()).loss_sum, before) << "the next batch";
    }
}

TEST_P(Trouble, AnLstmLetsNaNThrough) {
    GraphBuilder net("nan", Shape{3, 2});
    const auto owned =
        GetParam().replica(net.finish_regression(net.lstm(net.input(), {.hidden = 20})));
    owned->replica.initialise(1);
    std::vector<float> sample(6, 0.5F);
    sample[0] = kNaN;
    std::vector<float> outputs(60);
    owned->replica.infer({.samples = sample.data(), .size = 1}, outputs);
    EXPECT_TRUE(std::all_of(outputs.begin(), outputs.end(), [](float y) { return std::isnan(y); }));
}

TEST_P(Trouble, AnInfiniteSampleEndsTheStepWithANonFiniteLoss) {
    // With f16 the step is repeated with smaller and smaller scales: it must end all the same.
    const Twin twin = structure("projection_block").make();
    const auto owned = GetParam().replica(twin.graph, {.deterministic = true});
    randomise(owned->replica, 1);
    const OwnedBatch good = random_batch(twin.graph, 5, 1);
    const double wanted = owned->replica.train_step(good.view()).loss_sum;
    const std::vector<float> gradients = host_copy(owned->replica, owned->replica.gradients());
    OwnedBatch bad = good;
    bad.samples[7] = kInfinity;
    EXPECT_FALSE(std::isfinite(owned->replica.train_step(bad.view()).loss_sum));
    const std::vector<float> broken = host_copy(owned->replica, owned->replica.gradients());
    EXPECT_FALSE(std::all_of(broken.begin(), broken.end(), [](float g) {
        return std::isfinite(g);
    })) << "the guard of a run has to see it";
    EXPECT_EQ(owned->replica.train_step(good.view()).loss_sum, wanted);
    // With f16 the scale is small by now, so that the last bits may differ.
    const std::vector<float> again = host_copy(owned->replica, owned->replica.gradients());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        const float limit = GetParam().is_short() ? 0.02F * std::abs(gradients[i]) + 1e-4F : 0.0F;
        ASSERT_NEAR(again[i], gradients[i], limit) << "afterwards, element " << i;
    }
}

/// The gradient of one wrong answer is all but 1: times 2^16 it is beyond half precision.
Twin steep_network() {
    TwinBuilder net(Shape{6});
    const Value x = net.linear(net.input(), {.features = 8});
    return net.finish(net.linear(x, {.features = 4}));
}

TEST_P(Trouble, AScaleThatOverflowsIsLoweredAndLeavesNoTrace) {
    const Twin twin = steep_network();
    const auto owned = GetParam().replica(twin.graph, {.deterministic = true});
    Replica& replica = owned->replica;
    randomise(replica, 1);
    std::vector<float> parameters = host_copy(replica, replica.parameters());
    for (float& value : parameters) {
        value *= 40;  // sure of itself, and wrong
    }
    assign(replica, replica.parameters(), parameters);
    CheckOptions options = limits(GetParam(), 4);
    for (const std::int64_t size : {1, 2, 1, 7}) {
        expect_step_matches(twin, replica, random_batch(twin.graph, size, 3), options);
    }
    const std::vector<float> gradients = host_copy(replica, replica.gradients());
    EXPECT_TRUE(
        std::all_of(gradients.begin(), gradients.end(), [](float g) { return std::isfinite(g); }));
}

TEST_P(Trouble, SmallGradientsAreNotLost) {
    // Far below the smallest number of half precision: what the scale is for.
    if (GetParam().precision == Precision::kBf16) {
        GTEST_SKIP() << "has the exponents of single precision";
    }
    TwinBuilder net(Shape{16});
    const Twin twin = net.finish_regression(net.linear(net.input(), {.features = 2048}));
    const auto owned = GetParam().replica(twin.graph, {.deterministic = true});
    randomise(owned->replica, 1);
    // 2/(2048 outputs, 1024 samples) times errors of about 0.05 is 5e-8; half precision ends at
    // 6e-8.
    OwnedBatch batch = random_batch(twin.graph, 1024, 1);
    std::vector<float> outputs(batch.targets.size());
    owned->replica.infer(batch.view(), outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        batch.targets[i] = outputs[i] + 0.05F * batch.targets[i];
    }
    const ReferenceResult wanted = run_reference(twin, owned->replica, batch, 1, true);
    owned->replica.train_step(batch.view(), 1);
    const std::vector<float> got = host_copy(owned->replica, owned->replica.gradients());
    for (const FlatRange& range : twin.graph.parameters().ranges()) {
        const Deviation found = deviation(range, got, wanted.gradients, true);
        // The difference from a target nearby loses bits: gradients are there, not all digits.
        EXPECT_LT(found.error, 0.2 * found.scale) << range.name;
    }
}

/// Three quarters of a megabyte and more of activations per sample of 64 floats; no tensor has
/// more elements than 32 bits count, which is where libraries give up before memory does.
Graph wide_network() {
    GraphBuilder net("wide", Shape{64});
    Value x = net.linear(net.input(), {.features = 4096});
    for (int layer = 0; layer < 96; ++layer) {
        x = net.gelu(x);
    }
    return net.finish(net.linear(x, {.features = 10}));
}

class Memory : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override { need(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Backends, Memory, ::testing::ValuesIn(gpu_backends()), backend_name);

/// The number that follows `words` in a message, or 0.
std::int64_t number_after(const std::string& message, const std::string& words) {
    const std::size_t at = message.find(words);
    if (at == std::string::npos) {
        return 0;
    }
    const std::size_t digits = message.find_first_of("0123456789", at);
    return digits == std::string::npos ? 0 : std::stoll(message.substr(digits));
}

TEST_P(Memory, ABatchThatIsTooLargeSaysWhichOneFits) {
    const Graph graph = wide_network();
    const auto owned = GetParam().replica(graph);
    Replica& replica = owned->replica;
    randomise(replica, 1);
    const OwnedBatch small = random_batch(graph, 4, 1);
    const double wanted = replica.train_step(small.view()).loss_sum;
    const std::vector<float> parameters = host_copy(replica, replica.parameters());
    const auto size = static_cast<std::int64_t>(owned->device->memory().total_bytes >> 19);
    const OwnedBatch large = [&] {
        OwnedBatch batch;
        batch.samples.assign(static_cast<std::size_t>(size * 64), 0.5F);
        batch.labels.assign(static_cast<std::size_t>(size), 1);
        batch.ids.assign(static_cast<std::size_t>(size), 1);
        return batch;
    }();
    std::int64_t fits = 0;
    try {
        replica.train_step(large.view());
        FAIL() << "a batch of " << size << " fits into " << owned->device->memory().total_bytes;
    } catch (const OutOfMemory& error) {
        EXPECT_GT(error.asked, error.free);
        EXPECT_EQ(error.exit_code(), ExitCode::kDevice);
        fits = number_after(error.what(), "at most");
        EXPECT_GT(fits, 0) << error.what();
        EXPECT_LT(fits, size) << error.what();
    }
    EXPECT_EQ(host_copy(replica, replica.parameters()), parameters);
    EXPECT_EQ(replica.train_step(small.view()).loss_sum, wanted) << "a small batch goes on";
    // What it says is true; a little less, since other programs may use the GPU.
    OwnedBatch fitting = large;
    fitting.labels.resize(static_cast<std::size_t>(fits * 9 / 10));
    EXPECT_NO_THROW(replica.train_step(fitting.view())) << fits;
}

TEST_P(Memory, IsReportedAndGivenBack) {
    const auto device = GetParam().device();
    const std::uint64_t before = device->memory().free_bytes;
    {
        Replica replica(wide_network(), *device, {.precision = GetParam().precision});
        replica.train_step(random_batch(replica.graph(), 256, 1).view());
        EXPECT_GT(replica.arena_bytes(), std::size_t{256} << 19);
        EXPECT_GT(replica.total_bytes(), replica.arena_bytes());
        EXPECT_LT(device->memory().free_bytes, before);
    }
    // Libraries keep some of what they took.
    EXPECT_GT(device->memory().free_bytes + (std::uint64_t{1} << 29), before);
}

TEST_P(Memory, KernelsShareTheArena) {
    // A chain of equal layers needs its saved inputs and a few more, not all it ever makes.
    GraphBuilder net("chain", Shape{64, 16, 16});
    Value x = net.input();
    for (int layer = 0; layer < 16; ++layer) {
        x = net.relu(net.batch_norm(net.conv(x, {.channels = 64, .padding = 1, .bias = false})));
    }
    const Graph graph =
        net.finish(net.linear(net.flatten(net.global_average_pool(x)), {.features = 5}));
    const auto owned = GetParam().replica(graph, {.deterministic = true});
    owned->replica.initialise(1);
    owned->replica.train_step(random_batch(graph, 256, 1).view());
    const std::size_t map =
        std::size_t{256} * 64 * 16 * 16 * element_bytes(activation_type(GetParam().precision));
    // Per layer: the convolution's output (batch norm reads it) and the batch norm's; of gradients
    // two at a time; and a quarter more for scratch. All that is ever made are 64 of them.
    EXPECT_LT(owned->replica.arena_bytes(), (2 * 16 + 6) * map * 5 / 4);
}

TEST_P(Trouble, RefusesWhatDoesNotFit) {
    const Twin twin = structure("two_heads").make();
    const auto owned = GetParam().replica(twin.graph);
    const OwnedBatch batch = random_batch(twin.graph, 4, 1);
    OwnedBatch wrong = batch;
    for (const std::int32_t label : {-1, 5, std::numeric_limits<std::int32_t>::max()}) {
        wrong.labels[2] = label;
        EXPECT_THROW(owned->replica.train_step(wrong.view()), UsageError);
        EXPECT_THROW(owned->replica.evaluate(wrong.view()), UsageError);
    }
    BatchView empty = batch.view();
    empty.size = 0;
    EXPECT_THROW(owned->replica.train_step(empty), UsageError);
    EXPECT_THROW(owned->replica.evaluate({}), UsageError);
    std::vector<float> logits(4 * 5 - 1);
    EXPECT_THROW(owned->replica.infer(batch.view(), logits), ShapeError);
    EXPECT_NO_THROW(owned->replica.train_step(batch.view()));
}

TEST(Precisions, OfTheCpuAreF32AndBf16) {
    const Twin twin = structure("two_heads").make();
    const auto device = make_cpu_device(1);
    EXPECT_NO_THROW(Replica(twin.graph, *device, {.precision = Precision::kBf16}));
    for (const Precision precision : {Precision::kTf32, Precision::kF16}) {
        EXPECT_THROW(Replica(twin.graph, *device, {.precision = precision}), UsageError);
    }
}

}  // namespace
}  // namespace cohort::test
