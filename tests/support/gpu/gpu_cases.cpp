#include "support/gpu/gpu_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "support/layers/reference_random.hpp"
#include "support/layers/reference_structures.hpp"

namespace cohort::test {
namespace {

using Describe = std::function<Value(TwinBuilder&, Value)>;

struct Named {
    std::string name;
    Describe describe;
};

Named activation(const char* name, ActivationKind kind) {
    return {name, [kind](TwinBuilder& net, Value x) { return net.activation(x, kind); }};
}

Named pool(const char* name, PoolKind kind, const PoolOptions& options = {}) {
    return {name,
            [kind, options](TwinBuilder& net, Value x) { return net.pool(x, kind, options); }};
}

Named dropout(float probability) {
    return {"dropout",
            [probability](TwinBuilder& net, Value x) { return net.dropout(x, probability); }};
}

std::string text(std::int64_t number) {
    return std::to_string(number);
}
std::string text(const Padding& padding) {
    std::string sides = to_string(padding);
    std::ranges::replace(sides, ',', '_');
    return sides;
}

struct ConvCase {
    std::int64_t channels;
    std::int64_t height;
    std::int64_t width;
    ConvOptions options;
    bool every_precision = false;
};

std::string conv_name(const ConvCase& c) {
    const ConvOptions& o = c.options;
    return text(c.channels) + "x" + text(c.height) + "x" + text(c.width) + "_to_" +
           text(o.channels) + "_k" + to_string(o.kernel) + "_s" + to_string(o.stride) + "_p" +
           text(o.padding) + "_d" + to_string(o.dilation) + "_g" + text(o.groups);
}

std::vector<ConvCase> conv_shapes() {
    return {
        // kernels
        {1, 5, 7, {.channels = 1}},
        {3, 9, 7, {.channels = 8, .padding = 1}, true},
        {8, 6, 5, {.channels = 3, .kernel = 1}, true},
        {16, 5, 5, {.channels = 16, .kernel = 1, .stride = 2}},
        {17, 7, 5, {.channels = 20, .padding = 1}},
        {20, 5, 6, {.channels = 33, .stride = 2, .padding = 1}},
        {33, 5, 5, {.channels = 17, .kernel = 5, .padding = 2}},
        {3, 11, 13, {.channels = 16, .kernel = 7, .stride = 2, .padding = 3}, true},
        {16, 8, 9, {.channels = 17, .stride = 3}},
        {32, 8, 8, {.channels = 32, .padding = 1}, true},
        {33, 8, 7, {.channels = 33, .padding = 1}},
        {3, 3, 3, {.channels = 20, .kernel = 3}},
        {8, 4, 4, {.channels = 8, .kernel = 2, .stride = 2}},
        {5, 4, 6, {.channels = 9, .kernel = 4, .padding = 3}},
        // groups
        {8, 5, 7, {.channels = 8, .padding = 1, .groups = 8}, true},
        {17, 6, 5, {.channels = 17, .stride = 2, .padding = 1, .groups = 17}},
        {16, 5, 5, {.channels = 16, .padding = 1, .groups = 16}},
        {20, 5, 5, {.channels = 40, .padding = 1, .groups = 20}},
        {20, 6, 7, {.channels = 12, .padding = 1, .groups = 4}},
        {32, 5, 5, {.channels = 32, .padding = 1, .groups = 2}, true},
        {33, 5, 4, {.channels = 6, .kernel = 1, .groups = 3}},
        // dilation
        {3, 9, 8, {.channels = 8, .padding = 2, .dilation = 2}, true},
        {17, 9, 11, {.channels = 16, .stride = 2, .dilation = 3}},
        {16, 7, 7, {.channels = 20, .kernel = 2, .dilation = 2}},
        {8, 8, 9, {.channels = 8, .padding = 2, .dilation = 2, .groups = 8}},
        // rectangles
        {17, 6, 9, {.channels = 20, .kernel = {1, 7}, .padding = {0, 3, 0, 3}}, true},
        {20, 9, 5, {.channels = 33, .kernel = {7, 1}, .padding = {3, 0, 3, 0}}},
        {3, 9, 11, {.channels = 8, .kernel = {3, 5}, .stride = {2, 3}, .padding = {1, 2, 1, 2}}},
        {8, 7, 9, {.channels = 9, .kernel = {2, 3}, .padding = {0, 2, 2, 4}, .dilation = {3, 2}}},
        {8, 5, 8, {.channels = 8, .kernel = {1, 3}, .padding = {0, 1, 0, 1}, .groups = 8}, true},
        {20, 6, 5, {.channels = 12, .kernel = {3, 2}, .stride = {1, 2}, .groups = 4}},
        // padding of one side
        {3, 8, 8, {.channels = 16, .stride = 2, .padding = {0, 0, 1, 1}}, true},
        {32, 8, 8, {.channels = 32, .padding = {0, 0, 2, 2}}},
        {33, 7, 6, {.channels = 17, .kernel = 5, .padding = {4, 1, 0, 3}}},
        {16, 6, 7, {.channels = 16, .stride = 2, .padding = {0, 1, 1, 0}, .groups = 16}},
        {32, 7, 6, {.channels = 32, .padding = {2, 0, 0, 1}, .groups = 2}},
        // many weights, whose reordering and sums threads share
        {128, 3, 4, {.channels = 64, .padding = 1}},
        {130, 3, 3, {.channels = 70, .padding = 1}},
        {128, 4, 5, {.channels = 80, .stride = 2, .padding = 1}},
        {256, 3, 2, {.channels = 272, .kernel = 1}}};
}

/// Between two layers, so that the gradient of the input is seen; with bias.
Twin conv_between_layers(const ConvCase& c) {
    TwinBuilder net(Shape{2, c.height, c.width});
    const Value x = net.conv(net.input(), {.channels = c.channels, .kernel = 1});
    return net.finish_linear(net.conv(x, c.options));
}

/// On the network's input, no gradient of it asked for; with ReLU and without bias.
Twin conv_of_input(const ConvCase& c) {
    TwinBuilder net(Shape{c.channels, c.height, c.width});
    ConvOptions options = c.options;
    options.bias = false;
    return net.finish_linear(net.relu(net.conv(net.input(), options)));
}

std::vector<Named> map_layers() {
    return {
        {"batch_norm", [](TwinBuilder& net, Value x) { return net.batch_norm(x); }},
        {"batch_norm_relu", [](TwinBuilder& net, Value x) { return net.relu(net.batch_norm(x)); }},
        {"batch_norm_large_epsilon",
         [](TwinBuilder& net, Value x) { return net.batch_norm(x, {0.1F}); }},
        activation("relu", ActivationKind::kRelu),
        {"relu6", relu6_of_large},
        activation("gelu", ActivationKind::kGelu),
        activation("sigmoid", ActivationKind::kSigmoid),
        activation("tanh", ActivationKind::kTanh),
        pool("max_pool", PoolKind::kMax),
        pool("max_pool_overlapping", PoolKind::kMax, {3, 2, 1}),
        pool("average_pool", PoolKind::kAverage),
        pool("average_pool_overlapping", PoolKind::kAverage, {3, 2, 1}),
        pool("average_pool_sparse", PoolKind::kAverage, {2, 3, 1}),
        pool("max_pool_rectangular", PoolKind::kMax,
             {.kernel = {3, 2}, .stride = {1, 2}, .padding = {0, 0, 2, 1}}),
        pool("average_pool_rectangular", PoolKind::kAverage,
             {.kernel = {1, 3}, .stride = {2, 1}, .padding = {0, 0, 0, 2}}),
        pool("average_pool_of_padding", PoolKind::kAverage,
             {.kernel = {3, 2}, .stride = {2, 1}, .padding = {2, 0, 1, 1}, .count_padding = true}),
        pool("global_average_pool", PoolKind::kGlobalAverage),
        dropout(0.3F)};
}

std::vector<Named> feature_layers() {
    return {
        {"linear", [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 9}); }},
        {"linear_of_one", [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 1}); }},
        {"linear_without_bias",
         [](TwinBuilder& net, Value x) { return net.linear(x, {.features = 17, .bias = false}); }},
        {"linear_relu",
         [](TwinBuilder& net, Value x) { return net.relu(net.linear(x, {.features = 33})); }},
        {"linear_relu_without_bias",
         [](TwinBuilder& net, Value x) {
             return net.relu(net.linear(x, {.features = 4, .bias = false}));
         }},
        activation("gelu", ActivationKind::kGelu),
        activation("sigmoid", ActivationKind::kSigmoid),
        dropout(0.6F)};
}

std::vector<Named> position_layers() {
    return {{"linear", [](TwinBuilder& net,
                          Value x) { return net.linear(x, {.features = 17, .bias = false}); }},
            {"linear_relu",
             [](TwinBuilder& net, Value x) { return net.relu(net.linear(x, {.features = 4})); }},
            activation("relu", ActivationKind::kRelu),
            activation("tanh", ActivationKind::kTanh),
            activation("sigmoid", ActivationKind::kSigmoid),
            dropout(0.3F),
            {"add", [](TwinBuilder& net,
                       Value x) { return net.relu(net.add(x, net.linear(x, {.features = 9}))); }},
            {"concat",
             [](TwinBuilder& net, Value x) {
                 return net.concat({x, net.linear(x, {.features = 1}), x});
             }},
            {"two_readers", [](TwinBuilder& net, Value x) {
                 return net.concat({net.lstm(x, {.hidden = 4}), net.lstm(x, {.hidden = 3})});
             }}};
}

struct LstmShape {
    std::int64_t positions;
    std::int64_t features;
    std::int64_t hidden;
};

Twin lstm_between_layers(const LstmShape& s) {
    TwinBuilder net(Shape{s.positions, s.features});
    const Value x =
        net.lstm(net.linear(net.input(), {.features = s.features}), {.hidden = s.hidden});
    return net.finish_regression(net.linear(x, {.features = 3}));
}

Twin two_lstms(const LstmShape& s) {
    TwinBuilder net(Shape{s.positions, s.features});
    const Value x = net.lstm(net.lstm(net.input(), {.hidden = s.hidden}), {.hidden = 5});
    return net.finish(net.linear(net.last_position(x), {.features = 4}));
}

Twin flatten_and_last_position() {
    TwinBuilder net(Shape{4, 3});
    const Value x = net.lstm(net.input(), {.hidden = 5});
    const Value whole = net.linear(net.flatten(x), {.features = 6});
    return net.finish_linear(net.concat({whole, net.last_position(x)}));
}

/// Winograd and its kind round more.
constexpr double kWinogradFactor = kWinogradTolerance / kDirectTolerance;

}  // namespace

std::vector<NetworkCase> conv_cases() {
    std::vector<NetworkCase> cases;
    for (const ConvCase& c : conv_shapes()) {
        const std::string name = conv_name(c);
        const ConvOptions& o = c.options;
        const bool direct = o.kernel != 3 || o.stride != 1 || o.dilation != 1 || o.groups != 1 ||
                            o.padding != Padding(o.padding.top);
        cases.push_back({"conv_" + name,
                         [c] { return conv_between_layers(c); },
                         {7, 2},
                         kWinogradFactor,
                         c.every_precision,
                         direct});
        cases.push_back({"conv_relu_of_input_" + name,
                         [c] { return conv_of_input(c); },
                         {5, 1},
                         kWinogradFactor,
                         false,
                         direct});
    }
    return cases;
}

std::vector<NetworkCase> map_cases() {
    std::vector<NetworkCase> cases;
    for (const Shape& map : {Shape{1, 5, 3}, Shape{3, 4, 7}, Shape{8, 3, 3}, Shape{16, 5, 2},
                             Shape{17, 3, 5}, Shape{33, 2, 3}}) {
        // The one bias of one channel has a gradient of one sum, which may nearly cancel: not so
        // here.
        const std::vector<std::int64_t> sizes{map[0] == 1 ? 11 : 13, 4};
        for (const Named& layer : map_layers()) {
            const std::string name =
                layer.name + "_" + text(map[0]) + "x" + text(map[1]) + "x" + text(map[2]);
            cases.push_back({name,
                             [layer, map] {
                                 TwinBuilder net(Shape{2, map[1], map[2]});
                                 const Value x =
                                     net.conv(net.input(), {.channels = map[0], .kernel = 1});
                                 return net.finish_linear(layer.describe(net, x));
                             },
                             sizes, 1, map[0] == 8});
            cases.push_back({name + "_of_input", [layer, map] {
                                 TwinBuilder net(map);
                                 return net.finish_linear(layer.describe(net, net.input()));
                             }});
        }
    }
    return cases;
}

std::vector<NetworkCase> feature_cases() {
    std::vector<NetworkCase> cases;
    for (const std::int64_t features : {1, 3, 8, 16, 17, 100}) {
        for (const Named& layer : feature_layers()) {
            cases.push_back({layer.name + "_" + text(features),
                             [layer, features] {
                                 TwinBuilder net(Shape{features});
                                 const Value x = net.linear(net.input(), {.features = features});
                                 return net.finish_linear(layer.describe(net, x));
                             },
                             {13, 2, 7},
                             1,
                             features == 17});
        }
        cases.push_back({"batch_norm_relu_" + text(features),
                         [features] {
                             TwinBuilder net(Shape{features});
                             const Value x = net.linear(net.input(), {.features = features});
                             return net.finish_linear(net.relu(net.batch_norm(x)));
                         },
                         {29, 23},
                         5});
    }
    return cases;
}

std::vector<NetworkCase> sequence_cases() {
    std::vector<NetworkCase> cases;
    for (const LstmShape& s :
         {LstmShape{1, 1, 1}, LstmShape{1, 4, 7}, LstmShape{2, 3, 5}, LstmShape{7, 1, 3},
          LstmShape{9, 5, 16}, LstmShape{30, 3, 33}, LstmShape{17, 33, 64}}) {
        const std::string name =
            text(s.positions) + "x" + text(s.features) + "_to_" + text(s.hidden);
        cases.push_back({"lstm_" + name,
                         [s] { return lstm_between_layers(s); },
                         {13, 1, 7},
                         1,
                         s.hidden == 16});
        cases.push_back({"two_lstms_" + name, [s] { return two_lstms(s); }, {6, 1, 11}});
    }
    for (const Named& layer : position_layers()) {
        cases.push_back({"positions_" + layer.name,
                         [layer] {
                             TwinBuilder net(Shape{6, 5});
                             const Value x = net.linear(net.input(), {.features = 9});
                             return net.finish_regression(
                                 net.linear(layer.describe(net, x), {.features = 2}));
                         },
                         {11, 3, 8},
                         1,
                         true});
    }
    cases.push_back({"flatten_and_last_position", flatten_and_last_position});
    return cases;
}

std::vector<NetworkCase> structure_cases() {
    std::vector<NetworkCase> cases;
    for (const auto& list : {residual_structures(), joint_structures(), view_structures()}) {
        for (const StructureCase& one : list) {
            cases.push_back(
                {one.name, [one] { return one.make(); }, {13, 6}, kWinogradFactor, true});
        }
    }
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        cases.push_back({"random_" + std::to_string(seed),
                         [seed] { return random_network(seed); },
                         {12, 7},
                         2 * kWinogradFactor});
    }
    return cases;
}

std::ostream& operator<<(std::ostream& out, const NetworkParam& param) {
    return out << param.network.name << " on " << param.backend.name;
}

std::string param_name(const ::testing::TestParamInfo<NetworkParam>& made) {
    return std::string(made.param.backend.name) + "_" + made.param.network.name;
}

std::vector<NetworkParam> on_backends(const std::vector<NetworkCase>& cases) {
    std::vector<NetworkParam> params;
    for (const Backend& backend : all_backends()) {
        const bool all =
            backend.precision == Precision::kF32 || backend.precision == Precision::kBf16;
        for (const NetworkCase& network : cases) {
            if (all || network.every_precision) {
                params.push_back({backend, network});
            }
        }
    }
    return params;
}

}  // namespace cohort::test
