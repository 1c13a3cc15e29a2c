#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

namespace cohort {

/// How options and files call the values of an enumeration, which count from 0: to be specialised
/// beside it as an array of names.
template <class E>
inline constexpr int kWords = 0;

template <class E>
[[nodiscard]] constexpr std::string_view word_of(E value) noexcept {
    return kWords<E>[static_cast<std::size_t>(value)];
}

/// Errors: UsageError, always: `text` is none of `words`. Device code includes this header, which
/// therefore knows no formatting.
[[noreturn]] void refuse_word(std::string_view text, std::span<const std::string_view> words,
                              std::string_view where, std::string_view what);

/// The value of that name. @param where  the option, for the message  Errors: UsageError.
template <class E>
[[nodiscard]] E parse_word(std::string_view text, std::string_view where,
                           std::string_view what = "the value cannot be used") {
    const auto found = std::find(kWords<E>.begin(), kWords<E>.end(), text);
    if (found == kWords<E>.end()) {
        refuse_word(text, kWords<E>, where, what);
    }
    return static_cast<E>(found - kWords<E>.begin());
}

}  // namespace cohort
