#include "cohort/core/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/core/error.hpp"

namespace cohort {

void refuse_word(std::string_view text, std::span<const std::string_view> words,
                 std::string_view where, std::string_view what) {
    fail<UsageError>({.where = where,
                      .what = what,
                      .expected = fmt::format("{}", fmt::join(words, ", ")),
                      .got = fmt::format("'{}'", text)});
}

}  // namespace cohort
