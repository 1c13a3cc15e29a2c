#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/core/limits.hpp"
#include "cohort/core/words.hpp"

// Options are listed once: a function template each_option(options, visit) beside each struct of
// options calls visit(info, field) for each, for numbers visit(info, field, limits). The command
// line, the checks and the lists of values are visitors. Fields are texts, numbers, flags (bool)
// and enumerations that have kWords.
namespace cohort {

template <class T, class Options>
concept ConstOrNot = std::same_as<std::remove_const_t<T>, Options>;

/// What is said of an option.
struct OptionInfo {
    const char* name;                     ///< long, with dashes
    std::string meaning;                  ///< one sentence, for --help
    const char* type = nullptr;           ///< what --help calls the value; null: its kind
    std::vector<std::string> words = {};  ///< a text's possible values; empty: any
};

/// Checks numbers and words. Errors: UsageError naming the option.
struct CheckValues {
    template <class T>
    void operator()(const OptionInfo& info, const T& value, const Limits<T>& limits) const {
        require_within(value, limits, info.name);
    }
    template <class T>
    void operator()(const OptionInfo& info, const T& value) const {
        if constexpr (std::is_same_v<T, std::string>) {
            const bool known =
                info.words.empty() || std::ranges::find(info.words, value) != info.words.end();
            require(known, info.name, fmt::format("{}", fmt::join(info.words, ", ")),
                    fmt::format("'{}'", value));
        }
    }
};

/// Sets the option of a name, without dashes, from a text as the command line writes it.
struct SetOption {
    std::string_view name;
    std::string_view text;
    bool& known;            ///< becomes true when there is such an option
    std::string& expected;  ///< what the option accepts, when the text is not that

    template <class T>
    void operator()(const OptionInfo& info, T& field, const Limits<T>& limits) const {
        if (!is(info)) {
            return;
        }
        T number{};
        const char* last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data(), last, number);
        if (error == std::errc() && end == last && limits.contain(number)) {
            field = number;
        } else {
            expected = limits.expected();
        }
    }
    void operator()(const OptionInfo& info, bool& field) const {
        if (is(info)) {
            field = text == "true";
            expected = field || text == "false" ? "" : "true or false";
        }
    }
    void operator()(const OptionInfo& info, std::string& field) const {
        if (is(info)) {
            field = text;
            const bool fits =
                info.words.empty() || std::ranges::find(info.words, text) != info.words.end();
            expected = fits ? "" : fmt::format("{}", fmt::join(info.words, ", "));
        }
    }
    template <class E>
    requires std::is_enum_v<E>
    void operator()(const OptionInfo& info, E& field) const {
        if (is(info)) {
            const auto found = std::ranges::find(kWords<E>, text);
            if (found != kWords<E>.end()) {
                field = static_cast<E>(found - kWords<E>.begin());
            } else {
                expected = fmt::format("{}", fmt::join(kWords<E>, ", "));
            }
        }
    }

private:
    [[nodiscard]] bool is(const OptionInfo& info) const {
        const bool same = name == info.name + 2;
        known = known || same;
        return same;
    }
};

/// Collects names, without dashes, and values as the command line writes them.
struct ListValues {
    std::vector<std::pair<std::string, std::string>>& values;

    template <class T, class... Limit>
    void operator()(const OptionInfo& info, const T& value, const Limit&... /*limits*/) const {
        if constexpr (std::is_enum_v<T>) {
            values.emplace_back(info.name + 2, word_of(value));
        } else {
            values.emplace_back(info.name + 2, fmt::format("{}", value));
        }
    }
};

}  // namespace cohort
