#include "cohort/sched/chooser_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

void check_word(std::string_view option, const std::string& word,
                const std::vector<std::string>& words) {
    if (std::find(words.begin(), words.end(), word) == words.end()) {
        fail<UsageError>({.where = option,
                          .what = "the value cannot be used",
                          .expected = fmt::format("{}", fmt::join(words, ", ")),
                          .got = fmt::format("'{}'", word)});
    }
}

/// Refuses a file that the chosen predictor, model or mode does not read.
void check_file(std::string_view option, const std::string& file, bool read,
                std::string_view expected) {
    if (!file.empty() && !read) {
        fail<UsageError>({.where = option,
                          .what = "the file would not be read",
                          .expected = expected,
                          .got = file});
    }
}

}  // namespace

bool uses_model(std::string_view predictor) noexcept {
    return predictor == "lstm" || predictor == "auto";
}

void check_chooser_options(const ChooserOptions& options,
                           const std::vector<std::string>& more_predictors) {
    std::vector<std::string> predictors{"last", "ewma", "episodes", "lstm", "auto"};
    predictors.insert(predictors.end(), more_predictors.begin(), more_predictors.end());
    check_word("--predictor", options.predictor, predictors);
    check_word("--efficiency", options.efficiency, {"model", "prior"});
    check_file("--predictor-file", options.predictor_file, uses_model(options.predictor),
               "--predictor lstm or auto");
    check_file("--efficiency-file", options.efficiency_file, options.efficiency == "model",
               "--efficiency model");
}

}  // namespace cohort
