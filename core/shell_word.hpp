#pragma once

#include <string>

namespace cohort {

/// A word as a shell reads it: in quotes where it is not plain.
[[nodiscard]] std::string shell_quoted(const std::string& word);

}  // namespace cohort
