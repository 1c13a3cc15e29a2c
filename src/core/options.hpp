#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <string>
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
