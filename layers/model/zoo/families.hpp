#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/model/graph.hpp"

/// The families of the model zoo: a source file each, listed in zoo.cpp.
namespace cohort::zoo {

[[nodiscard]] Graph softmax(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph mlp(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph smallcnn(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph lenet(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph resnet20(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph resnet56(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph resnet50(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph alexnet(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph vgg13(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph vgg16(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph googlenet(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph densenet121(const Shape& input, std::int64_t classes);
[[nodiscard]] Graph mobilenetv2(const Shape& input, std::int64_t classes);

// Of tokens.
[[nodiscard]] Graph lstm(const TokenInput& input);
[[nodiscard]] Graph transformer(const TokenInput& input);
struct GptSize {
    std::int64_t width = 128;
    std::int64_t depth = 4;
    std::int64_t heads = 4;
    friend bool operator==(const GptSize&, const GptSize&) = default;
};
/// Errors: UsageError for a width that is no multiple of the heads.
[[nodiscard]] Graph gpt(const TokenInput& input, const GptSize& size);

/// Errors: ShapeError unless `input` is [C,H,W] with height and width of at least `smallest`.
void require_image(std::string_view model, const Shape& input, std::int64_t smallest);

/// Images under 96 pixels in height or width: such a model leaves out the strides and poolings with
/// which its paper's form brings 224 pixels down to 56 before the first blocks.
[[nodiscard]] bool small_image(const Shape& input);

/// Max pooling of 2x2 at stride 2; `x` itself where an image has run out of pixels.
[[nodiscard]] Value halve(GraphBuilder& net, Value x);

/// "stage1.block0"
[[nodiscard]] std::string block_name(int stage, int block);

/// Convolution that keeps height and width at stride 1, without bias, and its batch norm.
[[nodiscard]] Value conv_norm(GraphBuilder& net, Value x, std::int64_t channels,
                              std::int64_t kernel, std::int64_t stride);

/// Global average pooling and the linear layer that gives the logits, in the scope "head".
[[nodiscard]] Graph finish_pooled(GraphBuilder& net, Value x, std::int64_t classes);

}  // namespace cohort::zoo
