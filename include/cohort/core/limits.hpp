#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "cohort/core/require.hpp"

namespace cohort {

/// Range of the numbers that an option accepts; never NaN.
template <class T>
struct Limits {
    enum class Ends : std::uint8_t { kBoth, kNotLeast, kNotMost };
    T least = std::numeric_limits<T>::lowest();
    T most = std::numeric_limits<T>::max();
    Ends ends = Ends::kBoth;  ///< ends of the range that are accepted
    bool or_zero = false;     ///< 0 is accepted as well

    [[nodiscard]] constexpr bool contain(T value) const noexcept {
        return (value == 0 && or_zero) ||
               (value >= least && value <= most && (ends != Ends::kNotLeast || value != least) &&
                (ends != Ends::kNotMost || value != most));
    }

    /// "1 to 1024", "above 0, at most 1", "0 to below 1", "1024 to 4096, or 0".
    [[nodiscard]] std::string text() const {
        const char* form = ends == Ends::kNotLeast  ? "above {}, at most {}"
                           : ends == Ends::kNotMost ? "{} to below {}"
                                                    : "{} to {}";
        return fmt::format(fmt::runtime(form), least, most) + (or_zero ? ", or 0" : "");
    }

    /// "a whole number, 1 to 1024"
    [[nodiscard]] std::string expected() const {
        return (std::is_integral_v<T> ? "a whole number, " : "a number, ") + text();
    }
};

/// Errors: UsageError. @param option  its long name, with dashes
template <class T>
void require_within(std::type_identity_t<T> value, const Limits<T>& limits, const char* option) {
    if (!limits.contain(value)) {
        require(false, option, limits.expected(), fmt::format("{}", value));
    }
}

}  // namespace cohort
