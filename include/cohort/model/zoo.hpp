#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/model/graph.hpp"

namespace cohort {

/// Names accepted by `make_model`, listed with sources, sizes and inputs in docs/models.md.
[[nodiscard]] std::vector<std::string> model_names();

/// Whether `make_model` knows the name; also "gpt:WIDTH,DEPTH,HEADS".
[[nodiscard]] bool is_model(std::string_view name);
/// Whether that model reads tokens.
[[nodiscard]] bool reads_text(std::string_view name);

/// What a model is made for.
struct ModelInput {
    Shape shape;               ///< of a sample: [C,H,W], [T,F], [F], or [T] tokens
    std::int64_t classes = 0;  ///< of a label; with tokens the vocabulary
    std::int64_t targets = 0;  ///< numbers to predict of a sample (regression); 0: a class
    bool tokens = false;       ///< samples are windows of T tokens, with a label per position
};

/// Builds a model of the zoo for samples of shape [C,H,W] (softmax and mlp: any shape), or for
/// windows of tokens (lstm, transformer, gpt; as many positions as the window has tokens).
/// With targets its outputs are as many, and its loss is their mean squared error.
/// Errors: UsageError for an unknown name (listing the known ones), ShapeError for an input the
/// model cannot take, before anything is allocated.
[[nodiscard]] Graph make_model(std::string_view name, const ModelInput& input);
/// For samples that are numbers.
[[nodiscard]] inline Graph make_model(std::string_view name, const Shape& shape,
                                      std::int64_t classes) {
    return make_model(name, {.shape = shape, .classes = classes});
}

}  // namespace cohort
