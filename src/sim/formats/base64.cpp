#include "sim/formats/base64.hpp"

#include <algorithm>
#include <cstdint>

namespace cohort {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kLine = 96;

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
    std::string text;
    std::size_t column = 0;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::size_t count = std::min<std::size_t>(bytes.size() - at, 3);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            bits = bits << 8 | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
        }
        column += 4;
        if (column == kLine) {
            text += '\n';
            column = 0;
        }
    }
    return column == 0 ? text : text + '\n';
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
    std::vector<std::byte> bytes;
    std::uint32_t bits = 0;
    std::size_t digits = 0;
    std::size_t padding = 0;
    for (const char c : text) {
        if (c == '\n' || c == '\r') {
            continue;
        }
        const std::size_t digit = kDigits.find(c);
        const bool pad = c == '=';
        if ((!pad && digit == std::string_view::npos) || (!pad && padding > 0)) {
            return std::nullopt;
        }
        padding += pad ? 1 : 0;
        bits = bits << 6 | static_cast<std::uint32_t>(pad ? 0 : digit);
        if (++digits % 4 == 0) {
            for (const int shift : {16, 8, 0}) {
                bytes.push_back(static_cast<std::byte>(bits >> shift & 255));
            }
        }
    }
    if (digits % 4 != 0 || padding > 2) {
        return std::nullopt;
    }
    bytes.resize(bytes.size() - padding);
    return bytes;
}

}  // namespace cohort
