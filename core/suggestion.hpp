#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cohort {

/// The word that `text` was probably meant to be: the one of the smallest edit distance (letters
/// inserted, deleted, replaced, or swapped with their neighbour), which may be a third of the
/// text's length, as in the typo correction of the compiler clang. Empty: no word is that close.
[[nodiscard]] std::string closest_word(std::string_view text, std::span<const std::string> words);

/// "'adaptve' (did you mean 'adaptive'?)", or "'tarot'" when no word is close.
[[nodiscard]] std::string quoted_with_guess(std::string_view text,
                                            std::span<const std::string> words);

}  // namespace cohort
