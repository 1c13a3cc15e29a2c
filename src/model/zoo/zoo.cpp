// The list of the model zoo, and what its families share.
#include "cohort/model/zoo.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "cohort/core/error.hpp"
#include "model/zoo/families.hpp"

namespace cohort {
namespace zoo {

void require_image(std::string_view model, const Shape& input, std::int64_t smallest) {
    if (input.rank() != 3 || input[1] < smallest || input[2] < smallest) {
        fail<ShapeError>({.where = model,
                          .what = "unusable input shape",
                          .expected = "[C,H,W] with H, W >= " + std::to_string(smallest),
                          .got = to_string(input)});
    }
}

bool small_image(const Shape& input) {
    constexpr std::int64_t kLarge = 96;
    return std::min(input[1], input[2]) < kLarge;
}

Value halve(GraphBuilder& net, Value x) {
    const bool enough = std::min(net.shape(x)[1], net.shape(x)[2]) >= 2;
    return enough ? net.max_pool(x, {.kernel = 2, .stride = 2}) : x;
}

std::string block_name(int stage, int block) {
    return "stage" + std::to_string(stage) + ".block" + std::to_string(block);
}

Value conv_norm(GraphBuilder& net, Value x, std::int64_t channels, std::int64_t kernel,
                std::int64_t stride) {
    return net.batch_norm(net.conv(x, {.channels = channels,
                                       .kernel = kernel,
                                       .stride = stride,
                                       .padding = kernel / 2,
                                       .bias = false}));
}

Graph finish_pooled(GraphBuilder& net, Value x, std::int64_t classes) {
    net.scope("head");
    x = net.flatten(net.global_average_pool(x));
    return net.finish(net.linear(x, {.features = classes}));
}

}  // namespace zoo

namespace {

struct Maker {
    std::string_view name;
    Graph (*make)(const Shape& input, std::int64_t classes);
};
constexpr Maker kMakers[] = {
    {"softmax", zoo::softmax},
    {"mlp", zoo::mlp},
    {"smallcnn", zoo::smallcnn},
    {"lenet", zoo::lenet},
    {"resnet20", zoo::resnet20},
    {"resnet56", zoo::resnet56},
    {"vgg16", zoo::vgg16},
    {"resnet50", zoo::resnet50},
    {"alexnet", zoo::alexnet},
    {"vgg13", zoo::vgg13},
    {"densenet121", zoo::densenet121},
    {"googlenet", zoo::googlenet},
    {"mobilenetv2", zoo::mobilenetv2},
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
