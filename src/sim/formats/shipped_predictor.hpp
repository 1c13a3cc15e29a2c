#pragma once

#include <string_view>

namespace cohort {

/// data/predictors/shipped.toml, as it was when the program was built.
[[nodiscard]] std::string_view shipped_predictor_text();

}  // namespace cohort
