#pragma once

#include <cstdint>
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
[[nodiscard]] Graph vgg16(const Shape& input, std::int64_t classes);

/// Errors: ShapeError unless `input` is [C,H,W] with height and width of at least `smallest`.
void require_image(std::string_view model, const Shape& input, std::int64_t smallest);

/// Convolution that keeps height and width at stride 1, without bias, and its batch norm.
[[nodiscard]] Value conv_norm(GraphBuilder& net, Value x, std::int64_t channels,
                              std::int64_t kernel, std::int64_t stride);

/// Global average pooling and the linear layer that gives the logits, in the scope "head".
[[nodiscard]] Graph finish_pooled(GraphBuilder& net, Value x, std::int64_t classes);

}  // namespace cohort::zoo
