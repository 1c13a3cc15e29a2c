// Every layer and its options, joints and networks drawn at random, on every backend, against the
// double-precision reference: loss, every gradient (of inputs through a layer in front), batch
// statistics, and logits in inference.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cohort/core/error.hpp"
#include "support/core/message_of.hpp"
#include "support/gpu/gpu_cases.hpp"

namespace cohort::test {
namespace {

class Layers : public ::testing::TestWithParam<NetworkParam> {
protected:
    void SetUp() override { need(GetParam().backend); }
};

TEST_P(Layers, MatchTheReference) {
    const auto& [backend, network] = GetParam();
    const Twin twin = network.make();
    SCOPED_TRACE("\n" + describe(twin.graph));
    // Some of them choose algorithms by measurement, which takes its time.
    const bool deterministic = std::hash<std::string>{}(network.name) % 4 != 0;
    if (backend.cuda) {
        const auto owned = backend.replica(twin.graph, {.deterministic = deterministic});
        expect_matches(twin, owned->replica, network.sizes, limits(backend, network.factor));
        return;
    }
    const double factor = network.direct || backend.is_short() ? 1 : network.factor;
    const auto one = backend.replica(twin.graph, {}, 1);
    const auto three = backend.replica(twin.graph, {.deterministic = deterministic}, 3);
    expect_matches(twin, {&one->replica, &three->replica}, network.sizes, limits(backend, factor));
}

class RefusedLayers : public ::testing::TestWithParam<Backend> {
protected:
    void SetUp() override { need(GetParam()); }
};

TEST_P(RefusedLayers, PoolingsWithDilationNameTheRemedy) {
    GraphBuilder net("net", Shape{2, 6, 6});
    const Value x = net.flatten(net.max_pool(net.input(), {.dilation = {1, 2}}));
    const Graph graph = net.finish(net.linear(x, {.features = 2}));
    const std::string message = message_of<DeviceError>([&] { (void)GetParam().replica(graph); });
    EXPECT_NE(message.find("max_pool"), std::string::npos) << message;
    EXPECT_NE(message.find("--device cpu"), std::string::npos) << message;
}
INSTANTIATE_TEST_SUITE_P(Gpu, RefusedLayers, ::testing::ValuesIn(gpu_backends()), backend_name);

const auto& name = param_name;
INSTANTIATE_TEST_SUITE_P(Conv, Layers, ::testing::ValuesIn(on_backends(conv_cases())), name);
INSTANTIATE_TEST_SUITE_P(Maps, Layers, ::testing::ValuesIn(on_backends(map_cases())), name);
INSTANTIATE_TEST_SUITE_P(Features, Layers, ::testing::ValuesIn(on_backends(feature_cases())), name);
INSTANTIATE_TEST_SUITE_P(Sequences, Layers, ::testing::ValuesIn(on_backends(sequence_cases())),
                         name);
INSTANTIATE_TEST_SUITE_P(Texts, Layers, ::testing::ValuesIn(on_backends(text_cases())), name);
INSTANTIATE_TEST_SUITE_P(Structures, Layers, ::testing::ValuesIn(on_backends(structure_cases())),
                         name);

}  // namespace
}  // namespace cohort::test
