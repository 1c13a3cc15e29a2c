#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

enum class CharacterClass { kOther, kSpace, kLetter, kMark, kNumber };

/// Unicode's general category, as far as cutting text into words needs it, by utf8proc: of the
/// version of Unicode that the library knows.
[[nodiscard]] CharacterClass class_of(char32_t character);

/// A character of a text and the bytes that it takes there.
struct Character {
    char32_t value = 0;
    std::size_t bytes = 1;
};

/// The first character of a text in UTF-8; none: its first bytes are not UTF-8 (overlong forms and
/// surrogates are not). @param text  not empty
[[nodiscard]] std::optional<Character> first_character(std::string_view text);

/// Appends a character, of U+0000 to U+10FFFF, in UTF-8.
void append_utf8(std::string& text, char32_t character);

}  // namespace cohort
