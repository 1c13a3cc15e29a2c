#pragma once

#include <string_view>

namespace cohort {

/// data/efficiency/default.toml, as it was when the program was built.
[[nodiscard]] std::string_view shipped_efficiency_text();

}  // namespace cohort
