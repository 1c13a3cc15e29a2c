#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/model/graph.hpp"

namespace cohort {

/// Names accepted by `make_model`, listed with sources, sizes and inputs in docs/models.md.
[[nodiscard]] std::vector<std::string> model_names();

/// Builds a model of the zoo for samples of shape [C,H,W] (softmax and mlp: any shape).
/// Errors: UsageError for an unknown name (listing the known ones), ShapeError for an input the
/// model cannot take, before anything is allocated.
[[nodiscard]] Graph make_model(std::string_view name, const Shape& input, std::int64_t classes);

}  // namespace cohort
