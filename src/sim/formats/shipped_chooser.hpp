#pragma once

#include <string_view>

namespace cohort {

/// data/choosers/default.toml, as it was when the program was built.
[[nodiscard]] std::string_view shipped_chooser_text();

}  // namespace cohort
