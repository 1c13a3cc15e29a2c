// The model zoo. Sources: LeNet (LeCun et al. 1998, with ReLU and max pooling), CIFAR ResNets
// (He et al. 2016, section 4.2, with projection shortcuts), ResNet-50 (He et al. 2016, stride in
// the 3x3 convolution), VGG-16 (Simonyan & Zisserman 2015, configuration D with batch norm and one
// linear layer, as is usual for small images).
#include "cohort/model/zoo.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

void require_image(std::string_view model, const Shape& input, std::int64_t smallest) {
    if (input.rank() != 3 || input[1] < smallest || input[2] < smallest) {
        fail<ShapeError>({.where = model,
                          .what = "unusable input shape",
                          .expected = "[C,H,W] with H, W >= " + std::to_string(smallest),
                          .got = to_string(input)});
    }
}

Value flat(GraphBuilder& net, Value x) {
    return net.shape(x).rank() == 1 ? x : net.flatten(x);
}

Graph softmax(const Shape& input, std::int64_t classes) {
    GraphBuilder net("softmax", input);
    return net.finish(net.linear(flat(net, net.input()), {.features = classes}));
}

Graph mlp(const Shape& input, std::int64_t classes) {
    constexpr std::int64_t kHidden = 256;
    GraphBuilder net("mlp", input);
    Value x = flat(net, net.input());
    for (int layer = 0; layer < 2; ++layer) {
        x = net.relu(net.linear(x, {.features = kHidden}));
    }
    return net.finish(net.linear(x, {.features = classes}));
}

/// Two strided 3x3 convolutions of 8 and 16 channels: small enough for quick experiments.
Graph smallcnn(const Shape& input, std::int64_t classes) {
    require_image("smallcnn", input, 4);
    GraphBuilder net("smallcnn", input);
    Value x =
        net.relu(net.conv(net.input(), {.channels = 8, .kernel = 3, .stride = 2, .padding = 1}));
    x = net.relu(net.conv(x, {.channels = 16, .kernel = 3, .stride = 2, .padding = 1}));
    return net.finish(net.linear(net.flatten(x), {.features = classes}));
}

Graph lenet(const Shape& input, std::int64_t classes) {
    require_image("lenet", input, 12);
    GraphBuilder net("lenet", input);
    Value x = net.relu(net.conv(net.input(), {.channels = 20, .kernel = 5, .padding = 2}));
    x = net.max_pool(x, {.kernel = 2, .stride = 2});
    x = net.relu(net.conv(x, {.channels = 50, .kernel = 5}));
    x = net.max_pool(x, {.kernel = 2, .stride = 2});
    x = net.relu(net.linear(net.flatten(x), {.features = 500}));
    return net.finish(net.linear(x, {.features = classes}));
}

Value conv_norm(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t kernel,
                std::int64_t stride) {
    return net.batch_norm(net.conv(x, {.channels = channels,
                                       .kernel = kernel,
                                       .stride = stride,
                                       .padding = kernel / 2,
                                       .bias = false}));
}

Value shortcut(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t stride) {
    const bool same = stride == 1 && net.shape(x)[0] == channels;
    return same ? x : conv_norm(net, x, channels, 1, stride);
}

Value basic_block(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t stride) {
    const Value around = shortcut(net, x, channels, stride);
    const Value y = net.relu(conv_norm(net, x, channels, 3, stride));
    return net.relu(net.add(conv_norm(net, y, channels, 3, 1), around));
}

Value bottleneck(GraphBuilder& net, Value x, std::int64_t middle, std::int64_t stride) {
    const Value around = shortcut(net, x, 4 * middle, stride);
    Value y = net.relu(conv_norm(net, x, middle, 1, 1));
    y = net.relu(conv_norm(net, y, middle, 3, stride));
    return net.relu(net.add(conv_norm(net, y, 4 * middle, 1, 1), around));
}

std::string block_name(int stage, int block) {
    return "stage" + std::to_string(stage) + ".block" + std::to_string(block);
}

Graph cifar_resnet(const std::string& name, int depth, const Shape& input, std::int64_t classes) {
    require_image(name, input, 8);
    const int blocks = (depth - 2) / 6;
    GraphBuilder net(name, input);
    net.scope("stem");
    Value x = net.relu(conv_norm(net, net.input(), 16, 3, 1));
    std::int64_t channels = 16;
    for (int stage = 1; stage <= 3; ++stage, channels *= 2) {
        for (int block = 0; block < blocks; ++block) {
            net.scope(block_name(stage, block));
            x = basic_block(net, x, channels, stage > 1 && block == 0 ? 2 : 1);
        }
    }
    net.scope("head");
    x = net.flatten(net.global_average_pool(x));
    return net.finish(net.linear(x, {.features = classes}));
}

Graph resnet50(const Shape& input, std::int64_t classes) {
    require_image("resnet50", input, 32);
    constexpr int kBlocks[] = {3, 4, 6, 3};
    GraphBuilder net("resnet50", input);
    net.scope("stem");
    Value x = net.relu(conv_norm(net, net.input(), 64, 7, 2));
    x = net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    std::int64_t middle = 64;
    for (int stage = 1; stage <= 4; ++stage, middle *= 2) {
        for (int block = 0; block < kBlocks[stage - 1]; ++block) {
            net.scope(block_name(stage, block));
            x = bottleneck(net, x, middle, stage > 1 && block == 0 ? 2 : 1);
        }
    }
    net.scope("head");
    x = net.flatten(net.global_average_pool(x));
    return net.finish(net.linear(x, {.features = classes}));
}

Graph vgg16(const Shape& input, std::int64_t classes) {
    require_image("vgg16", input, 16);
    constexpr std::int64_t kPool = 0;
    constexpr std::int64_t kPlan[] = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                      kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
    GraphBuilder net("vgg16", input);
    Value x = net.input();
    for (const std::int64_t channels : kPlan) {
        if (channels != kPool) {
            x = net.relu(
                net.batch_norm(net.conv(x, {.channels = channels, .kernel = 3, .padding = 1})));
        } else if (std::min(net.shape(x)[1], net.shape(x)[2]) >= 2) {
            x = net.max_pool(x, {.kernel = 2, .stride = 2});  // images under 32 run out of pixels
        }
    }
    return net.finish(net.linear(net.flatten(x), {.features = classes}));
}

struct Maker {
    std::string_view name;
    Graph (*make)(const Shape& input, std::int64_t classes);
};
constexpr Maker kMakers[] = {
    {"softmax", softmax},
    {"mlp", mlp},
    {"smallcnn", smallcnn},
    {"lenet", lenet},
    {"resnet20", [](const Shape& s, std::int64_t c) { return cifar_resnet("resnet20", 20, s, c); }},
    {"resnet56", [](const Shape& s, std::int64_t c) { return cifar_resnet("resnet56", 56, s, c); }},
    {"vgg16", vgg16},
    {"resnet50", resnet50},
};

}  // namespace

std::vector<std::string> model_names() {
    std::vector<std::string> names;
    for (const Maker& maker : kMakers) {
        names.emplace_back(maker.name);
    }
    return names;
}

Graph make_model(std::string_view name, const ModelInput& input) {
    const auto* const found = std::find_if(std::begin(kMakers), std::end(kMakers),
                                           [&](const Maker& maker) { return maker.name == name; });
    if (found == std::end(kMakers)) {
        fail<UsageError>({.where = "--model",
                          .what = "unknown model",
                          .expected = fmt::format("{}", fmt::join(model_names(), ", ")),
                          .got = name});
    }
    if (input.classes < 2) {
        fail<UsageError>({.where = "--model",
                          .what = "too few classes",
                          .expected = "at least 2",
                          .got = std::to_string(input.classes)});
    }
    if (input.tokens) {
        fail<ShapeError>({.where = found->name,
                          .what = "the data set holds text",
                          .expected = "samples of numbers",
                          .got = "windows of " + to_string(input.shape) + " tokens"});
    }
    return found->make(input.shape, input.classes);
}

}  // namespace cohort
