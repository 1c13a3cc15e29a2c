#pragma once

#include <string>
#include <string_view>

#include "cohort/sched/named_weights.hpp"

namespace cohort {

/// TOML: trained_on, and the weight of each term in [weights]. @param file  for messages
/// @param trainer  the command that writes such files
/// Errors: FileError naming the file, the line, or the term that has no number.
[[nodiscard]] NamedWeights parse_weights(std::string_view text, const std::string& file,
                                         std::string_view trainer);

}  // namespace cohort
