#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <system_error>

namespace cohort {

/// Smallest and largest value that an option takes.
template <class T>
struct Limits {
    T least = std::numeric_limits<T>::lowest();
    T most = std::numeric_limits<T>::max();
};

/// What is wrong with `text` as a number of type T; empty when it is one, in decimal notation,
/// whole for whole T, finite, representable and within `limits`. A whole number is rewritten as it
/// is understood ("007" becomes "7").
template <class T>
std::string check_number(std::string& text, Limits<T> limits) {
    T number{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    bool good = error == std::errc() && end == last;
    if constexpr (std::floating_point<T>) {
        good = good && std::isfinite(number);
    }
    if (good && number >= limits.least && number <= limits.most) {
        if constexpr (std::integral<T>) {
            text = std::to_string(number);
        }
        return {};
    }
    if constexpr (std::floating_point<T>) {
        return fmt::format("expected a finite number, got '{}'", text);
    } else {
        return fmt::format("expected a whole number from {} to {}, got '{}'", limits.least,
                           limits.most, text);
    }
}

}  // namespace cohort
