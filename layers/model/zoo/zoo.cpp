// The list of the model zoo, and what its families share.
#include "cohort/model/zoo.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>

#include "cohort/core/error.hpp"
#include "core/suggestion.hpp"
#include "layers/model/zoo/families.hpp"

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

struct TextMaker {
    std::string_view name;
    Graph (*make)(const TokenInput& input);
};
constexpr TextMaker kTextMakers[] = {
    {"lstm", zoo::lstm},
    {"transformer", zoo::transformer},
    {"gpt", [](const TokenInput& input) { return zoo::gpt(input, {}); }},
};

constexpr std::string_view kGptPrefix = "gpt:";
constexpr std::int64_t kLargestGpt = 65536;

/// "gpt:WIDTH,DEPTH,HEADS"
zoo::GptSize gpt_size(std::string_view name) {
    zoo::GptSize size;
    std::int64_t* const fields[] = {&size.width, &size.depth, &size.heads};
    const char* at = name.data() + kGptPrefix.size();
    const char* const end = name.data() + name.size();
    bool good = true;
    for (std::int64_t* field : fields) {
        const auto [after, error] = std::from_chars(at, end, *field);
        const bool last = field == &size.heads;
        good = good && error == std::errc() && *field >= 1 && *field <= kLargestGpt &&
               (last ? after == end : after != end && *after == ',');
        at = good && !last ? after + 1 : end;
    }
    if (!good) {
        fail<UsageError>({.where = "--model",
                          .what = "unusable size",
                          .expected = fmt::format("gpt:WIDTH,DEPTH,HEADS, each 1..{}", kLargestGpt),
                          .got = name});
    }
    return size;
}

template <class Makers>
const auto* find_maker(const Makers& makers, std::string_view name) {
    const auto* const found = std::find_if(std::begin(makers), std::end(makers),
                                           [&](const auto& maker) { return maker.name == name; });
    return found == std::end(makers) ? nullptr : found;
}

Graph make_text_model(std::string_view name, const ModelInput& input) {
    if (!input.tokens) {
        fail<ShapeError>({.where = name,
                          .what = "this model reads text, the data set holds numbers",
                          .expected = "windows of tokens (cohort import --format text)",
                          .got = "samples of shape " + to_string(input.shape)});
    }
    const TokenInput tokens{.positions = input.shape.elements(), .vocabulary = input.classes};
    const TextMaker* maker = find_maker(kTextMakers, name);
    return maker == nullptr ? zoo::gpt(tokens, gpt_size(name)) : maker->make(tokens);
}

}  // namespace

std::vector<std::string> model_names() {
    std::vector<std::string> names;
    for (const Maker& maker : kMakers) {
        names.emplace_back(maker.name);
    }
    for (const TextMaker& maker : kTextMakers) {
        names.emplace_back(maker.name);
    }
    return names;
}

bool reads_text(std::string_view name) {
    return find_maker(kTextMakers, name) != nullptr || name.starts_with(kGptPrefix);
}

bool is_model(std::string_view name) {
    return find_maker(kMakers, name) != nullptr || reads_text(name);
}

Graph make_model(std::string_view name, const ModelInput& input) {
    if (!is_model(name)) {
        fail<UsageError>(
            {.where = "--model",
             .what = "unknown model",
             .expected = fmt::format("{}, gpt:WIDTH,DEPTH,HEADS", fmt::join(model_names(), ", ")),
             .got = quoted_with_guess(name, model_names())});
    }
    const bool regression = input.targets > 0;
    if (!regression && input.classes < 2) {
        fail<UsageError>({.where = "--model",
                          .what = "too few classes",
                          .expected = "at least 2",
                          .got = std::to_string(input.classes)});
    }
    if (reads_text(name)) {
        return make_text_model(name, input);
    }
    if (input.tokens) {
        fail<ShapeError>({.where = name,
                          .what = "the data set holds text, this model reads numbers",
                          .expected = "a model of text: lstm, transformer, gpt",
                          .got = "windows of " + to_string(input.shape) + " tokens"});
    }
    const Maker& maker = *find_maker(kMakers, name);
    return regression
               ? maker.make(input.shape, input.targets).with_loss(LossKind::kMeanSquaredError)
               : maker.make(input.shape, input.classes);
}

}  // namespace cohort
