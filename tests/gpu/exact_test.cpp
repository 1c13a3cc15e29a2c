// Numbers that every type holds exactly: small whole samples, weights of -1, 0 and 1, squared
// errors over a power of two of outputs. Whatever order and type a kernel computes in, the results
// are the reference's, so a wrong index, a padded channel that leaks or a gradient that is added
// twice shows in the short types as clearly as in single precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cohort/core/rng.hpp"
#include "support/gpu/gpu_backend.hpp"

namespace cohort::test {
namespace {

struct ExactCase {
    std::string name;
    Shape input;
    std::function<Value(TwinBuilder&, Value)> describe;  ///< its outputs per sample: 2^n
};

struct ExactParam {
    Backend backend;
    ExactCase network;
};

std::ostream& operator<<(std::ostream& out, const ExactParam& param) {
    return out << param.network.name << " on " << param.backend.name;
}

ExactCase conv_case(const char* name, const Shape& input, const ConvOptions& options) {
    return {std::string("conv_") + name, input,
            [options](TwinBuilder& net, Value x) { return net.conv(x, options); }};
}

/// A convolution in front shows the gradient of the input.
ExactCase inner_conv_case(const char* name, const Shape& input, const ConvOptions& options) {
    return {std::string("inner_conv_") + name, Shape{2, input[1], input[2]},
            [options, input](TwinBuilder& net, Value x) {
                return net.conv(net.conv(x, {.channels = input[0], .kernel = 1}), options);
            }};
}

std::vector<ExactCase> conv_cases_of(
    const std::function<ExactCase(const char*, const Shape&, const ConvOptions&)>& make) {
    return {make("3_to_8", {3, 6, 10}, {.channels = 8}),
            make("1_to_1", {1, 6, 10}, {.channels = 1}),
            make("17_stride", {17, 7, 15}, {.channels = 4, .stride = 2, .padding = 1}),
            make("5_pointwise", {5, 4, 8}, {.channels = 8, .kernel = 1}),
            make("8_pointwise_stride", {8, 7, 15}, {.channels = 16, .kernel = 1, .stride = 2}),
            make("8_kernel_2", {8, 5, 9}, {.channels = 8, .kernel = 2}),
            make("3_kernel_7", {3, 8, 16}, {.channels = 8, .kernel = 7, .stride = 2, .padding = 3}),
            make("6_groups", {6, 4, 8}, {.channels = 8, .padding = 1, .groups = 2}),
            make("8_depthwise", {8, 4, 8}, {.channels = 8, .padding = 1, .groups = 8}),
            make("4_multiplier", {4, 4, 8}, {.channels = 8, .padding = 1, .groups = 4}),
            make("3_dilation", {3, 8, 12}, {.channels = 8, .dilation = 2}),
            make("3_without_bias", {3, 6, 10}, {.channels = 8, .bias = false})};
}

Value pointwise(TwinBuilder& net, Value x, std::int64_t channels) {
    return net.conv(x, {.channels = channels, .kernel = 1});
}

std::vector<ExactCase> map_cases_exact() {
    const Shape map{3, 4, 8};
    return {{"conv_relu", map,
             [](TwinBuilder& net, Value x) { return net.relu(pointwise(net, x, 8)); }},
            {"average_pool", Shape{3, 8, 16},
             [](TwinBuilder& net, Value x) {
                 return net.pool(pointwise(net, x, 8), PoolKind::kAverage, {2, 2, 0});
             }},
            {"global_average_pool", map,
             [](TwinBuilder& net, Value x) {
                 return net.pool(pointwise(net, x, 8), PoolKind::kGlobalAverage);
             }},
            {"add", map,
             [](TwinBuilder& net, Value x) {
                 return net.add(pointwise(net, x, 8), pointwise(net, x, 8));
             }},
            {"add_relu_of_shared", map,
             [](TwinBuilder& net, Value x) {
                 const Value y = pointwise(net, x, 8);
                 return net.relu(net.add(y, net.conv(y, {.channels = 8, .kernel = 1})));
             }},
            {"add_input", map,
             [](TwinBuilder& net, Value x) {
                 return pointwise(net, net.add(x, pointwise(net, x, 3)), 4);
             }},
            // Groups read an input whose channels are padded, as batch norm and pooling leave them.
            {"groups_of_padded", Shape{6, 8, 16},
             [](TwinBuilder& net, Value x) {
                 const Value y = net.pool(x, PoolKind::kAverage, {2, 2, 0});
                 return net.conv(y, {.channels = 8, .padding = 1, .groups = 2});
             }},
            {"concat_of_odd", map,
             [](TwinBuilder& net, Value x) {
                 return net.concat({pointwise(net, x, 3), pointwise(net, x, 5)});
             }},
            {"concat_with_input", map,
             [](TwinBuilder& net, Value x) {
                 return pointwise(net, net.concat({x, pointwise(net, x, 5), x}), 4);
             }},
            {"three_readers", map,
             [](TwinBuilder& net, Value x) {
                 const Value y = pointwise(net, x, 2);
                 return net.concat({y, net.concat({y, net.relu(y), y})});
             }},
            {"dropout", map,
             [](TwinBuilder& net, Value x) { return net.dropout(pointwise(net, x, 8), 0.5F); }},
            {"dropout_of_odd", map,
             [](TwinBuilder& net, Value x) {
                 return pointwise(net, net.dropout(pointwise(net, x, 5), 0.75F), 4);
             }},
            {"flatten_linear", Shape{3, 2, 3},
             [](TwinBuilder& net, Value x) {
                 return net.linear(net.flatten(pointwise(net, x, 5)), {.features = 8});
             }},
            {"flatten_twice", Shape{2, 3, 2}, [](TwinBuilder& net, Value x) {
                 const Value y = net.flatten(pointwise(net, x, 3));
                 return net.linear(net.flatten(y), {.features = 4});
             }}};
}

std::vector<ExactCase> other_cases() {
    return {
        {"linear", Shape{33},
         [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 16}); }},
        {"two_linears", Shape{7},
         [](TwinBuilder& net, Value x) {
             return net.linear(net.linear(x, {.features = 11}), {.features = 8});
         }},
        {"linear_relu", Shape{7},
         [](TwinBuilder& net, Value x) {
             return net.linear(net.relu(net.linear(x, {.features = 11})), {.features = 8});
         }},
        {"linear_of_one", Shape{5},
         [](TwinBuilder& net, Value x) {
             return net.linear(net.linear(x, {.features = 1}), {.features = 1});
         }},
        {"positions", Shape{4, 5},
         [](TwinBuilder& net, Value x) {
             return net.linear(net.relu(net.linear(x, {.features = 9})), {.features = 4});
         }},
        {"last_position", Shape{3, 5},
         [](TwinBuilder& net, Value x) {
             return net.last_position(net.linear(x, {.features = 8}));
         }},
        {"concat_positions", Shape{4, 5},
         [](TwinBuilder& net, Value x) {
             return net.concat({net.linear(x, {.features = 3}), net.linear(x, {.features = 5})});
         }},
        {"flatten_positions", Shape{4, 3},
         [](TwinBuilder& net, Value x) { return net.flatten(net.linear(x, {.features = 4})); }}};
}

std::vector<ExactParam> exact_params() {
    std::vector<ExactParam> params;
    for (const Backend& backend : all_backends()) {
        for (const auto& list : {conv_cases_of(conv_case), conv_cases_of(inner_conv_case),
                                 map_cases_exact(), other_cases()}) {
            for (const ExactCase& network : list) {
                params.push_back({backend, network});
            }
        }
    }
    return params;
}

/// Whole numbers in samples, targets and parameters; batch of a power of two.
OwnedBatch whole_batch(const Graph& graph, std::int64_t size) {
    OwnedBatch batch = random_batch(graph, size, 1);
    Rng rng(5, RngPurpose::kTest, 1);
    for (float& value : batch.samples) {
        value = static_cast<float>(rng.next_below(5)) - 2;
    }
    for (float& value : batch.targets) {
        value = static_cast<float>(rng.next_below(9)) - 4;
    }
    return batch;
}

void make_whole(Replica& replica) {
    Rng rng(6, RngPurpose::kTest, 2);
    std::vector<float> parameters(replica.parameters().size(), 0.0F);
    for (const FlatRange& range : replica.graph().parameters().ranges()) {
        // About four weights of an output are not zero.
        const std::int64_t fan_in = range.shape.rank() > 1 ? range.size / range.shape[0] : 4;
        const auto one_in = static_cast<std::uint32_t>(std::max<std::int64_t>(2, fan_in / 4));
        for (std::int64_t i = 0; i < range.size; ++i) {
            const float sign = rng.next_below(2) == 0 ? -1.0F : 1.0F;
            parameters[static_cast<std::size_t>(range.offset + i)] =
                rng.next_below(one_in) == 0 ? sign : 0.0F;
        }
    }
    assign(replica, replica.parameters(), parameters);
}

/// Gradients of filters are sums of more than eight bits, and cuDNN writes them in the type of the
/// activations: off by half a unit in the last place, of n bits 2^-n of the number at most. (They
/// are not compared with the rounded reference, since a sum that lies between two numbers of the
/// type is on the other side after the least error of a transformation.)
double filter_rounding(Precision precision) {
    switch (precision) {
        case Precision::kBf16: return std::ldexp(1, -8);
        case Precision::kF16: return std::ldexp(1, -11);
        default: return 0;
    }
}

class Exact : public ::testing::TestWithParam<ExactParam> {
protected:
    void SetUp() override { need(GetParam().backend); }
};

TEST_P(Exact, WholeNumbersComeOutWhole) {
    const auto& [backend, network] = GetParam();
    TwinBuilder net(network.input);
    Value outputs = network.describe(net, net.input());
    outputs = net.shape(outputs).rank() == 3 ? net.flatten(outputs) : outputs;
    const Twin twin = net.finish_regression(outputs);
    const auto owned = backend.replica(twin.graph);
    make_whole(owned->replica);
    for (const std::int64_t size : {4, 1, 8}) {
        const OwnedBatch batch = whole_batch(twin.graph, size);
        const auto reference = [&](Rounding rounded) {
            return run_reference(twin, owned->replica, batch, 1, true, rounded);
        };
        const ReferenceResult exact = reference(nullptr);
        const ReferenceResult rounded = reference(rounded_to_bits<8>);
        ASSERT_EQ(exact.gradients, rounded.gradients) << "the case does not fit in eight bits";
        ASSERT_EQ(exact.logits, rounded.logits) << "the case does not fit in eight bits";
        // What is left are transformations like Winograd's, in single precision.
        expect_step_matches(
            twin, owned->replica, batch,
            {.tolerance = 1e-4, .seed = 1, .filter_rounding = filter_rounding(backend.precision)});
    }
}

INSTANTIATE_TEST_SUITE_P(Networks, Exact, ::testing::ValuesIn(exact_params()),
                         [](const auto& made) {
                             return std::string(made.param.backend.name) + "_" +
                                    made.param.network.name;
                         });

}  // namespace
}  // namespace cohort::test
