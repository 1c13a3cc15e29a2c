#include "cohort/core/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "core/suggestion.hpp"

namespace cohort {

void refuse_word(std::string_view text, std::span<const std::string_view> words,
                 std::string_view where, std::string_view what) {
    const std::vector<std::string> all(words.begin(), words.end());
    fail<UsageError>({.where = where,
                      .what = what,
                      .expected = fmt::format("{}", fmt::join(words, ", ")),
                      .got = quoted_with_guess(text, all)});
}

}  // namespace cohort
