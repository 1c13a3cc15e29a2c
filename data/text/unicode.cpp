#include "data/text/unicode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cohort/core/error.hpp"
#include "cohort/data/vocabulary.hpp"

namespace cohort {

std::optional<Character> first_character(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
        return Character{lead, 1};
    }
    const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) {
        return std::nullopt;
    }
    char32_t value = lead & (0xFFU >> (bytes + 1));
    for (std::size_t at = 1; at < bytes; ++at) {
        if ((byte(at) & 0xC0U) != 0x80U) {
            return std::nullopt;
        }
        value = (value << 6U) | (byte(at) & 0x3FU);
    }
    constexpr char32_t kLeast[]{0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    return value < kLeast[bytes] || value > 0x10FFFF || surrogate
               ? std::nullopt
               : std::optional(Character{value, bytes});
}

void append_utf8(std::string& text, char32_t character) {
    const auto rest = [&](unsigned shift) {
        text += static_cast<char>(0x80U | ((character >> shift) & 0x3FU));
    };
    if (character < 0x80) {
        text += static_cast<char>(character);
    } else if (character < 0x800) {
        text += static_cast<char>(0xC0U | (character >> 6U));
        rest(0);
    } else if (character < 0x10000) {
        text += static_cast<char>(0xE0U | (character >> 12U));
        rest(6);
        rest(0);
    } else {
        text += static_cast<char>(0xF0U | (character >> 18U));
        rest(12);
        rest(6);
        rest(0);
    }
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
