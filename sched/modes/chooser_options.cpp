#include "cohort/sched/chooser_options.hpp"

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// A file that the chosen word leaves unread must not seem to count.
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

void check_chooser_options(const ChooserOptions& options) {
    check_file("--predictor-file", options.predictor_file, uses_model(options.predictor),
               "--predictor lstm or auto");
    check_file("--efficiency-file", options.efficiency_file,
               options.efficiency == EfficiencySource::kModel, "--efficiency model");
}

}  // namespace cohort
