#include "data/text/unicode.hpp"

#include <fmt/format.h>

#include <utf8proc.h>
#include <algorithm>
#include <array>

#include "cohort/core/error.hpp"
#include "cohort/data/vocabulary.hpp"

namespace cohort {

CharacterClass class_of(char32_t character) {
    // White_Space: beside the separators (Z*) some control characters.
    if ((character >= 0x09 && character <= 0x0D) || character == 0x85) {
        return CharacterClass::kSpace;
    }
    switch (::utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
        case UTF8PROC_CATEGORY_ZS:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP: return CharacterClass::kSpace;
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO: return CharacterClass::kLetter;
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME: return CharacterClass::kMark;
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_NO: return CharacterClass::kNumber;
        default: return CharacterClass::kOther;
    }
}

std::optional<Character> first_character(std::string_view text) {
    const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    if (bytes[0] < 0x80) {
        return Character{bytes[0], 1};
    }
    utf8proc_int32_t value = 0;
    const utf8proc_ssize_t length =
        ::utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &value);
    return length <= 0 ? std::nullopt
                       : std::optional(Character{static_cast<char32_t>(value),
                                                 static_cast<std::size_t>(length)});
}

void append_utf8(std::string& text, char32_t character) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const utf8proc_ssize_t length =
        ::utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
    text.append(bytes.begin(), bytes.begin() + length);
}

void check_utf8(std::string_view text, std::string_view where) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::optional<Character> next = first_character(text.substr(at));
        if (!next) {
            const std::string_view before = text.substr(0, at);
            fail<FileError>({.where = where,
                             .what = "the text is not UTF-8",
                             .expected = "UTF-8",
                             .got = fmt::format("byte 0x{:02x} at byte {}, in line {}",
                                                static_cast<unsigned char>(text[at]), at,
                                                1 + std::count(before.begin(), before.end(), '\n')),
                             .hint = "iconv -t UTF-8"});
        }
        at += next->bytes;
    }
}

}  // namespace cohort
